"""Time in each phase, request by request or along the log."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from advisor.report.charts.axes import span, time_of
from advisor.report.charts.base import PHASES, UNSPLIT, Chart, Drawing, Missing
from advisor.report.page import VISIBLE
from rules.words import duration, percent, plural

EACH, BINS = 60, 48
"""Up to this many requests each has a bar; of more, each stretch of the log."""

FEW = 20
"""Fewer bars stand further apart."""

_TITLE = "Time in each phase"


def draw(d: Drawing) -> Chart | Missing | None:
    """Stacked bars of seconds; their order is that in which a request passes the phases."""
    rows = d.rows.requests.filter(pl.col("kind") == "generation").drop_nulls("other_ms")
    if not d.rows.requests.height:
        return None
    if not rows.height:
        return Missing(_TITLE, UNSPLIT)
    totals = {phase: float(rows[f"{phase}_ms"].sum()) for phase in PHASES}
    phases = [phase for phase, ms in totals.items() if ms > VISIBLE * sum(totals.values())]
    shares = ", ".join(f"{p} {percent(totals[p] / sum(totals.values()))}" for p in phases)
    if rows.height <= EACH:
        return Chart(
            "phases",
            f"{_TITLE}, request by request",
            f"{plural(rows.height, 'request')}, {shares} of all their time. {_longest(rows)}",
            _each(d, rows, phases),
        )
    return Chart(
        "phases",
        f"{_TITLE}, along the log",
        f"Mean time of a request in each of up to {BINS} stretches {span(d.rows)}; over all, {shares}.",
        _along(d, rows, phases),
    )


def _longest(rows: pl.DataFrame) -> str:
    longest = rows.sort("total_ms", descending=True).row(0, named=True)
    return f"The longest is request {longest['number']} with {duration(longest['total_ms'])}."


def _each(d: Drawing, rows: pl.DataFrame, phases: list[str]) -> alt.Chart:
    x = alt.X(
        "number:O",
        title="request, in the order of the log",
        axis=alt.Axis(labelAngle=0),
        scale=alt.Scale(paddingInner=0.4 if rows.height < FEW else 0.12),
    )
    tooltip = [alt.Tooltip("number:O", title="request"), alt.Tooltip("line:Q", title="log line")]
    stacked = _stacked(rows.select("number", "line", *_ms(phases)), phases)
    chart = alt.Chart(alt.InlineData(values=stacked)).mark_bar(**_edge(d))
    return _drawn(d, chart, phases, tooltip).encode(x=x)


def _along(d: Drawing, rows: pl.DataFrame, phases: list[str]) -> alt.Chart:
    time = time_of(d.rows)
    along = time.of(rows)
    low, high = float(along.min() or 0), float(along.max() or 0)  # type: ignore[arg-type]
    width = (high - low) / BINS or 1.0
    bins = (
        rows.with_columns(bin=((along - low) / width).floor().clip(0, BINS - 1))
        .group_by("bin")
        .agg(pl.len().alias("requests"), *(pl.col(name).fill_null(0).mean() for name in _ms(phases)))
        .sort("bin")
        .select(pl.exclude("bin"), begin=low + pl.col("bin") * width, end=low + (pl.col("bin") + 1) * width)
    )
    tooltip = [alt.Tooltip("requests:Q", title="requests in this stretch", format=",")]
    chart = alt.Chart(alt.InlineData(values=_stacked(bins, phases))).mark_rect(**_edge(d))
    x = alt.X(f"begin:{time.type}", title=time.title, scale=time.scale, axis=time.axis)
    return _drawn(d, chart, phases, tooltip).encode(x=x, x2="end")


def _ms(phases: list[str]) -> list[str]:
    return [f"{phase}_ms" for phase in phases]


def _edge(d: Drawing) -> dict[str, Any]:
    return {"stroke": d.colours["paper"], "strokeWidth": 0.5}


def _stacked(wide: pl.DataFrame, phases: list[str]) -> list[dict[str, Any]]:
    """A row for each phase of each row, from where to where it reaches when they stand upon each other."""
    rows = []
    for row in wide.iter_rows(named=True):
        rest = {name: value for name, value in row.items() if name not in _ms(phases)}
        low = 0.0
        for phase in phases:
            seconds = (row[f"{phase}_ms"] or 0.0) / 1000
            if seconds:
                ends = {"low": round(low, 4), "high": round(low + seconds, 4)}
                rows.append({**rest, "phase": phase, "seconds": round(seconds, 4), **ends})
            low += seconds
    return rows


def _drawn(d: Drawing, chart: alt.Chart, phases: list[str], tooltip: list[alt.Tooltip]) -> alt.Chart:
    said = [*tooltip, alt.Tooltip("phase:N"), alt.Tooltip("seconds:Q", format=",.3~r")]
    y = alt.Y("low:Q", title="seconds a request", scale=alt.Scale(zero=True))
    return chart.encode(y=y, y2="high", color=d.phase_colour(phases), tooltip=said)
