from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, cast

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.analysis import Options
from advisor.live.history import PLACED_AT
from advisor.live.session import Session
from advisor.live.tails import TailedLog
from advisor.live.view import Judged, judged, view
from advisor.model import Line
from advisor.report.rows import DERIVED
from advisor.tui.app import PhasewiseApp
from advisor.tui.request.events import happened
from advisor.tui.request.findings import counted
from advisor.tui.request.neighbours import NO_CLOCK, NOT_YET, neighbours
from advisor.tui.request.screen import RequestScreen
from advisor.tui.request.words import place, rates, waited
from advisor.tui.requests.at_line import request_at
from advisor.tui.requests.columns import Facts, columns
from advisor.tui.requests.filter import FilterError, is_begun, parse
from advisor.tui.requests.order import PLACE, RowOrder
from advisor.tui.requests.pane import RequestsPane
from advisor.tui.requests.table import RequestsTable
from parsers import Stream
from parsers.records import Event, Interval, Request, schema
from parsers.setup import Setup
from rules.measures import Measures
from tests.tui.running import LARGE, SAMPLES, SMALL, drawn, run, session_of, text_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from syrupy.assertion import SnapshotAssertion
    from textual.pilot import Pilot

    Use = Callable[[PhasewiseApp, Pilot[None]], Awaitable[None]]

TWO_LOGS = ["llama-server-four-slots.log", "ollama-reload.log"]


def table_of(app: PhasewiseApp) -> RequestsTable:
    return app.query_one(RequestsPane).query_one(RequestsTable)


def used(names: Sequence[str], size: tuple[int, int], *keys: str) -> str:
    """What is shown after these keys in the tab of requests."""

    async def use(app: PhasewiseApp, pilot: Pilot[None]) -> None:
        table_of(app).focus()
        for key in keys:
            await pilot.press(key)
            await drawn(app, pilot)

    return run(names, size, ["2"], then=use).text


# --- the order


KEYS = st.one_of(st.none(), st.integers(0, 3))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), st.lists(KEYS, max_size=4), st.integers(0, 3)),
        st.tuples(st.just("filter"), st.one_of(st.none(), st.integers(0, 3))),
        st.tuples(st.just("sort"), st.sampled_from([PLACE, "key"]), st.booleans()),
    ),
    max_size=8,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_the_order_is_that_of_rows_filtered_and_sorted_at_once(steps: list[tuple[Any, ...]]) -> None:
    order, first, by, falls = RowOrder(), 0, PLACE, False
    keys: list[int | None] = []
    least: int | None = None
    for what, *how in steps:
        if what == "rows":
            keys += how[0]
            first = min(first + how[1], len(keys))
            order.take(pl.DataFrame({"key": keys[first:]}, schema={"key": pl.Int64}), first)
        elif what == "filter":
            least = how[0]
            order.filter(None if least is None else (pl.col("key") >= least).fill_null(value=False))
        else:
            by, falls = how
            order.sort(by, is_descending=falls)
        shown = [n for n in range(first, len(keys)) if least is None or _or(keys[n], -1) >= least]
        if by == PLACE:
            numbers = shown[::-1] if falls else shown
        else:
            sign = -1 if falls else 1
            numbers = sorted(shown, key=lambda n: (keys[n] is None, sign * _or(keys[n], 0)))
        assert order.numbers(0, len(keys)).tolist() == numbers
        assert len(order) == len(numbers)
        assert [order.position(n) for n in numbers] == list(range(len(numbers)))
        assert order.position(first - 1) is None
        assert [row[PLACE] for row in order.rows(1, 3, ["key"])] == numbers[1:3]


def _or(key: int | None, default: int) -> int:
    return default if key is None else key


# --- the filter


ROWS = pl.DataFrame(
    [
        {
            "request_id": "7",
            "model": "Qwen3-8B.gguf",
            "kind": "generation",
            "ttft_ms": 2500.0,
            "prompt_tokens": 4000,
        },
        {"request_id": "77", "model": "llama [3]", "kind": "embedding", "prompt_tokens": 10},
        {
            "request_id": "8",
            "kind": "generation",
            "ttft_ms": 90.0,
            "prompt_tokens": 1000,
            "cached_tokens": 400,
        },
    ],
    schema=schema(Request) | {"decode_tok_s": pl.Float64(), "prefill_tok_s": pl.Float64()},
)


@pytest.mark.parametrize(
    ("text", "passing"),
    [
        ("", [0, 1, 2]),
        ("qwen", [0]),
        ("[3]", [1]),
        (".*", []),
        ('"llama [3]" embedding', [1]),
        ("ttft>2s", [0]),
        ("ttft > 2s prompt>=4,000", [0]),
        ("ttft<=90ms", [2]),
        ("cached<50%", [2]),
        ("cached<0.4", []),
        ("cached>399", [2]),
        ("id=7", [0]),
        ("id!=7", [1, 2]),
        ("model!=qwen", [1]),
        ("TTFT>2S", [0]),
        ("ttft > 2 s & cached < 50 %", []),
        ("prompt>999 && ttft < 1 s", [2]),
        ('kind = embedding "llama [3]"', [1]),
        ("kind=generation tok/s>1", []),
        ("7 kind=embed", [1]),
    ],
)
def test_a_filter(text: str, passing: list[int]) -> None:
    passes = parse(text)
    found = ROWS.with_row_index("n")
    assert (found if passes is None else found.filter(passes))["n"].to_list() == passing


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("foo>1", "There is no foo to filter by; there are ttft, total,"),
        ("ttft>2", "ttft: say the unit: 2s are seconds, 2ms milliseconds."),
        ("model<3", "model is a text: it takes = and !=, not <."),
        ("prompt>many", "prompt is a whole number, and many is none."),
        ("ttft>", "ttft> lacks a value."),
        ("ttft> prompt>5", "ttft> lacks a value."),
        ("ttft>2s>3s", "ttft>2s>3s is no comparison."),
        ("cached<150%", "cached: a share is at most 100%."),
        ("tok/s>fast", "tok/s: give a number of tokens per second, such as 20."),
    ],
)
def test_no_filter(text: str, said: str) -> None:
    with pytest.raises(FilterError) as error:
        parse(text)
    assert str(error.value).startswith(said)


def test_what_may_become_a_comparison_is_not_looked_for_yet() -> None:
    assert [text for text in ("t", "ttft", "x ttft>", "qwen", "ttft>2s", "ttft ") if is_begun(text)] == [
        "t",
        "ttft",
        "x ttft>",
    ]


# --- the columns


def rows_of(*rows: dict[str, Any]) -> pl.DataFrame:
    told = pl.DataFrame(
        [Request(source="a", line=1, **{k: v for k, v in row.items() if k != "at"}) for row in rows],
        schema=schema(Request),
    )
    at = pl.Series(PLACED_AT, [row.get("at") for row in rows], pl.Datetime("us", "UTC"))
    return told.with_columns(at, **DERIVED)


def test_a_log_without_a_clock_after_one_with_a_clock() -> None:
    noon = datetime(2026, 11, 30, 12, tzinfo=UTC)
    facts = Facts()
    for at in (None, noon, None):
        facts.add(rows_of({"at": at}, {"at": at}))
        assert not facts.days
    assert PLACED_AT in facts.told
    facts.add(rows_of({"at": noon - timedelta(days=1)}, {}))
    assert facts.days


def test_no_number_is_cut() -> None:
    facts = Facts()
    facts.add(rows_of({"prompt_tokens": 7}))
    least = sum(column.width for column in columns(facts, 0, 80))
    facts.add(rows_of({"prompt_tokens": 12_345_678, "total_ms": 123_456_789_000.0}, {"prompt_tokens": 8}))
    chosen = {column.name: column for column in columns(facts, 2, 80)}
    row = rows_of({"prompt_tokens": 12_345_678, "total_ms": 123_456_789_000.0}).row(0, named=True)
    cells = [chosen[name].cell(row) for name in ("prompt_tokens", "total_ms")]
    assert cells == ["12,345,678", "123,456,789"]
    assert least < sum(column.width for column in chosen.values())


# --- what is shown


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_somebody_looks_for_the_slowest_and_opens_it(
    size: tuple[int, int], snapshot: SnapshotAssertion
) -> None:
    typed = ["slash", *"total", "greater_than_sign", *"3s", "enter"]
    pressed: list[str] = []

    async def use(app: PhasewiseApp, pilot: Pilot[None]) -> None:
        table_of(app).focus()
        await pilot.press("s", "s", *typed)
        await drawn(app, pilot)
        pressed.append(text_of(app))
        await pilot.press("home", "enter")
        await drawn(app, pilot)

    request = run(TWO_LOGS, size, ["2"], then=use).text
    assert pressed == snapshot(name="table")
    assert request == snapshot(name="request")


def test_a_log_without_requests_says_what_it_lacks(snapshot: SnapshotAssertion) -> None:
    assert used(["vllm.log"], SMALL) == snapshot


def test_keys_and_mouse() -> None:
    async def use(app: PhasewiseApp, pilot: Pilot[None]) -> None:
        table = table_of(app)
        table.focus()
        await pilot.press("j", "down", "k")
        assert table.cursor == 1
        await pilot.press("s", "S")
        assert (table.order.by, table.order.is_descending) == ("total_ms", False)
        assert table.cursor == 1
        await pilot.click(RequestsTable, offset=(2, 0))
        assert table.order.by == PLACE
        await pilot.click(RequestsTable, offset=(2, 0))
        assert table.order.is_descending
        await pilot.click(RequestsTable, offset=(30, 1))
        assert table.cursor == 11
        await pilot.click(RequestsTable, offset=(30, 3), times=2)
        assert isinstance(app.screen, RequestScreen)
        await pilot.press("right", "left", "n")
        assert table.cursor == 8
        await drawn(app, pilot)
        assert "Request 9 · id" in text_of(app)
        await pilot.press("2")
        await pilot.pause()
        assert not isinstance(app.screen, RequestScreen)
        await pilot.press("slash", *"foo", "greater_than_sign", "1", "enter")
        assert "There is no foo to filter by" in text_of(app)
        await pilot.press("escape")
        assert "There is no foo" not in text_of(app)
        await pilot.press("slash", *"xyz", "enter")
        assert "0 of 12 requests (Esc shows all)" in text_of(app)
        await pilot.press("enter", "down", "escape", "b")
        assert "12 requests" in text_of(app)
        assert "shares" in text_of(app)
        assert app.focused is table

    run(["llama-server-four-slots.log"], SMALL, ["2"], then=use)


# --- what is found of a request


def judged_of(name: str) -> tuple[pl.DataFrame, Judged]:
    """A finished log's requests, and what the rules say of them."""
    session = session_of([str(SAMPLES / name)])
    session.start()
    while not session.ended:
        time.sleep(0.005)
    session.settle()
    found = judged(session)
    return view(session, found).requests, found


def test_what_requests_would_have_saved_adds_up_to_what_the_finding_saves() -> None:
    requests, found = judged_of("llama-server-rag.log")
    saved: Counter[str] = Counter()
    for row in requests.iter_rows(named=True):
        for one in counted(found.diagnosis, row) or ():
            saved[one.finding.rule] += int(one.saved_ms or 0)
    stated = {f.rule: f.saving.ms for f in found.diagnosis.findings if f.saving}
    assert stated
    assert {rule: saved[rule] for rule in stated} == pytest.approx(stated, rel=0.01)


@pytest.mark.parametrize("name", ["llama-server-four-slots.log", "llama-server-rag.log"])
def test_a_line_of_the_log_leads_to_its_request(name: str) -> None:
    session = session_of([str(SAMPLES / name)])
    session.start()
    while not session.ended:
        time.sleep(0.005)
    session.settle()
    seen = view(session, None)
    requests = seen.requests.to_dicts()
    for number, row in enumerate(requests):
        assert request_at(seen, Line(source=row["source"], line=row["line"])) == number
    of_events = {
        (event["request_id"], requests[at]["request_id"])
        for event in seen.events.drop_nulls("request_id").to_dicts()
        if (at := request_at(seen, Line(source=event["source"], line=event["line"]))) is not None
    }
    assert of_events or name != "llama-server-rag.log"
    assert all(told == found for told, found in of_events)
    assert request_at(seen, Line(source="elsewhere", line=requests[0]["line"])) is None
    assert request_at(seen, Line(source=requests[0]["source"], line=1)) is None


def test_neighbours_see_each_other_for_as_long() -> None:
    requests, found = judged_of("llama-server-four-slots.log")
    overlaps: dict[tuple[int, int], float] = {}
    for row in requests.iter_rows(named=True):
        beside = neighbours(found.measures, row)
        assert len(beside.rows) + beside.more > 2
        overlaps |= {(row["line"], one["line"]): one["overlap_ms"] for one in beside.rows}
    both = [(a, b) for a, b in overlaps if (b, a) in overlaps]
    assert len(both) > 50
    assert all(overlaps[a, b] == pytest.approx(overlaps[b, a]) for a, b in both)
    assert neighbours(None, requests.row(0, named=True)).said == (NOT_YET,)


def measures_of(requests: pl.DataFrame) -> Measures:
    intervals, events = pl.DataFrame(schema=schema(Interval)), pl.DataFrame(schema=schema(Event))
    return Measures(requests, intervals, events, Setup())


def test_requests_of_one_line_are_told_apart() -> None:
    rows = [
        Request(source="a", line=7, request_id=name, total_ms=9.0, clock_start_ms=at, clock_end_ms=at + 9)
        for name, at in (("one", 0.0), ("two", 4.0))
    ]
    requests = pl.DataFrame(rows, schema=schema(Request)).with_columns(**DERIVED)
    beside = neighbours(measures_of(requests), requests.row(0, named=True))
    assert [(one["request_id"], one["overlap_ms"]) for one in beside.rows] == [("two", 5.0)]


def test_one_that_the_log_gives_no_clock_name_or_slot() -> None:
    rows = [
        Request(source="a", line=line, total_ms=9.0, prefill_ms=4.0, decode_ms=5.0, ttft_ms=4.0)
        for line in (7, 8)
    ]
    requests = pl.DataFrame(rows, schema=schema(Request)).with_columns(**DERIVED)
    events = pl.DataFrame([Event(source="a", line=7, kind="error")], schema=schema(Event))
    row = requests.row(0, named=True)
    assert happened(events, row) == []
    assert neighbours(measures_of(requests), row).said == (NO_CLOCK,)
    assert place(row) == "line 7 · a"
    assert waited(row) == [
        "How long it waited to be taken, this log does not say.",
        "4.0 ms while its prompt was read (prefill).",
        "5.0 ms while its answer was generated (decode).",
    ]
    assert dict(rates(row))["decode"] == "no rate: its tokens or its time are not logged"


# --- while rows come in


class Written:
    """A log that a test writes."""

    name = "server.log"
    has_caught_up = True

    def __init__(self) -> None:
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self.requests = 0

    def write(self, requests: int) -> None:
        for task in range(self.requests, self.requests + requests):
            slot = f"0.01.000.000 I slot print_timing: id  0 | task {task} | "
            rates = "(    1.00 ms per token,  1000.00 tokens per second)"
            self._lines.put(
                f"0.01.000.000 I slot launch_slot_: id  0 | task {task} | processing task\n"
                f"{slot}prompt eval time =     300.00 ms /   300 tokens {rates}\n"
                f"{slot}       eval time =      50.00 ms /    50 tokens {rates}\n"
                f"{slot}      total time =     350.00 ms /   350 tokens\n"
                f"0.01.000.000 I slot      release: id  0 | task {task} | "
                "stop processing: n_tokens = 350, truncated = 0\n".encode()
            )
        self.requests += requests

    def read(self, wait_s: float) -> bytes | None:
        try:
            return self._lines.get(timeout=0.01)
        except Empty:
            return b""

    def notes(self) -> list[str]:
        return []

    def close(self) -> None: ...


def live(
    use: Callable[[PhasewiseApp, Pilot[None], Callable[[int], Awaitable[None]]], Awaitable[None]],
) -> None:
    """Use the screen over a log that is written meanwhile; the last 40 requests are kept."""
    log = Written()

    async def go() -> None:
        app = PhasewiseApp(Session([TailedLog(log, Stream(log.name))], Options(), history=40))
        async with app.run_test(size=SMALL) as pilot:

            async def write(requests: int) -> None:
                log.write(requests)
                until_s = time.monotonic() + 10
                while app.session.totals.requests < log.requests or not app.session.tails[0].is_live:
                    assert time.monotonic() < until_s
                    await pilot.pause(0.01)
                    app.session.settle()
                await drawn(app, pilot)

            await pilot.press("2")
            table_of(app).focus()
            await use(app, pilot, write)

    asyncio.run(go())


def first_seen(app: PhasewiseApp) -> int:
    table = table_of(app)
    return cast("int", table.order.number(round(table.scroll_y)))


def test_it_follows_until_somebody_looks_back() -> None:
    async def use(app: PhasewiseApp, pilot: Pilot[None], write: Callable[[int], Awaitable[None]]) -> None:
        await drawn(app, pilot)
        assert "No request yet" in text_of(app)
        table = table_of(app)
        await write(30)
        assert app.focused is table
        assert table.cursor == 29
        await write(5)
        assert table.cursor == 34
        await pilot.press("up", "up")
        assert table.cursor == 32
        seen = first_seen(app)
        for _ in range(6):
            await write(1)
            assert (table.cursor, first_seen(app)) == (32, seen)
        await pilot.press("end")
        await write(3)
        assert table.cursor == 43
        await pilot.press("S")
        assert table.cursor == 43
        await pilot.press("home")
        await write(2)
        assert table.cursor == 45
        assert first_seen(app) == 45

    live(use)


def test_what_was_dropped_leaves_the_cursor_on_what_is_left() -> None:
    async def use(app: PhasewiseApp, pilot: Pilot[None], write: Callable[[int], Awaitable[None]]) -> None:
        table = table_of(app)
        await write(20)
        await pilot.press("home", "down")
        assert table.cursor == 1
        for _ in range(3):
            await write(20)
        assert table.order.first > 1
        assert "requests · the last of 80" in text_of(app)
        assert table.cursor == table.order.first + 1
        await pilot.press("end", *["up"] * 5)
        seen = first_seen(app)
        await write(20)
        assert (table.cursor, first_seen(app)) == (74, seen)
        await pilot.press("s", "slash", *"id=79", "enter")
        assert (len(table.order), table.cursor) == (1, 79)
        await write(2)
        assert (len(table.order), table.cursor) == (1, 79)

    live(use)
