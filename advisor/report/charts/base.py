"""What every chart is made of: the colours, the look, and what a chart says besides its picture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import altair as alt

from rules.deployments import deployments

if TYPE_CHECKING:
    from advisor.report.rows import Rows
    from rules.measures import Measures

PHASES = ("queue", "load", "prefill", "decode", "other")

LIGHT = {
    "queue": "#8e1550",
    "load": "#4338ca",
    "prefill": "#db7b00",
    "decode": "#2196c9",
    "other": "#8d949e",
    "ink": "#1b1f24",
    "muted": "#57606a",
    "grid": "#e4e7eb",
    "paper": "#ffffff",
}
"""Colours on white. Any two phases stay apart (CIE76 of at least 25) with each of the three kinds of colour
blindness, and each has a contrast of 3 to the paper; `page.css` has those on black."""

CSS = {name: f"var(--{name})" for name in LIGHT}
"""The same names as the page's own colours, so that its charts follow its theme."""

MANY = 150
"""Points from which they lie upon each other."""

UNSPLIT = "no request tells how long its prefill or its decode took"
"""Why most pictures can't be drawn of such a log."""

HEIGHT = 240
WIDTH = 760
REQUESTS = "requests"
"""The name of the data that the page holds once for all charts: the rows of `Rows.drawn`."""

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


@dataclass(frozen=True)
class Drawing:
    """What a chart is drawn from.

    Attributes:
        m: the log's measures.
        rows: its requests.
        colours: by phase, and ``ink``, ``muted``, ``grid``, ``paper``.
    """

    m: Measures
    rows: Rows
    colours: dict[str, str]

    @cached_property
    def requests(self) -> alt.NamedData:
        """The requests, which the page holds once for all its charts."""
        return alt.NamedData(name=REQUESTS)

    @cached_property
    def several(self) -> bool:
        """Whether several models or settings served: their samples don't lie on one line."""
        models = self.m.generations["model"].drop_nulls().n_unique()
        return models > 1 or len(deployments(self.m)) > 1

    @cached_property
    def split(self) -> bool:
        """Whether any request tells how long its prefill or its decode took."""
        requests = self.rows.requests
        return bool(requests["prefill_ms"].count() or requests["decode_ms"].count())

    def missing(self, title: str, why: str) -> Missing:
        """A picture that can't be drawn: for this reason, or because no request is split at all."""
        return Missing(title, why if self.split else UNSPLIT)

    def dots(self, samples: int) -> dict[str, Any]:
        """Size (px squared) and opacity of points: many are small and let others through."""
        return {"size": 64, "opacity": 0.85} if samples < MANY else {"size": 22, "opacity": 0.5}

    def phase_colour(self, phases: list[str], **channel: Any) -> alt.Color:
        """The colour of the field ``phase``, with a legend of these phases."""
        scale = alt.Scale(domain=phases, range=[self.colours[phase] for phase in phases])
        return alt.Color("phase:N", scale=scale, sort=phases, **channel)


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture, and what it shows in words.

    Attributes:
        name: of its file and its place in the page.
        title: what is drawn.
        says: one or two sentences with the numbers that a reader would take from it.
        chart: without look and size, which `spec` gives.
        height: of the plot, px.
    """

    name: str
    title: str
    says: str
    chart: alt.Chart | alt.LayerChart
    height: int = HEIGHT

    def spec(self, colours: dict[str, str], width: int | str) -> dict[str, Any]:
        """The Vega-Lite specification.

        Args:
            colours: those that it was drawn with.
            width: px, or ``container`` for that of the page.
        """
        sized = self.chart.properties(width=width, height=self.height)
        spec: dict[str, Any] = sized.to_dict()
        spec.pop("$schema", None)
        return spec | {"config": look(colours), "autosize": {"type": "fit-x", "contains": "padding"}}


@dataclass(frozen=True, slots=True)
class Missing:
    """A picture that this log does not allow, and why."""

    title: str
    why: str


def layered(*charts: alt.Chart) -> alt.LayerChart:
    """Charts upon each other."""
    return alt.LayerChart(layer=list(charts))


def _ticks(least: int) -> dict[str, str]:
    """How many ticks to ask for: nice steps leave two or more of 4 on numbers, and of 5 on a clock."""
    return {"expr": f"max({least}, floor(width / 110))"}


def look(colours: dict[str, str]) -> dict[str, Any]:
    """The look of all charts: quiet axes, one font."""
    return {
        "font": FONT,
        "background": "transparent",
        "padding": 2,
        "view": {"stroke": None},
        "axis": {
            "labelColor": colours["muted"],
            "titleColor": colours["muted"],
            "titleFontWeight": "normal",
            "labelFontSize": 11,
            "titleFontSize": 12,
            "gridColor": colours["grid"],
            "domainColor": colours["grid"],
            "tickColor": colours["grid"],
            "titlePadding": 8,
            "labelPadding": 4,
        },
        "axisX": {"grid": False, "tickCount": _ticks(4), "labelOverlap": True},
        "axisXTemporal": {"tickCount": _ticks(5)},
        "axisY": {"domain": False, "ticks": False, "tickCount": 5},
        "legend": {
            "labelColor": colours["ink"],
            "titleColor": colours["muted"],
            "labelFontSize": 12,
            "orient": "top",
            "title": None,
            "symbolType": "square",
            "symbolStrokeWidth": 0,
            "padding": 0,
            "offset": 10,
            "columns": {"expr": "max(2, floor(width / 120))"},
        },
        "text": {"color": colours["ink"]},
        "line": {"strokeWidth": 2},
    }
