"""Requests on the clock, each split into its phases."""

from __future__ import annotations

import altair as alt
import polars as pl

from advisor.report.charts.base import PHASES, Chart, Drawing, Missing
from advisor.report.page import VISIBLE
from rules.words import duration, plural

MOST, ROW_PX = 40, 14
PAUSE = 10.0
"""A pause of this many median requests ends a stretch: what lies beyond would press the bars to slivers."""

_TITLE = "Requests on the clock"


def draw(d: Drawing) -> Chart | Missing | None:
    """A row for each request, from its begin to its end; of many, the stretch that took longest."""
    everything = d.rows.requests
    if not everything.height:
        return None
    if d.rows.clock == "order":
        return Missing(_TITLE, "no one clock places every request")
    rows = everything.drop_nulls(["at", "total_ms"])
    if rows.height < 2:
        return Missing(_TITLE, "the log does not tell how long requests took")
    shown = _stretch(rows.sort("at", maintain_order=True))
    begin = float(shown["at"].min())  # type: ignore[arg-type]
    bars = _bars(shown, begin)
    totals = dict(bars.group_by("phase").agg(pl.col("seconds").sum()).iter_rows())
    phases = [phase for phase in PHASES if totals.get(phase, 0) > VISIBLE * sum(totals.values())]
    bars = bars.filter(pl.col("phase").is_in(phases))
    began = "a slot took the first of these" if d.rows.slot_first else "the first of these arrived"
    y = alt.Y("number:O", title="request", axis=alt.Axis(ticks=False, domain=False))
    x = alt.X("begin:Q", title=f"seconds since {began}", axis=alt.Axis(grid=True))
    chart = (
        alt.Chart(alt.InlineData(values=bars.to_dicts()))
        .mark_bar(stroke=d.colours["paper"], strokeWidth=0.5, minBandSize=6)
        .encode(
            x=x,
            x2="end",
            y=y,
            color=d.phase_colour(phases),
            tooltip=[
                alt.Tooltip("number:O", title="request"),
                alt.Tooltip("line:Q", title="log line"),
                alt.Tooltip("phase:N"),
                alt.Tooltip("seconds:Q", format=",.3~r"),
            ],
        )
    )
    return Chart("waterfall", _TITLE, _says(shown, everything.height), chart, 24 + ROW_PX * shown.height)


def _stretch(rows: pl.DataFrame) -> pl.DataFrame:
    """The burst of requests that took longest, of it the consecutive ones that did."""
    ends = (pl.col("at") + pl.col("total_ms")).cum_max().shift(1)
    idle_ms = pl.col("at") - ends
    longest = PAUSE * float(rows["total_ms"].median() or 0)  # type: ignore[arg-type]
    bursts = rows.with_columns(burst=(idle_ms > longest).fill_null(value=False).cum_sum())
    totals = bursts.group_by("burst").agg(pl.col("total_ms").sum()).sort("total_ms", "burst")
    burst = bursts.filter(pl.col("burst") == totals["burst"][-1])
    if burst.height <= MOST:
        return burst
    last = burst["total_ms"].rolling_sum(MOST).arg_max() or 0
    return burst[max(last - MOST + 1, 0) : last + 1]


def _bars(shown: pl.DataFrame, begin: float) -> pl.DataFrame:
    """A row for each phase of each request; time that no phase explains comes last."""
    told = [pl.col(f"{phase}_ms").fill_null(0).alias(phase) for phase in PHASES[:-1]]
    rest = (pl.col("total_ms") - pl.sum_horizontal(told)).clip(lower_bound=0).alias("other")
    wide = shown.select("number", "line", "at", *told, rest)
    ends = wide.select("number", *(pl.sum_horizontal(PHASES[: i + 1]).alias(p) for i, p in enumerate(PHASES)))
    long = wide.unpivot(on=PHASES, index=["number", "line", "at"], variable_name="phase", value_name="ms")
    until = ends.unpivot(on=PHASES, index="number", variable_name="phase", value_name="end_ms")
    return (
        long.join(until, on=["number", "phase"], maintain_order="left")
        .filter(pl.col("ms") > 0)
        .select(
            "number",
            "line",
            "phase",
            begin=((pl.col("at") - begin + pl.col("end_ms") - pl.col("ms")) / 1000).round(4),
            end=((pl.col("at") - begin + pl.col("end_ms")) / 1000).round(4),
            seconds=(pl.col("ms") / 1000).round_sig_figs(4),
        )
    )


def _says(shown: pl.DataFrame, of: int) -> str:
    ends = shown["at"] + shown["total_ms"]
    span_ms = float(ends.max()) - float(shown["at"].min())  # type: ignore[arg-type]
    many = plural(of, "request")
    which = (
        f"All {many}" if shown.height == of else f"{shown.height:,} of {many}, the stretch that took longest"
    )
    return (
        f"{which}: {duration(float(shown['total_ms'].sum()))} of request time within {duration(span_ms)}. "
        "Bars above each other ran at once; time that no phase explains is drawn last."
    )
