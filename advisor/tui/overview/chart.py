"""A chart with its heading and axes."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.containers import Vertical
from textual.widgets import Static
from textual_plotext import PlotextPlot

from advisor.tui.overview.ticks import number_ticks, time_ticks, value_ticks
from advisor.tui.overview.trend import LINE

if TYPE_CHECKING:
    from textual.app import ComposeResult, RenderResult

    from advisor.tui.overview.trend import Trend

_ROWS_A_TICK, _COLUMNS_A_TICK = 3, 11
_JOINED = "braille"
_GAPS, _WIDE = 5, 0.05
"""A line is broken by a gap of so many usual ones that is so much of the axis."""


class Plot(PlotextPlot):
    """Draws a trend into the room that there is; anew only where either has changed."""

    can_focus = False

    def __init__(self) -> None:
        super().__init__()
        self._trend: Trend | None = None

    def show(self, trend: Trend) -> None:
        """Draw this."""
        self._trend = trend
        self.refresh()

    def render(self) -> RenderResult:
        """The plot; how many marks fit on its axes depends on its size."""
        self._lay_out()
        return super().render()

    def _lay_out(self) -> None:
        plt, trend = self.plt, self._trend
        plt.clear_figure()
        if trend is None or not trend.lines:
            return
        for line in trend.lines:
            if line.glyph != LINE:
                plt.scatter(line.x, line.y, marker=line.glyph, color=_rgb(line.colour))
                continue
            for part in unbroken(line.x):
                draw = plt.plot if part.stop - part.start > 1 else plt.scatter
                draw(line.x[part], line.y[part], marker=_JOINED, color=_rgb(line.colour))
        low, high = trend.ends
        top = max(max(line.y) for line in trend.lines)
        marks = value_ticks(top or 1.0, max(self.size.height // _ROWS_A_TICK + 1, 2))
        plt.yticks(*_columns(marks))
        plt.ylim(0, marks[-1][0])
        most = max(self.size.width // _COLUMNS_A_TICK, 1)
        plt.xticks(*_columns((time_ticks if trend.by_clock else number_ticks)(low, high, most)))
        plt.xlim(low, high if high > low else low + 1)
        plt.xaxes(True, False)
        plt.yaxes(True, False)


class Chart(Vertical):
    """A heading that names the lines, and the plot."""

    DEFAULT_CSS: ClassVar[str] = """
    Chart {
        width: 1fr;
        height: 1fr;
        min-height: 6;
    }
    Chart > .head {
        height: 1;
        text-wrap: nowrap;
        text-overflow: ellipsis;
    }
    Chart > .lacks {
        color: $text-muted;
    }
    """

    def __init__(self, *, classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self._trend: Trend | None = None

    def compose(self) -> ComposeResult:
        """The heading, the plot, or why there is none."""
        yield Static(classes="head")
        yield Plot()
        yield Static(classes="lacks", markup=False)

    def show(self, trend: Trend) -> None:
        """Draw this, if it is new."""
        if trend == self._trend:
            return
        self._trend = trend
        self.query_one(".head", Static).update(_head(trend))
        self.query_one(".lacks", Static).update("" if trend.lines else trend.lacks)
        plot = self.query_one(Plot)
        plot.display = bool(trend.lines)
        plot.show(trend)


def unbroken(x: tuple[float, ...]) -> list[slice]:
    """The stretches of a line: it is broken where nothing came for far longer than usual."""
    gaps = [after - before for before, after in pairwise(x)]
    wide = max(_GAPS * median(gaps), _WIDE * (x[-1] - x[0])) if gaps else 0.0
    ends = [n for n, gap in enumerate(gaps, 1) if gap > wide]
    return [slice(*ends) for ends in pairwise([0, *ends, len(x)])]


def _head(trend: Trend) -> Text:
    head = Text(trend.title, style="bold")
    for line in trend.lines:
        head.append(f"  {line.glyph} {line.name or trend.of}", f"not bold {line.colour}")
    if trend.lines:
        head.append(f"  {trend.axis}", "not bold dim")
    return head


def _columns(marks: list[tuple[float, str]]) -> tuple[list[float], list[str]]:
    return [value for value, _ in marks], [label for _, label in marks]


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue
