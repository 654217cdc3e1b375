"""What several engines, models or addresses ran at once: their windows put together.

Rows don't name the replicas of an engine that print into one log. Those print their windows at the same
moment; the windows of one are a whole span apart.
"""

from __future__ import annotations

import polars as pl

from advisor.live.history import PLACED_AT

SUMMED, HIGHEST = ("running", "waiting", "prefill_tok_s", "decode_tok_s"), "kv_usage"
STREAM = ("source", "engine")

_JITTER_S, _LONG_S = 1.5, 3.0
"""Replicas print so near to each other, where their windows are long; else at the very same time."""

_OUT_OF_STEP = 0.1
"""Share of the steps between moments that may be much shorter than a window."""

_SPANS, _LEAST_S = 2, 10.0
"""An engine counts on for so many of its windows after its last one, and for so many seconds at least."""


def together(intervals: pl.DataFrame) -> pl.DataFrame:
    """One row a moment, in order: `PLACED_AT`, sums over all that is running then, and the fullest KV cache.

    A column is null where nobody tells it, and where replicas can't be told apart. Without any row where
    several engines have no common clock.
    """
    streams = [_moments(rows) for _, rows in intervals.group_by(STREAM, maintain_order=True)]
    if len(streams) <= 1:
        return streams[0][0] if streams else _moments(intervals)[0]
    if any(moments[PLACED_AT].null_count() for moments, _ in streams):
        return streams[0][0].clear()
    places = pl.concat([moments.select(PLACED_AT) for moments, _ in streams]).unique().sort(PLACED_AT)
    seen = [
        places.join_asof(
            moments.sort(PLACED_AT),
            on=PLACED_AT,
            strategy="backward",
            tolerance=f"{round(1000 * max(_SPANS * span_s, _LEAST_S))}ms",
        )
        for moments, span_s in streams
    ]
    return _added(pl.concat(seen), PLACED_AT).sort(PLACED_AT)


def _moments(rows: pl.DataFrame) -> tuple[pl.DataFrame, float]:
    """One engine's moments, and the length of its windows in seconds."""
    span_ms = rows["span_ms"].median()
    span_s = span_ms / 1000 if isinstance(span_ms, float) else 0.0
    gap_s = pl.col("time").diff().dt.total_microseconds() / 1e6
    near_s = _JITTER_S if span_s >= _LONG_S else 0.0
    is_window = pl.col("kind").cast(pl.String) == "window"
    same = is_window & is_window.shift() & gap_s.is_between(0, near_s)
    rows = rows.with_columns(moment=(~same.fill_null(value=False)).cum_sum())
    steps_s = rows.filter(is_window).select(gap_s).to_series().drop_nulls()
    short = ((steps_s > near_s) & (steps_s < span_s - _JITTER_S)).sum()
    moments = _added(rows, "moment").drop("moment")
    if near_s and short > _OUT_OF_STEP * steps_s.len():
        moments = moments.with_columns(pl.lit(None).cast(moments.schema[name]).alias(name) for name in SUMMED)
    return moments, span_s


def _added(rows: pl.DataFrame, by: str) -> pl.DataFrame:
    sums = [pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in SUMMED]
    place = [] if by == PLACED_AT else [pl.col(PLACED_AT).max()]
    return rows.group_by(by, maintain_order=True).agg(*place, *sums, pl.col(HIGHEST).max())
