"""The model was unloaded while nobody asked, and the next request waits for it to be loaded.

What it looks at:
    Requests that loaded the model first (a second or more), four and a half minutes or more after the last
    request to the same model ended, with no other model used in between and the same options as before.

Why it matters:
    The first request after each pause waits for the whole load, and the prompt cache is gone.

When not to worry:
    The memory is needed for something else meanwhile. The first load after a start is not counted, nor are
    loads after short pauses (`reload-each-request`) and of models that take turns
    (`models-evict-each-other`).

What to change:
    Keep the model loaded. Ollama unloads after five minutes, LM Studio after sixty, by default. The saving
    is all of these loads.

Sources:
    Ollama docs/faq.mdx (keep_alive); lmstudio.ai/docs (idle TTL); llama.cpp tools/server/README.md
    (`--sleep-idle-seconds`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.loads import IDLE_MS, generations_in, same_options
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.savings import loads_avoided
from rules.words import duration, plural

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="reload-after-idle",
    across=True,
    phase=Phase.LOAD,
    title="The model is unloaded in pauses and loaded again",
    needs=("load_ms", "started_at", "finished_at"),
    remedies=("keep-loaded",),
    verify="Wait ten minutes and send a request: it should start without a load.",
    sources=("Ollama docs/faq.mdx", "lmstudio.ai/docs/api/ttl-and-auto-evict"),
    thresholds={
        "idle_ms": Threshold(IDLE_MS, "ms without a request, after which a load counts as one after a pause"),
    },
)


def check(m: Measures) -> Answer:
    """Ask whether loads follow pauses."""
    rows = m.loads
    again = rows.filter(pl.col("loaded") & pl.col("again") & ~pl.col("between"))
    if not m.requests["load_ms"].count():
        return CannotTell("loads are not logged")
    if again.height and not again["gap_ms"].count():
        return CannotTell("without a clock, pauses are not known")
    idle = again.filter(pl.col("gap_ms") >= m.thresholds(RULE)["idle_ms"])
    alike = [same_options(m, run, own) is not False for run, own in idle.select("run", "own_run").iter_rows()]
    idle = idle.filter(pl.Series(alike, dtype=pl.Boolean))
    load_ms = float(idle["load_ms"].sum())
    if not idle.height or not m.worth(load_ms, idle.height):
        return NotApplicable("no loads after pauses that matter")
    change = loads_avoided(generations_in(rows, idle))
    gap_ms, each_ms = median(idle.select("gap_ms")), median(idle.select("load_ms"))
    named = idle["model"].count() == idle.height
    return RULE.finding(
        confidence=Confidence.LIKELY if named else Confidence.POSSIBLE,
        why=f"{plural(idle.height, 'request')} came {duration(gap_ms)} after the last one (median) and "
        f"waited {duration(each_ms)} for the model to be loaded again: {duration(load_ms)} in all.",
        evidence=(
            m.evidence("loads after a pause", idle.height, "requests", rows=idle),
            m.evidence("load, median", each_ms, "ms"),
            m.evidence("pause before it, median", gap_ms, "ms"),
        ),
        requests=idle.height,
        saving=m.saving(change),
        change=change,
        fixes=(m.fix("keep-loaded"),),
    )
