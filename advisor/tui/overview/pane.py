"""The tab that is seen first: where the time goes, how fast it is now, and what to change."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from advisor.live.view import RECENT
from advisor.tui.option_list import List
from advisor.tui.overview.chart import Chart
from advisor.tui.overview.gauges import LAST_MINUTES, all_of, gauges, recent_title
from advisor.tui.overview.top_findings import TopFindings
from advisor.tui.overview.trend import trends
from advisor.tui.pace import Pace
from advisor.tui.pairs import Pairs
from advisor.tui.pane import Pane
from advisor.tui.phase_bar import PhaseBar
from rules.attribution import verdict
from rules.words import percent, plural

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from advisor.live.view import Judged, View

SPANS: tuple[timedelta | None, ...] = (None, timedelta(hours=1), RECENT)
"""How much of the kept time the charts show."""

_CHARTS_EVERY_S = 2.0
_THREE_CHARTS_FROM, _CHARTS_FROM = 34, 8
"""Lines of the pane, and lines that are left of it."""


class OverviewPane(Pane):
    """The verdict, the phase bars, numbers, charts, and the findings with what they save."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("t", "span", "Time span"),
        Binding("up", "scroll_up", "Scroll up", show=False),
        Binding("down", "scroll_down", "Scroll down", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("pagedown", "page_down", "Page down", show=False),
    ]
    can_focus = True

    def __init__(self) -> None:
        super().__init__()
        self._view: View | None = None
        self._span = SPANS[0]
        self._charts_of: object = None
        self._charts_pace, self._gauges_pace = Pace(_CHARTS_EVERY_S), Pace()
        self._said: dict[str, object] = {}
        self._has_charts = True

    def compose(self) -> ComposeResult:
        """One column where it is narrow, else two below the bars."""
        yield Static(id="verdict", markup=False)
        yield PhaseBar(id="bar-all")
        yield PhaseBar(id="bar-recent")
        with Horizontal(id="below"):
            with Vertical(id="aside"):
                yield Static(id="gauges-title")
                yield Static(id="gauges")
                yield TopFindings()
            with Vertical(id="charts"):
                yield Chart()
                yield Chart()
                yield Chart(classes="last")

    def focus_main(self) -> None:
        """The list of findings takes the keys; without any, what scrolls."""
        findings = self.query_one(List)
        (findings if findings.display else self).focus()

    def show(self, view: View) -> None:
        """Draw this moment."""
        before, self._view = self._view, view
        if before is not None and _is_same(before, view):
            return
        self._show_verdict(_verdict(view), _seen(view))
        self._show_bars(view)
        self._show_gauges(view)
        self.query_one(TopFindings).show(_judged(view))
        self._show_charts(view)
        self.call_after_refresh(self._fit)

    def on_resize(self) -> None:
        """Where lines are few, two charts are read better than three."""
        self.set_class(self.size.height < _THREE_CHARTS_FROM, "-low")
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        """Charts below the rest need some lines; without any there is no key for them."""
        below_aside = self.query_one("#aside").virtual_region_with_margin.bottom
        above = self.query_one("#below").virtual_region.y
        self.set_class(self.size.height - above - below_aside < _CHARTS_FROM, "-full")
        if self._has_charts != (has := bool(self.query_one("#charts").display)):
            self._has_charts = has
            self.screen.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether a key does anything now."""
        return action != "span" or self._has_charts

    def action_span(self) -> None:
        """Let the charts show another part of the time."""
        self._span = SPANS[(SPANS.index(self._span) + 1) % len(SPANS)]
        self._charts_of = None
        if self._view is not None:
            self._show_charts(self._view)

    def _show_verdict(self, *said: str) -> None:
        if self._said.get("verdict") != said:
            self._said["verdict"] = said
            sentence, seen = said
            self.query_one("#verdict", Static).update(Text(sentence).append(seen, "not bold dim"))

    def _show_gauges(self, view: View) -> None:
        if not (view.ended or self._gauges_pace.is_due):
            return
        with self._gauges_pace:
            shown = gauges(view)
        if self._said.get("gauges") != shown:
            self._said["gauges"] = shown
            self.query_one("#gauges-title", Static).update(Text(shown.title, "bold"))
            self.query_one("#gauges", Static).update(Pairs(shown.pairs))

    def _show_bars(self, view: View) -> None:
        whole, recent = self.query_one("#bar-all", PhaseBar), self.query_one("#bar-recent", PhaseBar)
        whole.show(*_whole(view))
        whole.display = view.totals.rows["requests"] == 0 or view.totals.requests > 0
        recent.show(recent_title(view), view.recent.phase_ms, _no_recent(view))
        requests = view.totals.requests
        recent.display = bool(requests) and not (view.ended and view.recent_requests == requests)

    def _show_charts(self, view: View) -> None:
        """Draw the charts, which costs most: only of other rows, and now and then while a log goes on."""
        rows = view.totals.rows
        of = rows["requests"], rows["intervals"], view.now if self._span else None
        if of == self._charts_of or not (self._charts_of is None or view.ended or self._charts_pace.is_due):
            return
        self._charts_of = of
        with self._charts_pace:
            drawn = trends(view, self._span)
            for chart, trend in zip(self.query(Chart), drawn, strict=True):
                chart.show(trend)
        nothing = self._span is None and not any(trend.lines for trend in drawn)
        self.query_one("#charts").set_class(nothing, "-nothing")


def _is_same(one: View, other: View) -> bool:
    """Whether both are of a log that has ended, and nobody has said more of it since."""
    ended = one.ended and other.ended
    return ended and one.judged is other.judged and one.totals.rows == other.totals.rows


def _verdict(view: View) -> str:
    """The rules' sentence; before they were asked, what the sums say."""
    if (judged := _judged(view)) is not None:
        return judged.analysis.verdict.sentence
    decided = verdict(view.totals.attribution)
    if decided.phase == "unknown":
        return "Reading …"
    if decided.phase == "mixed":
        return "No phase leads clearly so far."
    return f"{decided.phase.capitalize()} takes {percent(decided.share)} of the time so far."


def _seen(view: View) -> str:
    """Which requests the rules' sentence is of, where those need not be all that the bar is of."""
    judged = _judged(view)
    if judged is None or not (seen := judged.analysis.summary.requests):
        return ""
    if (view.requests["kind"] == "generation").sum() < view.totals.requests:
        return f" Of the last {plural(seen, 'request')}."
    told_twice = judged.measures.counts.repeated_requests
    return (
        ""
        if view.ended and seen + told_twice >= view.totals.requests
        else f" As of {plural(seen, 'request')}."
    )


def _judged(view: View) -> Judged | None:
    """What the rules said; nothing while all that they were asked about is that no row had come."""
    if view.judged is None:
        return None
    of = view.judged.measures
    asked_of_none = not (
        of.requests.height or of.intervals.height or of.aggregates.height or of.events.height
    )
    return None if asked_of_none and view.totals.rows.total() else view.judged


def _whole(view: View) -> tuple[str, dict[str, float | None], str]:
    """The title, the times and what to say without any, of everything that was read."""
    requests, phase_ms = view.totals.requests, view.totals.attribution.phase_ms
    if requests:
        return all_of(requests), phase_ms, "this log tells no phase of them"
    if view.totals.rows["aggregates"]:
        if view.judged is not None and not view.totals.attribution.wall_ms:
            phase_ms = view.judged.analysis.summary.phase_ms.model_dump()
        return "All requests, summed up", phase_ms, "these sums tell no phase"
    if view.totals.rows["intervals"]:
        return "Phases", phase_ms, "windows and batches can't be split into phases"
    return "Phases", phase_ms, "no request in this log" if view.ended else "no request yet"


def _no_recent(view: View) -> str:
    if view.now is None:
        return "this log has no wall clock"
    if view.recent_unplaced and not view.recent_requests:
        return f"{plural(view.recent_unplaced, 'request')} without a clock"
    return f"no phase in the {LAST_MINUTES}" if view.recent_requests else f"none in the {LAST_MINUTES}"
