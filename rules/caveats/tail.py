"""A few requests wait much longer for their first token than most.

What it looks at:
    The 95th percentile of the time to first token beside its median, and which part of it is longer in the
    slow ones: queue, load or prefill.

Why it matters:
    The slowest are what people remember. Where their prompts are longer or the model was loaded, the engine
    is not to blame.

When not to worry:
    When the slow ones are known to be another kind of request.

What to change:
    Look at what the slow ones share before changing a setting: `phasewise export` lists them.

Sources:
    Dean and Barroso, The Tail at Scale, doi:10.1145/2408776.2408794.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.rule import Caveat
from rules.samples import median
from rules.words import count, duration

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "tail"

ENOUGH = 20
"""Of fewer requests, the 95th percentile is the slowest one."""

LONGER = 3.0
MATTERS_MS = 500.0

_PARTS = {
    "queue_ms": "waiting for a slot",
    "load_ms": "loading the model",
    "prefill_ms": "reading the prompt",
}


def check(m: Measures) -> Caveat | None:
    """Say how long the slowest twentieth waits, and in which part."""
    rows = m.generations.drop_nulls("ttft_ms")
    usual = median(rows.select("ttft_ms"))
    slow_ms = rows["ttft_ms"].quantile(0.95, interpolation="linear")
    if (
        rows.height < ENOUGH
        or not usual
        or slow_ms is None
        or slow_ms < LONGER * usual
        or slow_ms < MATTERS_MS
    ):
        return None
    slow, rest = (rows.filter(keep) for keep in (pl.col("ttft_ms") >= slow_ms, pl.col("ttft_ms") < slow_ms))
    return Caveat(
        ID,
        f"One request in twenty waits {duration(slow_ms)} or more for its first token, the median "
        f"{duration(usual)}. {_because(slow, rest)}",
    )


def _because(slow: pl.DataFrame, rest: pl.DataFrame) -> str:
    """The part that makes up most of what the slow ones take longer, summed: they need not all have it."""
    longer = {name: _mean(slow, name) - _mean(rest, name) for name in _PARTS if slow[name].count()}
    name = max(longer, key=longer.__getitem__, default=None)
    if name is None or longer[name] <= 0.5 * (_mean(slow, "ttft_ms") - _mean(rest, "ttft_ms")):
        return "The log does not say what makes the slow ones slow."
    tokens, usual = (median(part.select("prefill_tokens")) or 0.0 for part in (slow, rest))
    if name == "prefill_ms" and tokens > LONGER / 2 * usual:
        return f"The slow ones read {count(tokens)} tokens of prompt, the others {count(usual)}."
    return f"In the slow ones, it is {_PARTS[name]} that takes longer."


def _mean(rows: pl.DataFrame, column: str) -> float:
    """Of a time that is not logged where it is none, as loads are."""
    return float(rows[column].sum()) / max(rows.height, 1)
