"""The model is loaded again although it was in use a moment ago.

What it looks at:
    Requests that loaded the model first (a second or more), less than four and a half minutes after the
    last request to the same model ended; and whether its starts asked for different contexts, slots or
    batches.

Why it matters:
    Each load adds seconds to the time to first token, and throws away the prompt cache as well.

When not to worry:
    The first load after a start, a load after a long pause (that is the idle timeout at work), and
    different models taking turns in memory that holds only one. These are not counted. Nor is a single load
    in a long log, as after a change of settings.

What to change:
    Send the same load options with every request. Ollama loads a model again when `num_ctx`, `num_gpu`,
    `use_mlock` and the like differ from what it was loaded with, chat and embeddings alike; some clients
    compute `num_ctx` from the prompt. Also look for `"keep_alive": 0`. The saving is all loads but the
    first and those after a pause.

Sources:
    ollama#8903, ollama#6148, aider#4687, aider#3594, aider#4764, paperless-ai#859; Ollama docs/faq.mdx
    (keep_alive).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl

from rules.loads import LOAD_MS, OPTIONS
from rules.rule import CannotTell, Confidence, Evidence, LineRef, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.savings import loads_avoided
from rules.words import duration

if TYPE_CHECKING:
    from parsers.setup import Setup
    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.rule import Answer

RULE = Rule(
    id="reload-each-request",
    across=True,
    phase=Phase.LOAD,
    title="The model is loaded again while it is in use",
    needs=("load_ms",),
    remedies=("fixed-context", "keep-loaded"),
    verify="Send two requests in a row: the second should start without a load.",
    sources=("ollama#8903", "ollama#6148", "aider#4687", "aider#3594", "paperless-ai#859"),
    thresholds={
        "load_ms": Threshold(LOAD_MS, "ms from which a load counts"),
        "idle_ms": Threshold(
            4.5 * 60_000,
            "ms without a request after which a load is the idle timeout's; Ollama unloads after 5 minutes",
        ),
        "again_share": Threshold(
            0.2, "share of requests with such a load, below which a single one is no matter; first guess"
        ),
    },
)

SEVERAL = 2

MOST = 0.5
"""Of the requests: from here on it is request after request."""

_KEEP_ALIVE = (
    "A longer keep-alive: the model is loaded again because its options differ, not for lack of use."
)


def check(m: Measures) -> Answer:
    """Ask whether loads follow each other without need."""
    changed, t = _changed(m), m.thresholds(RULE)
    rows = _beside(m.requests, t) if (m.requests["load_ms"] >= t["load_ms"]).any() else m.requests.clear()
    again = rows.filter("again") if rows.height else rows
    if not again.height:
        return _from_starts(m, changed)
    share = again.height / rows.height
    if again.height < SEVERAL and share < m.thresholds(RULE)["again_share"]:
        return NotApplicable(f"1 of {rows.height:,} requests loaded the model again")
    load_ms, each_ms = float(again["load_ms"].sum()), median(again.select("load_ms")) or 0.0
    if not m.worth(load_ms, again.height):
        return NotApplicable("too little time to matter")
    gap_ms = median(again.select("gap_ms"))
    named = SEVERAL * len(changed) >= again.height
    known = again["gap_ms"].count() == again["model"].count() == again.height
    likely = Confidence.LIKELY if known else Confidence.POSSIBLE
    change = loads_avoided(rows.filter(pl.col("kind") == "generation")["again"].cast(pl.Float64).to_numpy())
    after = "after pauses that are not logged" if gap_ms is None else f"{duration(gap_ms)} after the last"
    return RULE.finding(
        title=_title(again.height, share),
        confidence=Confidence.CERTAIN if named else likely,
        why=f"{again.height:,} of {rows.height:,} requests loaded the model again, {duration(each_ms)} each, "
        f"{after}.{_differences(changed)}",
        evidence=(
            m.evidence("loads after a request to the same model", again.height, "requests", rows=again),
            m.evidence("load, median", each_ms, "ms", rows=again),
            m.evidence("pause before it, median", gap_ms, "ms"),
            *_evidence(changed),
        ),
        requests=again.height,
        saving=m.saving(change),
        change=change,
        fixes=_fixes(m, changed),
        wont_help=(_KEEP_ALIVE,) if changed else (),
    )


def _title(again: int, share: float) -> str:
    if share >= MOST and again >= SEVERAL:
        return "The model is loaded again for request after request"
    return f"The model was loaded again {'once' if again == 1 else f'{again} times'}, while it was in use"


def _beside(requests: pl.DataFrame, t: dict[str, float]) -> pl.DataFrame:
    """Requests of any kind, in their order; ``again`` marks a load soon after a request to the same model."""
    model, before = pl.col("model"), pl.col("model").shift(1).over("source")
    ended = pl.col("finished_at").shift(1).over("source")
    soon = (pl.col("gap_ms") < t["idle_ms"]) | pl.col("gap_ms").is_null()
    follows = pl.int_range(pl.len()).over("source") > 0
    same = (model == before) | model.is_null() | before.is_null()
    return (
        requests.with_row_index("row")
        .sort("source", "line")
        .with_columns(gap_ms=(pl.col("started_at") - ended).dt.total_microseconds() / 1000)
        .with_columns(
            again=((pl.col("load_ms") >= t["load_ms"]) & soon & follows & same).fill_null(value=False)
        )
        .sort("row")
    )


def _changed(m: Measures) -> list[tuple[Setup, Setup]]:
    """Successive starts of one model that differ in what it was loaded with, if the engine logs loads."""
    if m.events.filter(pl.col("kind") == "model_load").height < SEVERAL:
        return []
    return [
        (one, other)
        for one, other in pairwise(sorted(m.setups, key=lambda s: (s.source, s.line)))
        if one.source == other.source
        and one.model == other.model is not None
        and any(
            None not in (a := getattr(one, fact), b := getattr(other, fact)) and a != b for fact in OPTIONS
        )
    ]


def _from_starts(m: Measures, changed: list[tuple[Setup, Setup]]) -> Answer:
    """No request is known to have waited for a load, but the starts themselves may tell."""
    loads = m.events.filter(pl.col("kind") == "model_load")
    if not m.requests["load_ms"].count() and loads.height < SEVERAL:
        return CannotTell("loads are not logged")
    if len(changed) < SEVERAL:
        return NotApplicable("no load follows a request to the same model within minutes")
    load_ms = float(loads["value"].sum())
    return RULE.finding(
        confidence=Confidence.LIKELY,
        why=f"One model was started {len(changed) + 1} times in a row"
        + (f", {duration(load_ms)} of loading." if load_ms else ".")
        + _differences(changed),
        evidence=(m.evidence("loads", loads.height, rows=loads), *_evidence(changed)),
        requests=len(changed),
        fixes=_fixes(m, changed),
        wont_help=(_KEEP_ALIVE,),
    )


def _differences(changed: list[tuple[Setup, Setup]]) -> str:
    contexts = [s.context or s.context_total for s in _starts(changed)]
    if len({c for c in contexts if c is not None}) > 1:
        listed = ", ".join(f"{c:,}" for c in contexts[:4] if c is not None)
        return (
            f" Its starts asked for different contexts: {listed}{' and others' if len(contexts) > 4 else ''}."
        )
    return " Its starts asked for different options." if changed else ""


def _starts(changed: list[tuple[Setup, Setup]]) -> list[Setup]:
    """Each start of these pairs once, in order."""
    return [*(one for one, _ in changed[:1]), *(other for _, other in changed)]


def _evidence(changed: list[tuple[Setup, Setup]]) -> list[Evidence]:
    return [
        Evidence(
            "context it was started with",
            s.context or s.context_total,
            "tokens",
            (LineRef(s.source, s.line),),
        )
        for s in _starts(changed)[:3]
    ]


def _fixes(m: Measures, changed: list[tuple[Setup, Setup]]) -> tuple[Fix, ...]:
    """The same options everywhere, unless the log shows that they are: then something unloads the model."""
    if changed:
        return (m.fix("fixed-context"),)
    same = sum(s.context is not None for s in m.setups) >= SEVERAL
    return tuple(m.fix(remedy) for remedy in (reversed(RULE.remedies) if same else RULE.remedies))
