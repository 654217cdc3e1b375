"""Models take turns in memory that does not hold them together, so that each use loads one anew.

What it looks at:
    Requests that loaded their model although it had been in use minutes before, with another model used in
    between; at least three such loads, of two models or more.

Why it matters:
    Each change of model costs a load, and the prompt caches go with it. A small model for titles, embeddings
    or autocompletion can cost more than all the answers of the large one.

When not to worry:
    Models that are compared once. Loads after pauses longer than the idle timeout are not counted.

What to change:
    Make them fit together: smaller contexts and quantizations, embedding models on the CPU; else one model
    for all tasks. Ollama keeps a second model on a GPU only if it fits completely. The saving is all of
    these loads.

Sources:
    Ollama docs/faq.mdx (concurrent models); lmstudio.ai/docs (Auto-Evict); llama.cpp tools/server/README.md
    (`--models-max`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.loads import IDLE_MS, generations_in
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.savings import loads_avoided
from rules.words import duration

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="models-evict-each-other",
    across=True,
    phase=Phase.LOAD,
    title="Models push each other out of memory",
    needs=("load_ms", "model"),
    remedies=("smaller-models-together", "fewer-loaded-models"),
    verify="Use both models in turn: from the second round on, no request should wait for a load.",
    sources=("Ollama docs/faq.mdx", "lmstudio.ai/docs/api/ttl-and-auto-evict"),
    thresholds={
        "loads": Threshold(3, "loads after another model's turn: two may be chance"),
        "idle_ms": Threshold(IDLE_MS, "ms since its last use, after which a load may be due to the timeout"),
    },
)

_KEEP_ALIVE = "A longer keep-alive: a model is unloaded to make room for the other, not for lack of use."


def check(m: Measures) -> Answer:
    """Ask whether loads follow the other model's turns."""
    if not m.requests["load_ms"].count():
        return CannotTell("loads are not logged")
    if not m.requests["model"].count():
        return CannotTell("the log does not say which model a request used")
    t, rows = m.thresholds(RULE), m.loads
    soon = (pl.col("gap_ms") < t["idle_ms"]) | pl.col("gap_ms").is_null()
    turns = rows.drop_nulls("model").filter(pl.col("loaded") & pl.col("again") & pl.col("between") & soon)
    models = turns["model"].unique().sort().to_list()
    if turns.height < t["loads"] or len(models) < 2:
        return NotApplicable("no models take turns in memory")
    load_ms = float(turns["load_ms"].sum())
    if not m.worth(load_ms, turns.height):
        return NotApplicable("too little time to matter")
    change = loads_avoided(generations_in(rows, turns))
    known = turns["gap_ms"].count() == turns.height
    return RULE.finding(
        confidence=Confidence.LIKELY if known else Confidence.POSSIBLE,
        why=f"{turns.height:,} requests loaded their model again because another one had been used in "
        f"between ({', '.join(models[:3])}{' and others' if len(models) > 3 else ''}), "
        f"{duration(median(turns.select('load_ms')))} each: {duration(load_ms)} in all.",
        evidence=(
            m.evidence("loads after another model's turn", turns.height, "requests", rows=turns),
            m.evidence("models that take turns", len(models), "models"),
            m.evidence("load, median", median(turns.select("load_ms")), "ms"),
            m.evidence("since its last use, median", median(turns.select("gap_ms")), "ms"),
        ),
        requests=turns.height,
        saving=m.saving(change),
        change=change,
        fixes=(
            m.fix("smaller-models-together", models=len(models)),
            m.fix("fewer-loaded-models"),
        ),
        wont_help=(_KEEP_ALIVE,),
    )
