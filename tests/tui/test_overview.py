"""The overview: what it shows of each kind of log, at two sizes, while it goes on and once it has ended."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import timedelta
from itertools import count, pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App

from advisor.live.history import PLACED_AT
from advisor.live.view import View, judged, view
from advisor.tui import pace
from advisor.tui.app import PhasewiseApp
from advisor.tui.overview.chart import Chart, unbroken
from advisor.tui.overview.gauges import gauges
from advisor.tui.overview.pane import OverviewPane
from advisor.tui.overview.ticks import number_ticks, time_ticks, value_ticks
from advisor.tui.overview.top_findings import TopFindings
from advisor.tui.overview.trend import EACH, HIGH, LINE, MOST_POINTS, STRETCHES, trends
from tests.advisor.helpers import at_rates, prefixed
from tests.tui.running import LARGE, SAMPLES, SMALL, run, session_of, text_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion
    from textual.app import ComposeResult
    from textual.pilot import Pilot
    from textual.widget import Widget

    from advisor.model import Analysis


def pane_of(text: str) -> str:
    """The screen without the line on top, the tabs and the keys."""
    return "\n".join(text.splitlines()[3:-1])


def seen(folder: Path, name: str, *, rules: bool = True) -> View:
    """A finished log as it is shown."""
    session = session_of([str(folder / name)])
    session.start()
    while not session.ended:
        time.sleep(0.005)
    session.stop()
    session.settle()
    return view(session, judged(session) if rules else None)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> View:
    """More requests than are drawn one by one; each is slower than the one before. No clock of the day."""
    folder = tmp_path_factory.mktemp("many")
    asked = [at_rates(1000 + n, 500, 300, 50 - n / 20) for n in range(3 * MOST_POINTS)]
    (folder / "server.log").write_text(prefixed(asked))
    return seen(folder, "server.log", rules=False)


@pytest.fixture(scope="module")
def ollama() -> View:
    return seen(SAMPLES, "ollama-reload.log")


@pytest.mark.parametrize("name", ["llama-server-rag.log", "ollama-reload.log", "vllm.log"])
def test_says_where_the_time_goes_at_two_sizes(name: str, snapshot: SnapshotAssertion) -> None:
    async def enlarge(app: PhasewiseApp, pilot: Pilot[None]) -> None:
        assert pane_of(text_of(app)) == snapshot(name="80x24")
        assert not app.pane.show_vertical_scrollbar
        await pilot.resize_terminal(*LARGE)
        await pilot.pause()

    shown = run([name], SMALL, then=enlarge)
    assert pane_of(shown.text) == snapshot(name="140x44")


# --- the widgets on their own


class Host(App[None]):
    """Holds one widget, and keeps the rules whose findings were chosen."""

    CSS_PATH = "../../advisor/tui/app.tcss"
    HORIZONTAL_BREAKPOINTS = PhasewiseApp.HORIZONTAL_BREAKPOINTS
    VERTICAL_BREAKPOINTS = PhasewiseApp.VERTICAL_BREAKPOINTS

    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self.widget = widget
        self.chosen: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.widget

    def on_top_findings_chosen(self, message: TopFindings.Chosen) -> None:
        self.chosen.append(message.rule)


def host(widget: Widget, then: Callable[[Host, Pilot[None]], Awaitable[None]], size: tuple[int, int]) -> None:
    async def go() -> None:
        app = Host(widget)
        async with app.run_test(size=size) as pilot:
            await then(app, pilot)

    asyncio.run(go())


def analysis_of(view: View) -> Analysis:
    assert view.judged is not None
    return view.judged.analysis


@pytest.mark.parametrize("size", [(40, 40), (80, 20)])
def test_a_finding_is_chosen_by_key_and_mouse_and_no_title_breaks_the_list(
    ollama: View, size: tuple[int, int]
) -> None:
    analysis = analysis_of(ollama)
    one = analysis.findings[0]
    titles = ["[bold]不明なモデル[/] " * 9, "x" * 200, "short"]
    findings = [one.model_copy(update={"title": t, "rule": f"rule-{n}"}) for n, t in enumerate(titles)]
    top = TopFindings()

    async def choose(app: Host, pilot: Pilot[None]) -> None:
        top.show(analysis.model_copy(update={"findings": findings}))
        await pilot.pause()
        text = text_of(app)
        assert "[bold]" in text
        assert text.count("saves about") >= len(titles)
        assert all(cell_len(line) <= size[0] for line in text.splitlines())
        await pilot.press("tab", "down", "enter")
        top.show(analysis.model_copy(update={"findings": findings[::-1][1:]}))
        await pilot.press("enter")
        top.show(analysis.model_copy(update={"findings": findings}))
        await pilot.pause()
        await pilot.click(offset=(3, 1))
        assert app.chosen == ["rule-1", "rule-1", "rule-0"]

    host(top, choose, size)


def test_while_a_log_is_read_nothing_is_said_that_the_rules_did_not_say(
    ollama: View, many: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=count(step=100.0).__next__))
    pane = OverviewPane()

    async def watch(app: Host, pilot: Pilot[None]) -> None:
        async def text(view: View) -> str:
            pane.show(view)
            await pilot.pause()
            return text_of(app)

        begun = replace(many, ended=False, totals=type(many.totals)(), requests=many.requests.clear())
        assert "Reading …" in await text(begun)
        said = await text(replace(many, ended=False))
        assert "Decode takes" in said
        assert "not asked yet" in said
        of_nothing = judged(session_of([]))
        assert await text(replace(many, ended=False, judged=of_nothing)) == said
        assert "Load takes" in await text(ollama)

    host(pane, watch, (120, 40))


def test_charts_are_drawn_no_more_often_than_every_two_seconds_while_rows_come(
    ollama: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, drawn = [100.0], list[Any]()
    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    monkeypatch.setattr(Chart, "show", lambda self, trend: drawn.append(trend))
    pane = OverviewPane()

    def more(rows: int, *, ended: bool = False) -> View:
        totals = replace(ollama.totals, rows=ollama.totals.rows + type(ollama.totals.rows)(requests=rows))
        return replace(ollama, totals=totals, ended=ended)

    async def watch(app: Host, pilot: Pilot[None]) -> None:
        for at_s, shown, charts in (
            (100.0, more(1), 3),
            (101.0, more(2), 3),
            (102.0, more(2), 6),
            (104.0, more(2), 6),
            (104.5, more(3), 9),
            (104.6, more(4), 9),
            (104.7, more(4, ended=True), 12),
        ):
            now_s[0] = at_s
            pane.show(shown)
            assert len(drawn) == charts
        pane.action_span()
        assert len(drawn) == 15

    host(pane, watch, (120, 40))


# --- what is drawn


def test_few_requests_are_points_and_many_are_percentiles_of_stretches(many: View) -> None:
    few = replace(many, requests=many.requests.tail(MOST_POINTS))
    ttft, decode, prefill = trends(few)
    assert [line.glyph for line in ttft.lines] == [EACH]
    assert ttft.lines[0].x == tuple(range(2 * MOST_POINTS + 1, 3 * MOST_POINTS + 1))
    assert list(ttft.lines[0].y) == pytest.approx([ms / 1000 for ms in few.requests["ttft_ms"]])

    ttft, decode, prefill = trends(many)
    p50, p95 = ttft.lines
    assert (p50.glyph, p95.glyph, ttft.by_clock) == (LINE, HIGH, False)
    assert ttft.ends == decode.ends == prefill.ends
    first = many.requests["ttft_ms"].head(len(many.requests) // STRETCHES) / 1000
    assert p50.y[0] == pytest.approx(first.median())
    assert p95.y[0] == pytest.approx(first.quantile(0.95, "linear"))
    assert len(p50.x) == STRETCHES
    assert all(low < high for low, high in pairwise(p50.y))


def test_a_line_is_broken_where_nothing_came_for_long() -> None:
    assert unbroken((0, 10, 20, 30)) == [slice(0, 4)]
    assert unbroken((0, 1, 2, 3, 4, 5, 90, 91, 500)) == [slice(0, 6), slice(6, 8), slice(8, 9)]
    assert unbroken((0, 1, 2, 3, 4, 5, 15, *range(16, 900))) == [slice(0, 891)]


def test_a_span_takes_the_rows_of_the_last_minutes(ollama: View) -> None:
    whole, last = (trends(ollama, span)[0] for span in (None, timedelta(minutes=2)))
    assert ollama.now is not None
    assert whole.by_clock
    since = (ollama.now - timedelta(minutes=2)).timestamp()
    assert last.lines[0].x == tuple(x for x in whole.lines[0].x if x > since)
    assert last.axis == "UTC, last 2 min 0 s"


def test_numbers_are_of_the_last_minutes_while_requests_come(ollama: View) -> None:
    whole = dict(gauges(ollama).pairs)
    assert gauges(ollama).title == "All 10 requests"
    assert (whole["requests"], whole["TTFT, p95"]) == ("10", "10.0 s")
    assert ollama.now is not None
    now = ollama.now + timedelta(minutes=4)
    late = ollama.requests.filter(pl.col(PLACED_AT) > now - timedelta(minutes=5))
    live = gauges(replace(ollama, ended=False, now=now, recent_requests=late.height))
    assert live.title == "Last 5 min"
    assert 0 < late.height < 10
    assert dict(live.pairs)["requests"] == str(late.height)
    assert dict(live.pairs)["a minute, last 5 min"] == f"{late.height / 5:.1f}"
    unknown = ollama.requests.with_columns(ttft_ms=pl.lit(None, pl.Float64))
    assert "TTFT, p95" not in dict(gauges(replace(ollama, requests=unknown)).pairs)


_FINITE = st.floats(1e-3, 1e9)


@given(high=_FINITE, most=st.integers(2, 12))
def test_the_values_of_an_axis_begin_at_0_and_reach_the_highest(high: float, most: int) -> None:
    values = [value for value, _ in value_ticks(high, most)]
    assert values[0] == 0
    assert values[-1] >= high * (1 - 1e-9)
    assert 2 <= len(values) <= most
    assert len({label for _, label in value_ticks(high, most)}) == len(values)


@given(low=_FINITE, length=st.floats(1.0, 1e7), most=st.integers(1, 12))
def test_marks_of_time_and_of_numbers_lie_on_their_axis(low: float, length: float, most: int) -> None:
    for ticks in (time_ticks, number_ticks):
        marks = [value for value, _ in ticks(low, low + length, most)]
        assert len(marks) <= most + 1
        assert all(low <= mark <= low + length for mark in marks)
