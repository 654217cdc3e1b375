"""An engine's windows or batches over time: requests in it, tokens per second, KV cache in use."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from advisor.report.charts.axes import clock_axis
from advisor.report.charts.base import Chart, Drawing, Missing
from advisor.report.rows import said
from rules.attribution import SAMPLES
from rules.words import count, percent, plural, rate

ENOUGH, MOST = 3, 400
"""Windows that make a line; of more, each point is of several."""

_REQUESTS, _SPEED, _MEMORY = "Requests running and waiting", "Tokens per second", "KV cache in use"
_RATE = "tokens per second"


def requests(d: Drawing) -> Chart | Missing | None:
    """Running and waiting requests."""
    rows = _rows(d)
    if rows is None:
        return None
    running, waiting = rows["running"].drop_nulls(), rows["waiting"].drop_nulls()
    if running.len() < ENOUGH:
        return _too_few(d, _REQUESTS, running.len())
    waited = f", {count(waiting.max())} waited" if waiting.len() else ""  # type: ignore[arg-type]
    says = f"{_of(d)}: at most {count(running.max())} ran{waited} at once."  # type: ignore[arg-type]
    lines = {"running": d.colours["decode"], "waiting": d.colours["queue"]}
    return Chart("running", _REQUESTS, says, _lines(rows, lines, "requests"))


def speed(d: Drawing) -> Chart | Missing | None:
    """Prefill and decode throughput over each window."""
    rows = _rows(d)
    if rows is None:
        return None
    rows = rows.rename({"prefill_tok_s": "prefill", "decode_tok_s": "decode"})
    told = [phase for phase in ("prefill", "decode") if rows[phase].count() >= ENOUGH]
    if not told:
        return _too_few(d, _SPEED, max(rows[phase].count() for phase in ("prefill", "decode")))
    most = ", ".join(f"{phase} {rate(float(rows[phase].max()))}" for phase in told)  # type: ignore[arg-type]
    says = f"{_of(d)}: at most {most}. As printed: of all requests together, idle time included."
    return Chart("speed", _SPEED, says, _lines(rows, {p: d.colours[p] for p in told}, _RATE))


def memory(d: Drawing) -> Chart | Missing | None:
    """Share of the KV cache in use, and prefix cache hits."""
    rows = _rows(d)
    if rows is None:
        return None
    rows = rows.rename({"kv_usage": "KV cache in use", "prefix_hit_rate": "prefix cache hits"})
    lines = {"KV cache in use": d.colours["load"], "prefix cache hits": d.colours["muted"]}
    told = {name: colour for name, colour in lines.items() if rows[name].count() >= ENOUGH}
    if not told:
        return _too_few(d, _MEMORY, rows["KV cache in use"].count())
    most = ", ".join(f"{name} {percent(float(rows[name].max()))}" for name in told)  # type: ignore[arg-type]
    return Chart("kv", _MEMORY, f"{_of(d)}: at most {most}.", _lines(rows, told, "share", format="%"))


def _too_few(d: Drawing, title: str, known: int) -> Missing | None:
    if d.rows.requests.height:
        return None
    if not known:
        return Missing(title, "no window tells it")
    return Missing(title, f"only {plural(known, 'window')} {'tells' if known == 1 else 'tell'} it")


def _kind(d: Drawing) -> str | None:
    """The kind of intervals that samples the time most evenly; steps are drawn elsewhere."""
    kinds = d.m.intervals["kind"].unique().to_list()
    return next((kind for kind in SAMPLES if kind in kinds and kind != "iteration"), None)


def _of(d: Drawing) -> str:
    rows = d.m.intervals.filter(pl.col("kind") == _kind(d))
    name = SAMPLES[_kind(d) or "window"]
    merged = f", {-(-rows.height // MOST)} to a point" if rows.height > MOST else ""
    return f"{rows.height:,} {name}{merged}"


def _rows(d: Drawing) -> pl.DataFrame | None:
    """At most `MOST` points: of several windows the most that ran, waited or was in use, the mean speed."""
    kind = _kind(d)
    if kind is None:
        return None
    rows = d.m.intervals.filter(pl.col("kind") == kind).with_row_index("number", offset=1)
    if rows["time"].null_count():
        rows = rows.with_columns(x=pl.col("number").cast(pl.Float64))
    else:
        rows = rows.sort("time").with_columns(x=pl.col("time").dt.epoch("us") / 1000)
    merged = -(-rows.height // MOST)
    return rows.group_by(pl.int_range(pl.len()) // merged, maintain_order=True).agg(
        pl.col("x").first(),
        clocked=pl.col("time").null_count() == 0,
        **{name: pl.col(name).max() for name in ("running", "waiting", "kv_usage", "prefix_hit_rate")},
        **{name: pl.col(name).mean() for name in ("prefill_tok_s", "decode_tok_s")},
    )


def _lines(rows: pl.DataFrame, lines: dict[str, str], unit: str, **axis: Any) -> alt.Chart:
    told = [name for name in lines if rows[name].count()]
    long = rows.unpivot(on=told, index="x", variable_name="line", value_name="value").drop_nulls("value")
    values = long.with_columns(value=pl.col("value").cast(pl.Float64).round_sig_figs(4)).to_dicts()
    if rows["clocked"].all():
        scale = alt.Scale(type="utc", nice=False, padding=4)
        x = alt.X("x:T", title="time, UTC", scale=scale, axis=clock_axis(rows["x"]))
        values = [{**row, "said": said(row["x"])} for row in values]
        when = alt.Tooltip("said:N", title="time, UTC")
    else:
        title = "in the order of the log"
        x = alt.X("x:Q", title=title, scale=alt.Scale(nice=False, padding=4), axis=alt.Axis(tickMinStep=1))
        when = alt.Tooltip("x:Q", title="number")
    dashes = [[1, 0], [6, 3]][: len(told)]
    legend = alt.Legend(symbolType="stroke", symbolStrokeWidth=2, symbolSize=400)
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=values))
        .mark_line(interpolate="step-before" if unit == _RATE else "step-after", point={"size": 16})
        .encode(
            x=x,
            y=alt.Y("value:Q", title=unit, axis=alt.Axis(**axis)),
            color=alt.Color(
                "line:N",
                scale=alt.Scale(domain=told, range=[lines[name] for name in told]),
                sort=told,
                legend=legend,
            ),
            strokeDash=alt.StrokeDash("line:N", scale=alt.Scale(domain=told, range=dashes), sort=told),
            tooltip=[
                alt.Tooltip("line:N", title="what"),
                alt.Tooltip("value:Q", title=unit, format=axis.get("format", ",.3~r")),
                when,
            ],
        )
    )
    return chart
