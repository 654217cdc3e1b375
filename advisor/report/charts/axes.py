"""The axes that charts share: time as far as the log has a clock, and scales that suit the spread."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil, floor, log10
from typing import TYPE_CHECKING, NamedTuple

import altair as alt
import polars as pl

from rules.words import duration

if TYPE_CHECKING:
    from advisor.report.rows import Rows

WIDE = 30.0
"""Largest over median value from which a linear axis would press the others to the ground."""


_UNITS = (("hours", 3_600_000.0, 3.0), ("minutes", 60_000.0, 10.0), ("seconds", 1_000.0, 0.0))
"""Of a process's clock: the unit, its ms, and how many of them a log must span to be told in it."""


class Time(NamedTuple):
    """Where a request stands on the x axis.

    Attributes:
        field: of the data.
        type: ``T`` or ``Q``.
        title: of the axis.
        scale: of the axis.
        axis: its labels.
        divisor: of ``at``, which gives the field; null where the data has it.
    """

    field: str
    type: str
    title: str
    scale: alt.Scale
    axis: alt.Axis
    divisor: float | None = None

    def x(self) -> alt.X:
        """The channel."""
        return alt.X(f"{self.field}:{self.type}", title=self.title, scale=self.scale, axis=self.axis)

    def of(self, rows: pl.DataFrame) -> pl.Series:
        """The same numbers of requests."""
        values = rows["at"] / self.divisor if self.divisor else rows[self.field]
        return values.cast(pl.Float64)

    def calculated(self) -> dict[str, str]:
        """What Vega computes for the field."""
        return {self.field: f"datum.at / {self.divisor}"} if self.divisor else {}


def time_of(rows: Rows) -> Time:
    """The axis of these requests."""
    padded = alt.Scale(nice=False, padding=8)
    if rows.clock == "utc":
        return Time(
            "at",
            "T",
            "time, UTC",
            alt.Scale(type="utc", nice=False, padding=8),
            clock_axis(rows.requests["at"]),
        )
    if rows.clock == "order":
        title = "request, in the order of the log"
        return Time("number", "Q", title, padded, alt.Axis(tickMinStep=1))
    at = rows.requests["at"].drop_nulls()
    span_ms = float(at.max() or 0) - float(at.min() or 0)  # type: ignore[arg-type]
    unit, unit_ms = next((unit, ms) for unit, ms, least in _UNITS if span_ms >= least * ms)
    return Time("since", "Q", f"{unit} since the engine started", padded, alt.Axis(), unit_ms)


def clock_axis(at_ms: pl.Series) -> alt.Axis:
    """Labels as exact as these times (ms since 1970) are close to each other."""
    known = at_ms.drop_nulls()
    span_s = (float(known.max() or 0) - float(known.min() or 0)) / 1000  # type: ignore[arg-type]
    close = "%H:%M:%S.%L" if span_s < 10 else "%H:%M:%S"
    form = close if span_s < 1_200 else "%H:%M" if span_s < 86_400 else "%b %d, %H:%M"
    return alt.Axis(format=form)


def span(rows: Rows) -> str:
    """``from 19:39:05 to 19:48:12 UTC``, or how long."""
    at = rows.requests["at"].drop_nulls()
    low, high = at.min(), at.max()
    if not isinstance(low, float) or not isinstance(high, float):
        return "in the order of the log"
    if rows.clock == "process":
        return f"over {duration(high - low)}"
    first, last = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (low, high))
    same_day = "%H:%M:%S" if first.date() == last.date() else "%Y-%m-%d %H:%M"
    return f"from {first:%Y-%m-%d %H:%M:%S} to {last:{same_day}} UTC"


def value_axis(values: pl.Series, title: str) -> alt.Y:
    """The y axis of the field ``value``: from 0, or in powers of ten where a few are far above the others."""
    known = values.drop_nulls()
    least, middle, most = (float(q) for q in (known.min(), known.median(), known.max()))  # type: ignore[arg-type]
    if least <= 0 or most <= WIDE * middle:
        return alt.Y("value:Q", title=title, scale=alt.Scale(zero=True, nice=True))
    decades = range(floor(log10(least)), ceil(log10(most)) + 1)
    axis = alt.Axis(values=[10.0**decade for decade in decades], format="~g")
    return alt.Y("value:Q", title=f"{title}, log scale", scale=alt.Scale(type="log"), axis=axis)


def request_tooltip(rows: Rows, *more: alt.Tooltip) -> list[alt.Tooltip]:
    """What names a request, and more."""
    listed = [alt.Tooltip("number:Q", title="request"), alt.Tooltip("line:Q", title="log line")]
    if rows.requests["id"].count():
        listed.append(alt.Tooltip("id:N", title="id"))
    if rows.requests["model"].n_unique() > 1:
        listed.append(alt.Tooltip("model:N"))
    if rows.clock == "utc":
        listed.append(alt.Tooltip("at_said:N", title=f"{rows.begins}, UTC"))
    sizes = {"prompt": "prompt tokens", "cached": "of them cached", "output": "output tokens"}
    told = (name for name in sizes if rows.requests[name].count())
    return [*listed, *more, *(alt.Tooltip(f"{name}:Q", title=sizes[name], format=",") for name in told)]
