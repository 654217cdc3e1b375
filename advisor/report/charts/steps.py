"""An engine's steps by phase: how long each took, one behind the other."""

from __future__ import annotations

import altair as alt
import polars as pl

from advisor.report.charts.base import Chart, Drawing, Missing
from rules.words import duration, percent

ENOUGH, MOST = 3, 1_500
_TITLE = "Engine steps"


def draw(d: Drawing) -> Chart | Missing | None:
    """A point for each step; of many, every so many."""
    rows = d.m.intervals.filter(pl.col("kind") == "iteration").drop_nulls("span_ms")
    if not rows.height:
        return None
    if rows.height < ENOUGH:
        return Missing(_TITLE, f"the log holds only {rows.height:,}")
    phases = rows.group_by("phase").agg(pl.len(), pl.col("span_ms").sum()).sort("span_ms", descending=True)
    total = float(rows["span_ms"].sum())
    parts = ", ".join(
        f"{phase} {duration(ms)} ({percent(ms / total)}) in {n:,}" for phase, n, ms in phases.iter_rows()
    )
    every = -(-rows.height // MOST)
    drawn = f" Every {every}th is drawn." if every > 1 else ""
    return Chart("steps", _TITLE, f"{rows.height:,} steps: {parts}.{drawn}", _chart(d, rows, every))


def _chart(d: Drawing, rows: pl.DataFrame, every: int) -> alt.Chart:
    names = [
        name for name in ("prefill", "mixed", "decode", "idle", "unknown") if (rows["phase"] == name).any()
    ]
    colours = {"mixed": "ink", "idle": "grid", "unknown": "muted"}
    values = (
        rows.with_row_index("number", offset=1)
        .gather_every(every)
        .select("number", "line", "phase", "running", "prefill_tokens", "decode_tokens", ms="span_ms")
        .to_dicts()
    )
    shapes = {
        "prefill": "square",
        "mixed": "triangle-up",
        "decode": "circle",
        "idle": "cross",
        "unknown": "diamond",
    }
    known = ("running", "prefill_tokens", "decode_tokens")
    tooltips = [
        alt.Tooltip(f"{name}:Q", title=name.replace("_", " ")) for name in known if rows[name].count()
    ]
    ranged = [d.colours[colours.get(name, name)] for name in names]
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=values))
        .mark_point(filled=True, size=46, opacity=0.8)
        .encode(
            x=alt.X(
                "number:Q",
                title="step, in the order of the log",
                scale=alt.Scale(nice=False, padding=8),
                axis=alt.Axis(tickMinStep=1),
            ),
            y=alt.Y("ms:Q", title="ms"),
            color=alt.Color("phase:N", scale=alt.Scale(domain=names, range=ranged), sort=names),
            shape=alt.Shape(
                "phase:N", scale=alt.Scale(domain=names, range=[shapes[n] for n in names]), sort=names
            ),
            tooltip=[
                alt.Tooltip("number:Q", title="step"),
                alt.Tooltip("phase:N"),
                alt.Tooltip("ms:Q", format=",.3~r"),
                *tooltips,
            ],
        )
    )
    return chart
