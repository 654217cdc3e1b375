"""Time to first token and decode speed along the log, a point for each request."""

from __future__ import annotations

import altair as alt
import polars as pl

from advisor.report.charts.axes import request_tooltip, span, time_of, value_axis
from advisor.report.charts.base import Chart, Drawing, Missing, layered
from rules.words import duration, plural, rate

ENOUGH, MEDIANS_FROM, BINS = 2, 60, 30
"""Points that make a picture; points from which a line of medians helps, and of how many stretches."""


def ttft(d: Drawing) -> Chart | Missing | None:
    """Time to first token of each request, when it arrived."""
    title = "Time to first token along the log"
    known = d.rows.requests["ttft_ms"].drop_nulls()
    if not d.rows.requests.height:
        return None
    if known.len() < ENOUGH:
        return d.missing(title, _few("tells its time to first token", known.len()))
    p50, p95, most = (known.quantile(q, interpolation="linear") for q in (0.5, 0.95, 1.0))
    says = (
        f"{plural(known.len(), 'request')} {span(d.rows)}: {duration(p50)} at the median, "
        f"{duration(p95)} at p95, {duration(most)} at most.{_line(known.len())}"
    )
    return Chart("ttft", title, says, _points(d, "ttft_ms", 1000, "seconds", "prefill"))


def decode(d: Drawing) -> Chart | Missing | None:
    """Decode rate of each valid sample."""
    title = "Decode speed along the log"
    known = d.rows.requests["decode_tok_s"].drop_nulls()
    if not d.rows.requests.height:
        return None
    if known.len() < ENOUGH:
        return d.missing(title, _few("has a decode of 32 tokens and 300 ms or more", known.len()))
    low, p50, high = (known.quantile(q, interpolation="linear") for q in (0.05, 0.5, 0.95))
    says = (
        f"{plural(known.len(), 'request')} of 32 tokens or more {span(d.rows)}: {rate(p50)} at the median; "
        f"nine of ten between {rate(low)} and {rate(high)}.{_line(known.len())}"
    )
    return Chart("decode", title, says, _points(d, "decode_tok_s", 1, "tokens per second", "decode"))


def _line(known: int) -> str:
    return " The line is the median of each stretch." if known >= MEDIANS_FROM else ""


def _few(what: str, known: int) -> str:
    return f"no request {what}" if not known else f"only {plural(known, 'request')} {what}"


def _points(d: Drawing, field: str, divisor: float, unit: str, phase: str) -> alt.LayerChart:
    time = time_of(d.rows)
    known = d.rows.requests[field].drop_nulls() / divisor
    y = value_axis(known, unit)
    value = alt.Tooltip("value:Q", title=unit, format=",.3~r")
    points = (
        alt.Chart(d.requests)
        .transform_filter(f"isValid(datum.{field})")
        .transform_calculate(value=f"datum.{field} / {divisor}", **time.calculated())
        .mark_circle(color=d.colours[phase], **d.dots(known.len()))
        .encode(x=time.x(), y=y, tooltip=request_tooltip(d.rows, value))
    )
    if known.len() < MEDIANS_FROM:
        return layered(points)
    line = (
        alt.Chart(alt.InlineData(values=_medians(d, field, divisor).to_dicts()))
        .mark_line(color=d.colours["ink"])
        .encode(x=time.x(), y=y, tooltip=[alt.Tooltip("value:Q", title=f"median, {unit}", format=",.3~r")])
    )
    return layered(points, line)


def _medians(d: Drawing, field: str, divisor: float) -> pl.DataFrame:
    """The median of each stretch of as many requests."""
    time = time_of(d.rows)
    rows = d.rows.requests.with_columns(time.of(d.rows.requests).alias(time.field))
    stretch = pl.int_range(pl.len()) * BINS // pl.len()
    return (
        rows.drop_nulls([field, time.field])
        .sort(time.field)
        .group_by(stretch.alias("stretch"), maintain_order=True)
        .agg(pl.col(time.field).median(), value=(pl.col(field) / divisor).median().round_sig_figs(4))
        .drop("stretch")
    )
