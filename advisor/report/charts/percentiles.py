"""Percentiles of requests that are only known summed up, as the source states them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt

from advisor.report.charts.base import Chart, Drawing, Missing, layered
from advisor.summary import summarise
from rules.words import duration

if TYPE_CHECKING:
    from advisor.section import Percentiles

AT = ("p50", "p90", "p95", "p99")
_BAR_PX = 30

ROOM = 1.12
"""Axis over longest bar: the words beside it need room."""


def ttft(d: Drawing) -> Chart | Missing | None:
    """Time to first token."""
    return _draw(d, "ttft", "Time to first token, percentiles", "prefill")


def tpot(d: Drawing) -> Chart | Missing | None:
    """Time per output token."""
    return _draw(d, "tpot", "Time per token, percentiles", "decode")


def _draw(d: Drawing, what: str, title: str, phase: str) -> Chart | Missing | None:
    if d.m.generations.height or not d.m.sums.rows.height:
        return None
    told: Percentiles = getattr(summarise(d.m), f"{what}_ms")
    known = {at: float(ms) for at in AT if (ms := getattr(told, at)) is not None}
    if not known:
        several = (
            "several rows of sums can't be put together" if d.m.sums.rows.height > 1 else "the sums have none"
        )
        return Missing(title, several)
    data = alt.InlineData(values=[{"at": at, "ms": ms, "said": duration(ms)} for at, ms in known.items()])
    base = alt.Chart(data).encode(
        y=alt.Y("at:N", title=None, sort=list(known), axis=alt.Axis(domain=False, labelFontSize=13)),
        x=alt.X("ms:Q", title="ms", scale=alt.Scale(domain=[0, ROOM * max(known.values())], nice=False)),
        tooltip=[alt.Tooltip("at:N", title="percentile"), alt.Tooltip("said:N", title="time")],
    )
    bars = base.mark_bar(color=d.colours[phase], height={"band": 0.6})
    words = base.mark_text(align="left", dx=6, color=d.colours["ink"]).encode(text="said:N")
    says = ", ".join(f"{at} {duration(ms)}" for at, ms in known.items())
    height = _BAR_PX * len(known) + 20
    return Chart(f"{what}-percentiles", title, f"{says}.", layered(bars, words), height)
