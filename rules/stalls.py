"""What running answers get while prompts are read, from the lines of engines that log no requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from rules.placed import GROUP
from rules.samples import median

if TYPE_CHECKING:
    from rules.measures import Measures

FEWEST_CLEAR = 3
"""Windows or batches without prompts that tell what an answer gets by itself."""


@dataclass(frozen=True, slots=True)
class Stall:
    """What one kind of interval lines tells.

    Attributes:
        rows: the intervals in which answers stood still.
        clear: tokens a second that one answer gets without prompts, beside the fewest others seen.
        slow: tokens a second while prompts are read: of one answer, in windows of all together.
        lost_ms: what one answer lost; ``None`` where the lines don't say how long they lasted.
        busy_ms: how long the engine worked in all.
        prefill_tok_s: rate at which those prompts were read, where it is known.
        step_tokens: the largest step of prompt tokens seen.
    """

    rows: pl.DataFrame
    clear: float
    slow: float
    lost_ms: float | None
    busy_ms: float
    prefill_tok_s: float | None = None
    step_tokens: int | None = None


def of_intervals(m: Measures, times_slower: float) -> Stall | str:
    """The stall that this log's steps, windows or batches show, or why they can't.

    Args:
        m: the log's measures.
        times_slower: from which factor on an answer counts as standing still.
    """
    for kind, look in (("iteration", _steps), ("window", _windows), ("decode_batch", _batches)):
        rows = m.intervals.filter(pl.col("kind") == kind)
        if rows.height:
            return look(m, rows, times_slower)
    return "no line tells when requests ran beside each other"


def _steps(_m: Measures, rows: pl.DataFrame, times_slower: float) -> Stall | str:
    """From exact steps: an answer gets one token from each, however long it takes."""
    clear_ms = median(rows.filter(pl.col("phase") == "decode").select("span_ms"))
    mixed = rows.filter((pl.col("phase") == "mixed") & (pl.col("span_ms") > 0))
    if not clear_ms or not mixed.height:
        return "no step reads a prompt while answers run"
    slow = mixed.filter(pl.col("span_ms") >= times_slower * clear_ms)
    reading_ms = float(slow["span_ms"].sum())
    return Stall(
        slow,
        clear=1000 / clear_ms,
        slow=1000 / (median(slow.select("span_ms")) or clear_ms),
        lost_ms=float((slow["span_ms"] - clear_ms).sum()),
        busy_ms=float(rows["span_ms"].sum()),
        prefill_tok_s=1000 * float(slow["prefill_tokens"].sum()) / reading_ms if reading_ms else None,
        step_tokens=largest(slow["prefill_tokens"]),
    )


def _windows(_m: Measures, rows: pl.DataFrame, times_slower: float) -> Stall | str:
    """From averages. Prompt tokens are credited when their prompt is done, so its windows show none.

    Windows stand still where all answers together get far less than one gets alone. Prompts are to blame
    where a run of such windows holds a prefill window, or ends with prompt tokens.
    """
    clear = rows.filter((pl.col("phase") == "decode") & (pl.col("running") > 0))
    levels = clear.group_by("running").agg(n=pl.len(), tok_s=pl.col("decode_tok_s").median()).sort("running")
    levels = levels.filter(pl.col("n") >= FEWEST_CLEAR)
    if not levels.height:
        return "too few windows in which only answers were generated"
    one = float(levels["tok_s"][0]) / float(levels["running"][0])
    rate, reading = pl.col("decode_tok_s"), pl.col("phase").is_in(["prefill", "mixed"])
    told = (
        rows.with_columns(still=(pl.col("running") > 1) & (rate > 0) & (rate * times_slower <= one))
        .with_columns(stretch=pl.col("still").rle_id().over(GROUP))
        .with_columns(read=(reading | reading.shift(-1).over(GROUP)).any().over(*GROUP, "stretch"))
        .with_columns(stood=pl.col("still") & pl.col("read"))
    )
    stalled = told.filter("stood")
    reading_ms = float(stalled["span_ms"].sum())
    prompts = told.filter(pl.col("stood") | pl.col("stood").shift(1).over(GROUP))
    tokens = float(prompts.select((pl.col("prefill_tok_s") * pl.col("span_ms")).sum()).item()) / 1000
    lost = stalled.select(pl.col("span_ms") * (1 - rate / one)).to_series()
    return Stall(
        stalled.select(rows.columns),
        clear=one,
        slow=median(stalled.select("decode_tok_s")) or one,
        lost_ms=_all_of(lost),
        busy_ms=float(rows.filter(~pl.col("phase").is_in(["idle", "unknown"]))["span_ms"].sum()),
        prefill_tok_s=1000 * tokens / reading_ms if reading_ms and tokens else None,
    )


def _batches(m: Measures, rows: pl.DataFrame, times_slower: float) -> Stall | str:
    """From every fortieth decode batch: its rate holds the prefills since the one before."""
    rated = rows.filter((pl.col("running") > 0) & pl.col("decode_tok_s").is_not_null()).with_columns(
        each=pl.col("decode_tok_s") / pl.col("running")
    )
    clear = rated.filter(pl.col("phase") == "decode")
    one = median(clear.select("each"))
    if one is None or clear.height < FEWEST_CLEAR:
        return "too few decode batches without prefills in between"
    slow = rated.filter((pl.col("phase") == "mixed") & (pl.col("each") * times_slower <= one))
    lost = slow.select(pl.col("span_ms") * (1 - pl.col("each") / one)).to_series()
    prompts = m.intervals.filter(pl.col("kind") == "prefill_batch")
    return Stall(
        slow.select(rows.columns),
        clear=one,
        slow=median(slow.select("each")) or one,
        lost_ms=_all_of(lost),
        busy_ms=float(rated["span_ms"].sum()),
        prefill_tok_s=median(prompts.select("prefill_tok_s")),
        step_tokens=largest(prompts["prefill_tokens"]),
    )


def _all_of(lost_ms: pl.Series) -> float | None:
    """Their sum; ``None`` where one is unknown, or nothing is there."""
    return float(lost_ms.sum()) if lost_ms.len() and not lost_ms.null_count() else None


def largest(values: pl.Series) -> int | None:
    """The largest of whole numbers; ``None`` of nothing."""
    value = values.max()
    return value if isinstance(value, int) else None
