"""When each request ran: its place on one axis of time, and what stood beside it there.

Requests stand on the process's own clock where the log has one, else on the wall clock. Each is a prefill and
a decode that end with its last token; what lies before, a queue or a load, keeps nobody else waiting. Times
that are printed in whole seconds can't order requests of the same second, so a second is taken off the end of
each before anything counts as overlapping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.frames import beside, numbered, passing
from rules.sweep import Busy, Spans

if TYPE_CHECKING:
    from rules.savings import Array

GROUP = ("source", "run")
"""Requests of different processes are on different clocks."""

WHOLE_SECOND_MS = 1_000.0

_NEEDED = (
    *(*GROUP, "kind", "started_at", "finished_at", "clock_start_ms", "clock_end_ms"),
    *("queue_ms", "load_ms", "prefill_ms", "decode_ms", "total_ms"),
)

_CLOCKED: dict[str, type[pl.DataType]] = {
    "start_ms": pl.Float64,
    "decode_start_ms": pl.Float64,
    "end_ms": pl.Float64,
    "seen_end_ms": pl.Float64,
    "others": pl.Int64,
    "level": pl.Float64,
    "stalled_ms": pl.Float64,
    "arrival_gap_ms": pl.Float64,
    "idle_ms": pl.Float64,
    "alone": pl.Boolean,
}


def clocked(requests: pl.DataFrame, generations: pl.DataFrame) -> pl.DataFrame:
    """The generations among the requests, with what ran beside them; null where no clock tells.

    Added columns, times in ms: ``start_ms``, ``decode_start_ms``, ``end_ms`` (on one axis for all processes,
    on which they lie one behind the other), ``seen_end_ms`` (until then it surely ran); ``others`` (requests
    that ran at any moment of its decode), ``level`` (how many ran on average, itself included),
    ``stalled_ms`` (of its decode, while another's prompt was being read); ``arrival_gap_ms`` (since the one
    before it started), ``idle_ms`` (of that, while nothing ran at all); ``alone`` (nothing ran beside it from
    its first prompt token to its last token).
    """
    rows = requests.select(_NEEDED).with_row_index("row")
    told = _on_one_axis(passing(rows, pl.col("kind") != "benchmark"))
    own = passing(rows, pl.col("kind") == "generation").select("row")
    if not told["row"].equals(own["row"]):
        told = own.join(told, on="row", how="left", maintain_order="left")
    return beside(generations, told.select(*_CLOCKED))


def _on_one_axis(requests: pl.DataFrame) -> pl.DataFrame:
    """Requests that a clock places, with the columns of `clocked`."""
    coarse_ms = resolution_ms(requests["finished_at"].drop_nulls())
    by_process = pl.col("clock_end_ms").is_not_null() & pl.col("clock_start_ms").is_not_null()
    unsplit_ms = pl.when(pl.col("kind") == "generation").then(float("inf")).otherwise(0.0)
    phases_ms = pl.col("prefill_ms").fill_null(0) + pl.col("decode_ms").fill_null(0)
    arrived_ms = (
        pl.coalesce(_epoch_ms("started_at"), _epoch_ms("finished_at") - pl.col("total_ms"))
        + pl.col("queue_ms").fill_null(0)
        + pl.col("load_ms").fill_null(0)
    )
    end_ms = pl.when(by_process).then("clock_end_ms").otherwise(_epoch_ms("finished_at"))
    served_ms = pl.when(pl.col("decode_ms").is_not_null()).then(_epoch_ms("finished_at") - phases_ms)
    timed = (
        requests.with_columns(
            by_process=by_process,
            end_ms=end_ms,
            start_ms=pl.when(by_process).then("clock_start_ms").otherwise(pl.coalesce(served_ms, arrived_ms)),
        )
        .filter(pl.col("start_ms").is_not_null() & (pl.col("end_ms") >= pl.col("start_ms")))
        .with_columns(
            decode_start_ms=pl.max_horizontal(
                "start_ms",
                pl.col("end_ms") - pl.coalesce("decode_ms", unsplit_ms),
            )
        )
        .with_columns(
            prefill_start_ms=pl.max_horizontal(
                "start_ms", pl.col("decode_start_ms") - pl.col("prefill_ms").fill_null(0)
            ),
            seen_end_ms=pl.when("by_process")
            .then("end_ms")
            .otherwise(pl.max_horizontal("start_ms", pl.col("end_ms") - coarse_ms)),
        )
    )
    return _beside(_shifted(timed))


def _shifted(timed: pl.DataFrame) -> pl.DataFrame:
    """Each process's requests on a stretch of one axis of their own, an hour from the next.

    Added column: ``first_ms``, when the process's first one started.
    """
    process = numbered(timed, (*GROUP, "by_process"))
    spans = (
        timed.select("start_ms", "end_ms", process=process)
        .group_by("process")
        .agg(low=pl.col("start_ms").min(), span=pl.col("end_ms").max() - pl.col("start_ms").min() + 3_600_000)
        .sort("process")
    )
    shifts = spans.select("low", shift=pl.col("span").cum_sum() - pl.col("span") - pl.col("low"))
    own = shifts.with_columns(first_ms=pl.col("low") + pl.col("shift"))[process]
    times = ("start_ms", "prefill_start_ms", "decode_start_ms", "seen_end_ms", "end_ms")
    return timed.with_columns(own["first_ms"], *(pl.col(time) + own["shift"] for time in times))


def _beside(timed: pl.DataFrame) -> pl.DataFrame:
    """The requests with what ran beside each."""
    if not timed.height:
        return timed.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in _CLOCKED.items())
    start, prefill, decode, seen, end, first = (
        timed[name].cast(pl.Float64).to_numpy()
        for name in ("start_ms", "prefill_start_ms", "decode_start_ms", "seen_end_ms", "end_ms", "first_ms")
    )
    decode_end = np.maximum(seen, decode)
    spans, reading = Spans(start, seen), Busy(prefill, np.minimum(decode, seen))
    decode_ms, running_ms = decode_end - decode, spans.running_ms(decode, decode_end)
    level = np.divide(running_ms, decode_ms, out=np.ones_like(running_ms), where=decode_ms > 0)
    gap, idle = _pauses(start, end)
    gap[start == first] = idle[start == first] = np.nan
    return timed.with_columns(
        others=pl.Series(spans.others(decode, decode_end), dtype=pl.Int64),
        level=pl.Series(np.maximum(level, 1.0)),
        stalled_ms=pl.Series(reading.ms_before(decode_end) - reading.ms_before(decode)),
        arrival_gap_ms=pl.Series(gap).fill_nan(None),
        idle_ms=pl.Series(idle).fill_nan(None),
        alone=pl.when(pl.col("seen_end_ms") > pl.col("start_ms")).then(
            pl.Series(spans.others(start, seen) == 0)
        ),
    )


def _pauses(start: Array, end: Array) -> tuple[Array, Array]:
    """The time since another one started before each, and of that the time in which none ran."""
    order = np.argsort(start, kind="stable")
    gap, idle = np.full(start.size, np.nan), np.full(start.size, np.nan)
    starts, ended = start[order], np.maximum.accumulate(end[order])
    gap[order[1:]] = np.diff(starts)
    idle[order[1:]] = np.maximum(starts[1:] - ended[:-1], 0.0)
    return gap, idle


def most_at_once(clocked: pl.DataFrame) -> int | None:
    """Most requests that ran at once; ``None`` without a clock fine enough to see any of them run."""
    timed = clocked.select("start_ms", "seen_end_ms").filter(pl.col("seen_end_ms") > pl.col("start_ms"))
    return Spans(*(timed[name].to_numpy() for name in timed.columns)).most() if timed.height else None


def _epoch_ms(column: str) -> pl.Expr:
    return pl.col(column).dt.epoch("us") / 1000


def resolution_ms(times: pl.Series) -> float:
    """A second where all of these are whole seconds, else 0."""
    whole = times.len() > 0 and bool((times.dt.microsecond() == 0).all())
    return WHOLE_SECOND_MS if whole else 0.0
