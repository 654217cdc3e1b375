"""Decode slows down while the machine works, as one does that gets hot or is given less power.

What it looks at:
    Requests that ran alone in a stretch of work of ten minutes or more, with pauses of a minute at most: the
    time per token in its first third and in its last, compared at the same context. That it is fast again
    after a rest makes it likely; without a rest in the log it is one of several causes.

Why it matters:
    A laptop or a card with a low power limit holds its full clock for minutes only. Benchmarks of a minute
    don't show it, and long jobs live with what comes after.

When not to worry:
    Where contexts grow while the machine works: then tokens get slower for that reason, and the rule says
    nothing if the two can't be told apart. Another program that started in between looks the same.

What to change:
    Look at what holds the clocks down; then cooling, mains power, a power mode. The saving is an upper bound:
    all tokens as fast as in the first third.

Sources:
    llama.cpp#10444 (throttling during generation on Apple Silicon).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.clocks import unplaced
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import decode_scaled
from rules.words import duration, percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer
    from rules.savings import Array

RULE = Rule(
    id="thermal-or-power",
    phase=Phase.DECODE,
    title="Decode slows down the longer the machine works",
    needs=("clock", "decode_ms"),
    remedies=("cool-down",),
    verify="Let it rest for ten minutes and send one request: if tokens are as fast as at first, heat or "
    "power held them back.",
    sources=("llama.cpp#10444",),
    thresholds={
        "slower": Threshold(
            1.18,
            "time per token in the last third over the first from which it matters: 0.85 of the speed; a "
            "guess",
        ),
        "busy_ms": Threshold(600_000, "ms of work with short pauses from which heat shows; a guess"),
        "rest_ms": Threshold(60_000, "ms without work after which a machine has cooled a little; a guess"),
        "together": Threshold(
            0.8, "correlation of context with time, 0-1, above which the two can't be told apart"
        ),
    },
)

SAMPLES = 12
"""Four in each third."""

ALIKE = 1.1
"""Largest context over smallest up to which contexts need no comparing."""


def check(m: Measures) -> Answer:
    """Ask whether work itself slows decode down."""
    t = m.thresholds(RULE)
    if not m.overlap.known:
        return CannotTell(unplaced(m))
    if m.decoding.speculative:
        return NotApplicable("with speculation, ms per token differs by text")
    rows = _stretches(m, t["rest_ms"])
    work = rows.filter(pl.col("stretch") == _longest(rows))
    busy_ms = _span_ms(work)
    if busy_ms < t["busy_ms"]:
        return NotApplicable(f"no stretch of work lasts {duration(t['busy_ms'])}")
    if work["ms"].count() < SAMPLES:
        return CannotTell("too few answers were generated alone while the machine worked")
    slope = _context_slope(work.drop_nulls("ms"), t["together"])
    if slope is None:
        return CannotTell("contexts grow in step with time, so the two can't be told apart")
    typical = float(np.median(work.drop_nulls("ms")["context"].to_numpy()))
    rows = rows.with_columns(even=pl.col("ms") - slope * (pl.col("context") - typical))
    work = rows.filter(pl.col("stretch") == _longest(rows)).drop_nulls("even")
    first, last = _third(work, 0), _third(work, 2)
    if min(first.height, last.height) < SAMPLES // 3:
        return CannotTell("too few answers were generated alone while the machine worked")
    before, after = (float(np.median(third["even"].to_numpy())) for third in (first, last))
    if after < t["slower"] * before or not _apart(first, last):
        return NotApplicable("the last tokens are as fast as the first")
    change = decode_scaled(_factors(rows, work, before))
    saving = m.saving(change, bound="at_most")
    if not m.worth(saving.ms, work.height):
        return NotApplicable("too little time to matter")
    rested = _fast_again(rows, work, (before + after) / 2)
    return RULE.finding(
        confidence=Confidence.LIKELY if rested else Confidence.POSSIBLE,
        why=f"In {duration(busy_ms)} of work the time per token rose from {before:,.1f} to {after:,.1f} ms "
        f"at the same context, to {percent(before / after)} of the speed"
        f"{', and fell again after a rest' if rested else ''}.",
        evidence=(
            m.evidence("time per token in the first third, median", round(before, 2), "ms", rows=first),
            m.evidence("the same in the last third", round(after, 2), "ms", rows=last),
            m.evidence("work without a rest", round(busy_ms), "ms"),
        ),
        requests=work.height,
        change=change,
        saving=saving,
        fixes=(m.fix("cool-down"),),
    )


def _stretches(m: Measures, rest_ms: float) -> pl.DataFrame:
    """The generations in their own order, with what a token took, at what context, in which stretch of work.

    ``ms`` and ``context`` are null but for answers that tell: long enough, and generated alone.
    """
    telling = m.decoding.alone.select(
        "source",
        "line",
        ms=pl.col("decode_ms") / pl.col("decode_steps"),
        context=pl.coalesce("context_tokens", pl.col("prompt_tokens") + pl.col("output_tokens"))
        - pl.col("output_tokens") / 2,
    ).drop_nulls()
    rows = m.overlap.requests.select("source", "line", "start_ms", "end_ms", "idle_ms")
    numbered = rows.with_row_index("row").sort("start_ms", maintain_order=True)
    fresh = (pl.col("idle_ms").is_null() | (pl.col("idle_ms") >= rest_ms)).cast(pl.Int64)
    return (
        numbered.with_columns(stretch=fresh.cum_sum())
        .select("row", "source", "line", "start_ms", "end_ms", "stretch")
        .join(telling, on=["source", "line"], how="left")
        .sort("row")
    )


def _longest(rows: pl.DataFrame) -> int:
    spans = rows.group_by("stretch").agg(ms=pl.col("end_ms").max() - pl.col("start_ms").min())
    return int(spans.sort("ms", "stretch", descending=[True, False])["stretch"][0])


def _span_ms(rows: pl.DataFrame) -> float:
    return float(rows.select(pl.col("end_ms").max() - pl.col("start_ms").min()).item() or 0.0)


def _context_slope(work: pl.DataFrame, together: float) -> float | None:
    """Ms per token for each token of context, beside a drift in time; ``None`` where both grow together."""
    context, time, ms = (work[name].to_numpy().astype(np.float64) for name in ("context", "start_ms", "ms"))
    if context.max() <= ALIKE * context.min():
        return 0.0
    if abs(float(np.corrcoef(context, time)[0, 1])) > together:
        return None
    design = np.column_stack([np.ones_like(ms), context, time - time.min()])
    return max(float(np.linalg.lstsq(design, ms, rcond=None)[0][1]), 0.0)


def _third(work: pl.DataFrame, which: int) -> pl.DataFrame:
    """The answers that began in the first (0) or last (2) third of the time."""
    start, end = pl.col("start_ms").min(), pl.col("start_ms").max()
    passed = (pl.col("start_ms") - start) / (end - start)
    return work.filter((3 * passed).floor().clip(0, 2) == which).sort("start_ms")


def _apart(first: pl.DataFrame, last: pl.DataFrame) -> bool:
    """Nearly all of the last third is slower than nearly all of the first."""
    return bool(np.quantile(first["even"].to_numpy(), 0.9) < np.quantile(last["even"].to_numpy(), 0.1))


def _factors(rows: pl.DataFrame, work: pl.DataFrame, before: float) -> Array:
    """For each request, its decode at the first third's speed over its decode now."""
    factors = np.ones(rows.height)
    slower = (work["even"].to_numpy() - before).clip(min=0.0)
    factors[work["row"].to_numpy()] = 1 - slower / work["ms"].to_numpy()
    return factors


def _fast_again(rows: pl.DataFrame, work: pl.DataFrame, halfway: float) -> bool:
    """Whether the first answer that tells after a rest is nearer to the first third's speed."""
    later = rows.filter(pl.col("start_ms") > work["start_ms"].max()).drop_nulls("even")
    rested = later.filter(pl.col("stretch") != work["stretch"][0]).sort("start_ms")
    return rested.height > 0 and float(rested["even"][0]) < halfway
