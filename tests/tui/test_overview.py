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
from advisor.tui.overview.gauges import gauges, recent_title
from advisor.tui.overview.pane import OverviewPane
from advisor.tui.overview.ticks import number_ticks, time_ticks, value_ticks
from advisor.tui.overview.top_findings import TopFindings
from advisor.tui.overview.trend import EACH, HIGH, LINE, MOST_POINTS, NO_COMMON_CLOCK, STRETCHES, trends
from tests.advisor.helpers import at_rates, prefixed
from tests.tui.running import LARGE, SAMPLES, SMALL, run, session_of, text_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion
    from textual.app import ComposeResult
    from textual.pilot import Pilot
    from textual.widget import Widget

    from advisor.live.view import Judged
    from advisor.model import FindingModel


def pane_of(text: str) -> str:
    """The screen without the line on top, the tabs and the keys."""
    return "\n".join(text.splitlines()[3:-1])


def seen(folder: Path, *names: str, rules: bool = True) -> View:
    """Finished logs as they are shown."""
    session = session_of([str(folder / name) for name in names])
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


@pytest.mark.parametrize("size", [(40, 40), (80, 20)])
def test_a_finding_is_chosen_by_key_and_mouse_and_no_title_breaks_the_list(
    ollama: View, size: tuple[int, int]
) -> None:
    judged = ollama.judged
    assert judged is not None
    one = judged.analysis.findings[0]
    titles = ["[bold]不明なモデル[/] " * 9, "x" * 200, "short"]
    findings = [one.model_copy(update={"title": t, "rule": f"rule-{n}"}) for n, t in enumerate(titles)]
    top = TopFindings()

    def with_findings(found: list[FindingModel]) -> Judged:
        return replace(judged, analysis=judged.analysis.model_copy(update={"findings": found}))

    async def choose(app: Host, pilot: Pilot[None]) -> None:
        top.show(with_findings(findings))
        await pilot.pause()
        text = text_of(app)
        assert "[bold]" in text
        assert text.count("saves about") >= len(titles)
        assert all(cell_len(line) <= size[0] for line in text.splitlines())
        await pilot.press("tab", "down", "enter")
        top.show(with_findings(findings[::-1][1:]))
        await pilot.press("enter")
        top.show(with_findings(findings))
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
    assert last.axis == "UTC, last 2 min"


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


def test_how_many_come_in_a_minute_is_of_the_time_that_is_known(ollama: View) -> None:
    """Where a request begins that time, the others come in it."""
    assert ollama.now is not None
    seconds = pl.Series("placed_at", [ollama.now - timedelta(seconds=s) for s in (40, 0)]).cast(
        ollama.requests[PLACED_AT].dtype
    )
    two = replace(
        ollama, requests=ollama.requests.head(2).with_columns(seconds), events=ollama.events.clear()
    )
    assert dict(gauges(two).pairs)["a minute, over 40 s"] == f"{60 / 40:.1f}"
    early = ollama.events.head(1).with_columns(pl.lit(ollama.now - timedelta(hours=1)).alias(PLACED_AT))
    known = replace(two, events=early.cast(ollama.events.schema))
    assert dict(gauges(known).pairs)["a minute, last 5 min"] == f"{2 / 5:.1f}"
    cut = replace(known, recent_cut=True)
    assert dict(gauges(cut).pairs)["a minute, over 40 s"] == f"{60 / 40:.1f}"
    none = replace(known, recent_unplaced=1)
    assert not any("a minute" in name for name, _ in gauges(none).pairs)


def test_requests_that_no_clock_places_are_not_counted_as_none(ollama: View) -> None:
    assert recent_title(replace(ollama, recent_requests=8)) == "Last 5 min, 8 requests"
    unplaced = replace(ollama, recent_requests=8, recent_unplaced=2)
    assert recent_title(unplaced) == "Last 5 min, at least 8 requests: 2 more have no clock"
    assert recent_title(replace(unplaced, recent_requests=0)) == "Last 5 min"
    cut = replace(ollama, recent_requests=8, recent_cut=True)
    assert recent_title(cut) == "Last 5 min, at least 8 requests: older ones of them are no longer kept"
    assert dict(gauges(replace(cut, ended=False)).pairs)["requests"].startswith("at least ")


def test_the_last_minutes_hold_no_numbers_of_other_times(ollama: View) -> None:
    kinds = pl.when(pl.int_range(pl.len()) < 3).then(pl.lit("embedding")).otherwise("kind").alias("kind")
    view = replace(ollama, requests=ollama.requests.with_columns(kinds))
    assert dict(gauges(view).pairs)["embedding requests"] == "3"
    assert "ran at once, at most" in dict(gauges(view).pairs)
    recent = dict(gauges(replace(view, ended=False)).pairs)
    assert recent["embedding requests"] == "1"
    assert "ran at once, at most" not in recent


def test_where_a_first_token_is_counted_from_is_said_if_all_say_it(ollama: View) -> None:
    assert "TTFT, p50 (from slot)" in dict(gauges(ollama).pairs)
    some = pl.when(pl.int_range(pl.len()) < 2).then("ttft_from").alias("ttft_from")
    assert "TTFT, p50" in dict(gauges(replace(ollama, requests=ollama.requests.with_columns(some))).pairs)


def windows(*rows: tuple[int, int, int, float]) -> str:
    """vLLM's lines: at which second which replica has how many running, at what speed."""
    return "\n".join(
        f"(APIServer pid=1) INFO 11-30 10:{s // 60:02}:{s % 60:02} [loggers.py:127] Engine {replica:03}: "
        f"Avg prompt throughput: 300.0 tokens/s, Avg generation throughput: {rate} tokens/s, "
        f"Running: {running} reqs, Waiting: 1 reqs, GPU KV cache usage: {running}0.0%, "
        "Prefix cache hit rate: 12.0%"
        for s, replica, running, rate in rows
    )


def test_replicas_that_print_into_one_log_are_added_up(tmp_path: Path) -> None:
    both = [row for s in range(0, 80, 10) for row in ((s, 0, 5, 100.0), (s + (s == 70), 1, 1, 20.0))]
    (tmp_path / "vllm.log").write_text(windows(*both))
    view = seen(tmp_path, "vllm.log")
    told = dict(gauges(view).pairs)
    assert told["running / waiting, last"] == "6 / 2"
    assert told["KV cache in use, last"] == "50 %"
    assert "running, at most" not in told
    requests, decode, _ = trends(view)
    assert [line.y for line in requests.lines] == [(6.0,) * 8, (2.0,) * 8]
    assert decode.lines[0].y == (120.0,) * 8


def test_replicas_that_print_out_of_step_are_not_taken_for_one(tmp_path: Path) -> None:
    both = [row for s in range(0, 80, 10) for row in ((s, 0, 5, 100.0), (s + 4, 1, 1, 20.0))]
    (tmp_path / "vllm.log").write_text(windows(*both))
    view = seen(tmp_path, "vllm.log")
    assert "running / waiting, last" not in dict(gauges(view).pairs)
    assert trends(view)[0].lacks == "The windows of this log don't tell how many requests run."


def test_engines_of_several_sources_are_added_up_while_they_run(tmp_path: Path) -> None:
    (tmp_path / "one.log").write_text(windows(*((s, 0, 5, 100.0) for s in range(0, 80, 10))))
    (tmp_path / "two.log").write_text(windows(*((s, 0, 1, 20.0) for s in range(3, 33, 10))))
    view = seen(tmp_path, "one.log", "two.log")
    assert trends(view)[0].lines[0].y == (5, *(6,) * 7, 5, 5, 5)
    assert dict(gauges(view).pairs)["running / waiting, last"] == "5 / 1"
    unplaced = view.intervals.with_columns(pl.lit(None, view.intervals[PLACED_AT].dtype).alias(PLACED_AT))
    view = replace(view, intervals=unplaced)
    assert "running / waiting, last" not in dict(gauges(view).pairs)
    assert trends(view)[1].lacks == NO_COMMON_CLOCK


def test_one_window_is_too_few_for_a_chart(tmp_path: Path) -> None:
    (tmp_path / "vllm.log").write_text(windows((0, 0, 5, 100.0)))
    view = seen(tmp_path, "vllm.log")
    assert view.now is not None
    later = replace(view, now=view.now + timedelta(hours=1))
    assert trends(later, timedelta(minutes=5))[0].lacks == "None of the windows came in this time."
    requests, _, _ = trends(view)
    assert requests.lacks == "So far one of the windows tells how many requests run: a chart takes 2."


def test_the_sentence_says_which_requests_it_is_of(ollama: View) -> None:
    pane = OverviewPane()

    async def watch(app: Host, pilot: Pilot[None]) -> None:
        async def text(view: View) -> str:
            pane.show(view)
            await pilot.pause()
            return text_of(app)

        assert "10 requests." not in await text(ollama)
        assert "As of 10 requests." in await text(replace(ollama, ended=False))
        totals = replace(ollama.totals, requests=12)
        twice = replace(
            ollama, requests=pl.concat([ollama.requests] * 2), totals=replace(totals, requests=20)
        )
        assert "As of 10 requests." in await text(twice)
        assert "Of the last 10 requests." in await text(replace(ollama, ended=False, totals=totals))

    host(pane, watch, (120, 40))


def test_charts_and_their_key_are_there_where_lines_are_left(ollama: View) -> None:
    pane = OverviewPane()

    async def watch(app: Host, pilot: Pilot[None]) -> None:
        for size, has_charts in (((80, 20), False), ((100, 28), True), ((80, 20), False), ((120, 40), True)):
            await pilot.resize_terminal(*size)
            pane.show(replace(ollama, ended=False))
            await pilot.pause()
            await pilot.pause()
            assert ("•" in text_of(app)) == has_charts
            assert ("t" in app.screen.active_bindings) == has_charts

    host(pane, watch, (80, 20))


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
