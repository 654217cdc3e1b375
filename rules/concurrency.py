"""Who ran beside whom: each request's company while it generated, and what the company cost in speed.

Requests stand on the process's own clock where the log has one, else on the wall clock. Each is a prefill and
a decode that end with its last token; what lies before, a queue or a load, keeps nobody else waiting. Times
that are printed in whole seconds can't order requests of the same second, so a second is taken off the end of
each before anything counts as overlapping.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.frames import beside, passing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rules.measures import Measures
    from rules.savings import Array

GROUP = ("source", "run")
"""Requests of different processes are on different clocks."""

WHOLE_SECOND_MS = 1_000.0

CURVE_TOKENS = 32
"""Shorter answers tell nothing of a rate."""

CURVE_STALLED = 0.2
"""Of the decode time: where other prompts were read for longer, the time per token is not that of a batch."""

STEADY = 0.1
"""Change in running requests between two windows below which the second ran at one concurrency."""

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


class Overlap:
    """One log's requests side by side.

    Args:
        m: the log's measures.
    """

    def __init__(self, m: Measures) -> None:
        self._m = m

    @property
    def requests(self) -> pl.DataFrame:
        """The generations with what ran beside them: see `clocked`."""
        return self._m.clocked

    @cached_property
    def known(self) -> bool:
        """Whether nearly every generation has its place on a clock, so that "alone" means alone."""
        told = self.requests["alone"].count()
        return told > 0 and told >= 0.9 * self.requests.height

    @cached_property
    def alone(self) -> pl.DataFrame:
        """Generations that nothing ran beside; none where the clock doesn't tell."""
        return self.requests.filter("alone") if self.known else self.requests.clear()

    @cached_property
    def most(self) -> int | None:
        """Most requests that ran at once; ``None`` without a clock fine enough to see any of them run."""
        timed = self.requests.filter(pl.col("seen_end_ms") > pl.col("start_ms"))
        if not timed.height:
            return None
        starts, ends = (np.sort(timed[name].to_numpy()) for name in ("start_ms", "seen_end_ms"))
        running = np.arange(1, timed.height + 1) - np.searchsorted(ends, starts, side="right")
        return int(running.max())

    @cached_property
    def resolution_ms(self) -> float:
        """Pauses below this can't be told from none: a second where times are printed in whole seconds."""
        by_process = self._m.generations["clock_end_ms"].count() > 0
        return 0.0 if by_process else _resolution_ms(self._m.generations["finished_at"].drop_nulls())

    @cached_property
    def curve(self) -> pl.DataFrame:
        """What all requests together generated, by how many ran: ``level``, ``samples``, ``tok_s``.

        From requests, each at the mean of what ran beside it, where hardly a prompt was read meanwhile; else
        from steps, batches and steady windows. ``level`` is a rounded count, ``tok_s`` the median of its
        samples.
        """
        samples = self._of_requests() if self.known else self._of_intervals()
        return (
            samples.filter(pl.col("level") >= 1)
            .with_columns(level=_rounded(pl.col("level")))
            .group_by("level")
            .agg(samples=pl.len(), tok_s=pl.col("tok_s").median())
            .sort("level")
        )

    def _of_requests(self) -> pl.DataFrame:
        steady = self.requests.filter(
            (pl.col("output_tokens") >= CURVE_TOKENS)
            & (pl.col("decode_steps") > 0)
            & (pl.col("decode_ms") > 0)
            & (pl.col("stalled_ms") <= CURVE_STALLED * pl.col("decode_ms"))
        )
        return steady.select(
            level=pl.col("level").round().cast(pl.Int64),
            tok_s=1000 * pl.col("level") * pl.col("decode_steps") / pl.col("decode_ms"),
        )

    def _of_intervals(self) -> pl.DataFrame:
        rows = self._m.intervals.filter((pl.col("phase") == "decode") & (pl.col("running") > 0))
        steps = rows.filter((pl.col("kind") == "iteration") & (pl.col("span_ms") > 0)).select(
            level="running", tok_s=1000 * pl.col("decode_tokens") / pl.col("span_ms")
        )
        batches = rows.filter(pl.col("kind") == "decode_batch").select(level="running", tok_s="decode_tok_s")
        windows = steady_windows(self._m.intervals).select(level="running", tok_s="decode_tok_s")
        return pl.concat([steps, batches, windows]).drop_nulls()


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


def steady_windows(intervals: pl.DataFrame) -> pl.DataFrame:
    """Windows that only generated and as many requests as the one before them: their rate is a speed."""
    before = pl.col("running").shift(1).over(GROUP)
    return (
        intervals.filter(pl.col("kind") == "window")
        .filter(
            (pl.col("phase") == "decode")
            & (pl.col("running") > 0)
            & ((pl.col("running") - before).abs() <= STEADY * pl.col("running"))
            & (pl.col("phase").shift(1).over(GROUP) == "decode")
        )
        .drop_nulls("decode_tok_s")
    )


def _rounded(level: pl.Expr) -> pl.Expr:
    """Counts up to 8 as they are, up to 16 in twos, up to 32 in fours."""
    step = (level - 1).clip(1).log(2).floor().sub(2).clip(0).cast(pl.Int64)
    grain = pl.lit(2).pow(step).cast(pl.Int64)
    return ((level + grain // 2) // grain * grain).cast(pl.Int64)


def _on_one_axis(requests: pl.DataFrame) -> pl.DataFrame:
    """Requests that a clock places, with the columns of `Overlap.requests`."""
    resolution_ms = _resolution_ms(requests["finished_at"].drop_nulls())
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
            .otherwise(pl.max_horizontal("start_ms", pl.col("end_ms") - resolution_ms)),
        )
    )
    return _beside(_shifted(timed))


def _shifted(timed: pl.DataFrame) -> pl.DataFrame:
    """Each process's requests on a stretch of one axis of their own, an hour from the next."""
    process = (*GROUP, "by_process")
    spans = timed.group_by(process, maintain_order=True).agg(
        low=pl.col("start_ms").min(), span=pl.col("end_ms").max() - pl.col("start_ms").min() + 3_600_000
    )
    shifts = spans.select(*process, shift=pl.col("span").cum_sum() - pl.col("span") - pl.col("low"))
    times = ("start_ms", "prefill_start_ms", "decode_start_ms", "seen_end_ms", "end_ms")
    placed = timed.join(shifts, on=process, how="left", maintain_order="left")
    return placed.with_columns(pl.col(times) + pl.col("shift"))


def _beside(timed: pl.DataFrame) -> pl.DataFrame:
    """Count and measure by sorted starts and ends: no request is compared with each other one."""
    if not timed.height:
        return timed.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in _CLOCKED.items())
    start, prefill, decode, seen, end = (
        timed[name].cast(pl.Float64).to_numpy()
        for name in ("start_ms", "prefill_start_ms", "decode_start_ms", "seen_end_ms", "end_ms")
    )
    starts, ends = np.sort(start), np.sort(seen)
    decode_end = np.maximum(seen, decode)
    while_decoding = _met(starts, ends, decode, decode_end)
    reading = _Busy(prefill, np.minimum(decode, seen))
    decode_ms = decode_end - decode
    running_ms = _work_ms(starts, decode_end) - _work_ms(starts, decode)
    running_ms -= _work_ms(ends, decode_end) - _work_ms(ends, decode)
    level = np.divide(running_ms, decode_ms, out=np.ones_like(running_ms), where=decode_ms > 0)
    order = np.argsort(start, kind="stable")
    gap, idle = np.full(start.size, np.nan), np.full(start.size, np.nan)
    gap[order[1:]] = np.diff(start[order])
    idle[order[1:]] = np.maximum(start[order][1:] - np.maximum.accumulate(end[order])[:-1], 0.0)
    first = timed.select(pl.col("start_ms") == pl.col("start_ms").min().over(*GROUP, "by_process"))
    own = first.to_series().to_numpy()
    gap[own] = idle[own] = np.nan
    return timed.with_columns(
        others=pl.Series(while_decoding, dtype=pl.Int64),
        level=pl.Series(np.maximum(level, 1.0)),
        stalled_ms=pl.Series(reading.ms_before(decode_end) - reading.ms_before(decode)),
        arrival_gap_ms=pl.Series(gap).fill_nan(None),
        idle_ms=pl.Series(idle).fill_nan(None),
        alone=pl.when(pl.col("seen_end_ms") > pl.col("start_ms")).then(
            pl.Series(_met(starts, ends, start, seen) == 0)
        ),
    )


def _met(starts: Array, ends: Array, begin: Array, finish: Array) -> NDArray[np.int64]:
    """How many others ran at some moment between ``begin`` and ``finish`` of each."""
    begun = np.searchsorted(starts, finish, side="left")
    over = np.searchsorted(ends, begin, side="right")
    met: NDArray[np.int64] = np.maximum(begun - over - 1, 0)
    return met


def _work_ms(moments: Array, until: Array) -> Array:
    """Sum of the time from each of the sorted ``moments`` to ``until``, of those that lie before it."""
    before = np.searchsorted(moments, until, side="right")
    sums = np.concatenate([[0.0], np.cumsum(moments)])
    worked: Array = before * until - sums[before]
    return worked


class _Busy:
    """Stretches of time, those that touch made one.

    Args:
        begin, finish: of each, in any order; such as end before they begin are none.
    """

    def __init__(self, begin: Array, finish: Array) -> None:
        order = np.argsort(begin, kind="stable")
        begin, finish = begin[order], np.maximum(finish[order], begin[order])
        reached = np.maximum.accumulate(finish)
        fresh = np.concatenate([[True], begin[1:] > reached[:-1]])
        last = np.concatenate([np.flatnonzero(fresh)[1:] - 1, [begin.size - 1]])
        self._begin, self._finish = begin[fresh], reached[last]
        self._sums = np.concatenate([[0.0], np.cumsum(self._finish - self._begin)])

    def ms_before(self, moment: Array) -> Array:
        """How much of these stretches lies before each moment."""
        at = np.searchsorted(self._begin, moment, side="right")
        inside = np.where(at > 0, np.maximum(self._finish[at - 1] - moment, 0.0), 0.0)
        ms: Array = self._sums[at] - inside
        return ms


def _epoch_ms(column: str) -> pl.Expr:
    return pl.col(column).dt.epoch("us") / 1000


def _resolution_ms(times: pl.Series) -> float:
    """A second where all of these are whole seconds, else 0."""
    whole = times.len() > 0 and bool((times.dt.microsecond() == 0).all())
    return WHOLE_SECOND_MS if whole else 0.0
