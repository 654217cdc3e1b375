"""What the overview's charts draw: how fast requests were, or what windows saw, over the kept time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from advisor.live.history import PLACED_AT
from advisor.tui.overview.together import STREAM, SUMMED, together
from advisor.tui.phases import COLOURS
from rules.attribution import SAMPLES

if TYPE_CHECKING:
    from datetime import timedelta

    from advisor.live.view import View

MOST_POINTS, STRETCHES = 120, 60
"""Requests that are drawn one by one; of more, each of so many stretches of time has its percentiles."""

_CLOCKED, _ENOUGH = 0.9, 2
"""A clock that places fewer of the rows is no axis for all; so few points make no picture."""

_SECONDS_BELOW = 90
_MEASURED = ("ttft_ms", "prefill_tok_s", "decode_tok_s")

COUNTED_LATE = ", counted when a prompt ends"
"""vLLM adds all tokens of a prompt to the window in which its first token comes."""

NO_COMMON_CLOCK = "Several engines without a common clock can't be added up."

EACH, LINE, HIGH = "•", "─", "×"
"""How a line is drawn: a dot for each request, joined, or a cross for each stretch."""


@dataclass(frozen=True, slots=True)
class Line:
    """Points of one kind; ``glyph`` is how they are drawn, one of `EACH`, `LINE` and `HIGH`."""

    name: str
    glyph: str
    colour: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Trend:
    """A chart.

    Attributes:
        title: what it shows, with the unit.
        lines: empty where too few rows tell it.
        lacks: what to say then.
        axis: what x is, in words.
        by_clock: x is in seconds since 1970; else it counts the rows.
        ends: the first and the last x of all rows, told or not: charts of the same rows have the same axis.
        of: what its points are of.
    """

    title: str
    lines: tuple[Line, ...]
    lacks: str
    axis: str
    by_clock: bool
    ends: tuple[float, float]
    of: str


def trends(view: View, span: timedelta | None = None) -> tuple[Trend, Trend, Trend]:
    """Three charts: of requests where there are any, else of windows or batches.

    Args:
        view: what to show.
        span: only rows of so long before the view's end; ``None`` for all that are kept.
    """
    generations = view.requests.select("kind", PLACED_AT, *_MEASURED).filter(pl.col("kind") == "generation")
    if generations.height or not view.intervals.height:
        return _of_requests(_placed(generations, view, span, view.totals.requests))
    rows, of = _evenest(view.intervals)
    at_once = together(rows)
    prompts = COUNTED_LATE if (rows["engine"] == "vllm").any() else ""
    none = f"None of the {of} came in this time." if at_once.height else NO_COMMON_CLOCK
    return _of_intervals(_placed(at_once, view, span, at_once.height), of, prompts, none)


def lasting(span: timedelta) -> str:
    """``40 s``, ``5 min``, ``hour``: roughly, after "last"."""
    seconds = span.total_seconds()
    if seconds < _SECONDS_BELOW:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return "hour" if minutes == 60 else f"{minutes} min"


def _evenest(intervals: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Of each engine the rows that sample its time most evenly, and what to call them."""
    kinds = list(SAMPLES)
    rank = pl.col("kind").cast(pl.String).replace_strict(kinds, range(len(kinds)))
    rows = intervals.filter(rank == rank.min().over(STREAM))
    return rows, " and ".join(SAMPLES[kind] for kind in kinds if (rows["kind"] == kind).any())


@dataclass(frozen=True, slots=True)
class _Placed:
    """Rows with their place ``x``."""

    rows: pl.DataFrame
    axis: str
    by_clock: bool

    @property
    def ends(self) -> tuple[float, float]:
        first, last = self.rows.select(first=pl.col("x").min(), last=pl.col("x").max()).row(0)
        return (first or 0.0, last or 0.0)


def _placed(rows: pl.DataFrame, view: View, span: timedelta | None, of_all: int) -> _Placed:
    if rows[PLACED_AT].count() < max(_CLOCKED * rows.height, 1):
        first = of_all - rows.height + 1
        numbers = pl.int_range(first, first + pl.len()).cast(pl.Float64)
        return _Placed(rows.with_columns(x=numbers), "in the order of the log", by_clock=False)
    rows = rows.drop_nulls(PLACED_AT)
    if span is not None and view.now is not None:
        rows = rows.filter(pl.col(PLACED_AT) > view.now - span)
    axis = "UTC" if span is None else f"UTC, last {lasting(span)}"
    at_s = pl.col(PLACED_AT).dt.epoch("us") / 1e6
    return _Placed(rows.with_columns(x=at_s), axis, by_clock=True)


def _of_requests(placed: _Placed) -> tuple[Trend, Trend, Trend]:
    rows = placed.rows.select("x", *_MEASURED)
    high_ms = rows["ttft_ms"].max()
    in_seconds = isinstance(high_ms, float) and high_ms >= 1000
    rows = rows.with_columns(ttft=pl.col("ttft_ms") / (1000 if in_seconds else 1))
    single = rows.height <= MOST_POINTS
    if not single:
        rows = _stretched(rows, "x").agg(
            pl.col("x").mean(),
            pl.col("ttft").median(),
            pl.col("prefill_tok_s", "decode_tok_s").median(),
            ttft_p95=pl.col("ttft").quantile(0.95, "linear"),
        )
    named = ("", EACH) if single else ("p50", LINE)
    of = "each request" if single else "stretches of time" if placed.by_clock else "stretches of requests"

    p95 = () if single else (("p95", HIGH, COLOURS["prefill"], "ttft_p95"),)
    trend = partial(_trend, placed, rows, of)
    return (
        trend(
            f"TTFT, {'s' if in_seconds else 'ms'}",
            "Too few requests tell their time to first token.",
            (*named, COLOURS["prefill"], "ttft"),
            *p95,
        ),
        trend(
            "Decode, tok/s",
            "Too few requests decode long enough to tell their rate.",
            (*named, COLOURS["decode"], "decode_tok_s"),
        ),
        trend(
            "Prefill, tok/s",
            "Too few requests evaluate enough of their prompt to tell its rate.",
            (*named, COLOURS["prefill"], "prefill_tok_s"),
        ),
    )


def _of_intervals(placed: _Placed, of: str, prompts: str, none: str) -> tuple[Trend, Trend, Trend]:
    """Of several moments in a stretch the most that ran or waited, and the mean speed."""
    rows = placed.rows.select("x", *SUMMED)
    if rows.height > MOST_POINTS:
        most, mean = pl.col("running", "waiting").max(), pl.col("prefill_tok_s", "decode_tok_s").mean()
        rows = _stretched(rows, "x").agg(pl.col("x").mean(), most, mean)
    trend = partial(_trend, placed, rows, of)

    def lacks(what: str, *columns: str) -> str:
        if not rows.height:
            return none
        if any(rows[column].count() for column in columns):
            return f"So far one of the {of} tells {what}: a chart takes {_ENOUGH}."
        return f"The {of} of this log don't tell {what}."

    return (
        trend(
            "Requests",
            lacks("how many requests run", "running", "waiting"),
            ("running", LINE, COLOURS["decode"], "running"),
            ("waiting", HIGH, COLOURS["queue"], "waiting"),
        ),
        trend(
            "Decode of all together, tok/s",
            lacks("the decode rate", "decode_tok_s"),
            ("", LINE, COLOURS["decode"], "decode_tok_s"),
        ),
        trend(
            f"Prefill of all together, tok/s{prompts}",
            lacks("the prefill rate", "prefill_tok_s"),
            ("", LINE, COLOURS["prefill"], "prefill_tok_s"),
        ),
    )


def _trend(
    placed: _Placed, rows: pl.DataFrame, of: str, title: str, lacks: str, *lines: tuple[str, str, str, str]
) -> Trend:
    drawn = tuple(filter(None, (_line(rows, *line) for line in lines)))
    return Trend(title, drawn, lacks, placed.axis, placed.by_clock, placed.ends, of)


def _stretched(rows: pl.DataFrame, place: str) -> pl.dataframe.group_by.GroupBy:
    """Rows by equally long stretches of their axis."""
    at, first = pl.col(place), pl.col(place).min()
    length = pl.max_horizontal(at.max() - first, 1e-6)
    stretch = ((at - first) / length * STRETCHES).floor().clip(0, STRETCHES - 1)
    return rows.group_by(stretch.alias("stretch"))


def _line(rows: pl.DataFrame, name: str, glyph: str, colour: str, column: str) -> Line | None:
    told = rows.select("x", pl.col(column).cast(pl.Float64)).drop_nulls().sort("x")
    if told.height < _ENOUGH:
        return None
    return Line(name, glyph, colour, tuple(told["x"]), tuple(told[column]))
