"""One request: its stretches of time, what it learns while rows come, the ways to its findings and back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from textual.app import App

from advisor.live.raw import Raw
from advisor.report.rows import DERIVED
from advisor.tui.findings.evidence_line import EvidenceLine
from advisor.tui.findings.finding import FindingView
from advisor.tui.findings.listing import FindingList
from advisor.tui.findings.pane import FindingsPane
from advisor.tui.names import named, of_parts
from advisor.tui.option_list import List
from advisor.tui.request.findings import RequestFindings
from advisor.tui.request.neighbours import NOT_YET
from advisor.tui.request.raw_lines import _left_out
from advisor.tui.request.screen import RequestScreen
from advisor.tui.request.stretches import AFTER, BEFORE, UNTOLD, stretches
from advisor.tui.request.words import waited
from parsers.records import Request, schema
from tests.tui.running import SMALL, drawn, run, text_of
from tests.tui.test_requests import live, table_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.app import ComposeResult
    from textual.pilot import Pilot

    from advisor.tui.app import PhasewiseApp

RAG = "llama-server-rag.log"
SEVERAL = ["llama-server-rag.log", "ollama-reload.log", "vllm.log"]


# --- its time


def row_of(**told: Any) -> dict[str, Any]:
    rows = pl.DataFrame([Request(source="a", line=9, **told)], schema=schema(Request))
    return rows.with_columns(**DERIVED).row(0, named=True)


FROM_SLOT = {"ttft_ms": 400.0, "ttft_from": "slot", "total_ms": 1000.0}


@pytest.mark.parametrize(
    ("told", "parts"),
    [
        (
            {"ttft_ms": 400.0, "ttft_from": "arrival", "decode_ms": 600.0, "total_ms": 1000.0},
            [("other", 400, BEFORE), ("decode", 600, 400)],
        ),
        (
            {"prefill_ms": 400.0, "decode_ms": 600.0, **FROM_SLOT},
            [("prefill", 400, 0), ("decode", 600, 400)],
        ),
        (
            {"queue_ms": 200.0, "prefill_ms": 300.0, "decode_ms": 300.0, **FROM_SLOT},
            [
                ("queue", 200, 0),
                ("prefill", 300, BEFORE),
                ("other", 100, BEFORE),
                ("decode", 300, 600),
                ("other", 100, AFTER),
            ],
        ),
        (
            {"queue_ms": 100.0, "decode_ms": 600.0, "total_ms": 1000.0},
            [("queue", 100, 0), ("decode", 600, UNTOLD), ("other", 300, UNTOLD)],
        ),
        ({"queue_ms": 100.0, "total_ms": 1000.0}, [("queue", 100, 0), ("other", 900, UNTOLD)]),
        (
            {"load_ms": 900.0, "ttft_ms": 100.0, "decode_ms": 900.0, "total_ms": 1000.0},
            [("load", 900, UNTOLD), ("decode", 900, UNTOLD)],
        ),
        ({"total_ms": 1000.0}, []),
        ({"ttft_ms": 100.0}, []),
    ],
)
def test_when_its_phases_were(told: dict[str, Any], parts: list[tuple[str, float, float | str]]) -> None:
    found = stretches(row_of(**told))
    assert [(one.phase, round(one.ms, 6), one.about or one.start_ms) for one in found] == parts
    assert not found or sum(one.share for one in found) == pytest.approx(1)


def test_what_no_phase_explains_is_said_to_be_before_the_first_token() -> None:
    row = row_of(ttft_ms=400.0, ttft_from="arrival", decode_ms=500.0, total_ms=1000.0)
    said = "400 ms before its first token and 100 ms after its first token that the log names no phase for"
    assert waited(row)[-1] == f"{said} (other)."


# --- while rows come in


def said_of(app: PhasewiseApp) -> str:
    """The first that the open request says of its findings."""
    return str(app.screen.query_one(RequestFindings).get_option_at_index(0).prompt)


def test_an_open_request_learns_what_comes() -> None:
    async def use(app: PhasewiseApp, pilot: Pilot[None], write: Callable[[int], Awaitable[None]]) -> None:
        app._judging = True  # no rule is asked yet
        await write(3)
        await pilot.press("end", "enter")
        await drawn(app, pilot)
        assert isinstance(app.screen, RequestScreen)
        assert said_of(app) == NOT_YET
        await write(2)
        assert table_of(app).cursor == 2
        app._judging = False
        until_judged = app.view
        while app.view is None or app.view.judged is None:
            app._judging_pace._next_at_s = 0.0
            app._tick()
            await drawn(app, pilot)
        assert until_judged is not app.view
        await pilot.pause(0.6)
        await drawn(app, pilot)
        assert said_of(app) not in (NOT_YET, "...")

        await pilot.press("n", "n")
        await drawn(app, pilot)
        assert "Request 5 ·" in text_of(app)
        await write(1)
        assert "Request 5 ·" in text_of(app)
        await pilot.press("n", "n", "n", "n")
        await drawn(app, pilot)
        assert "Request 6 ·" in text_of(app)
        assert [note.message for note in app._notifications] == ["The last one."]

        await pilot.press("p")
        assert text_of(app).splitlines()[0].lstrip().startswith("paused  Request 6")
        await pilot.press("p")
        assert "paused" not in text_of(app)

    live(use)


# --- from it to its findings, and back


def test_from_a_finding_to_its_requests_and_back() -> None:
    async def use(app: PhasewiseApp, pilot: Pilot[None]) -> None:
        async def press(*keys: str) -> str:
            for key in keys:
                await pilot.press(key)
                await drawn(app, pilot)
            return text_of(app)

        listed = app.query_one(FindingList)
        assert "Its request" in await press("3")
        first = listed.chosen
        finding = app.query_one(FindingView)
        line = next(line for line in finding.query(EvidenceLine) if line.can_focus)
        assert line.evidence.lines
        assert "Request" in await press("e")
        assert isinstance(app.screen, RequestScreen)
        shown = table_of(app).cursor
        await press("escape")
        assert (app.pane, listed.chosen) == (app.query_one(FindingsPane), first)

        line.focus()
        assert isinstance((await press("enter"), app.screen)[1], RequestScreen)
        assert table_of(app).cursor == shown

        text = await press("f")
        assert "Open the finding" in text
        assert app.screen.query_one(RequestFindings).highlighted == 0
        second = app.screen.query_one(RequestFindings).highlighted_option
        assert second is not None
        await press("enter")
        assert (app.pane, listed.chosen) == (app.query_one(FindingsPane), second.id)
        await press("escape")
        assert isinstance(app.screen, RequestScreen)
        assert table_of(app).cursor == shown
        await press("escape")
        assert (app.pane, listed.chosen) == (app.query_one(FindingsPane), first)
        before = await press("escape")
        assert await press("escape") == before

        await press("2", "enter", "f", "enter", "escape")
        assert isinstance(app.screen, RequestScreen)
        assert table_of(app).cursor == shown
        await press("escape")
        assert app.focused is table_of(app)

        await press("slash", *"id=nothing", "enter", "3", "e")
        assert isinstance(app.screen, RequestScreen)
        assert table_of(app).cursor == shown

    run([RAG], SMALL, then=use)


def test_findings_of_one_rule_are_told_apart() -> None:
    async def use(app: PhasewiseApp, pilot: Pilot[None]) -> None:
        judged = app._judged
        assert judged is not None
        names = of_parts(judged.diagnosis)
        found = named(judged.analysis)
        assert sorted(name for part in names for name in part) == sorted(found)
        for (_, findings), part in zip(judged.diagnosis.parts, names, strict=True):
            assert [found[name].title for name in part] == [one.title for one in findings]
            assert [found[name].requests for name in part] == [one.requests for one in findings]
        assert "cpu-only 2" in found
        app.query_one(FindingsPane).choose("cpu-only 2")
        await drawn(app, pilot)
        shown = text_of(app)
        assert ": Everything runs on the CPU" in shown
        assert len({line for line in shown.splitlines() if "Everything runs on the CPU" in line}) > 1

    run(SEVERAL, (100, 40), ["3"], then=use)


# --- at the edges


def test_lines_that_were_not_read_are_counted() -> None:
    said = [_left_out(Raw(unread=unread, reached=9), 9) for unread in (1, 2)]
    assert said == [
        ["1 line not read, and never shown: it may hold a prompt"],
        ["2 lines not read, and never shown: they may hold a prompt"],
    ]


def test_page_keys_where_there_is_no_room() -> None:
    class Lists(App[None]):
        CSS = "List { width: 0; height: 1; border: none; padding: 0; }"

        def compose(self) -> ComposeResult:
            yield List("one", "two")

    async def press() -> None:
        app = Lists()
        async with app.run_test(size=(30, 8)) as pilot:
            listed = app.query_one(List)
            listed.focus()
            listed.highlighted = 0
            await pilot.press("pageup", "pagedown")
            assert listed.highlighted == 0

    asyncio.run(press())


def test_no_value_of_a_timing_line_is_cut() -> None:
    shown = run([RAG], (80, 60), ["2", "end", "enter"]).text
    raw = " ".join(shown.split("Its lines in the log")[1].split())
    for rate in (
        "4.95 ms per token, 201.96 tokens per second",
        "21.83 ms per token, 45.81 tokens per second",
    ):
        assert rate in raw
