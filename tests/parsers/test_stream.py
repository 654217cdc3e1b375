"""The core: what is read depends on the lines alone, and whatever comes, only true rows leave it."""

from __future__ import annotations

import re
import time
import tracemalloc
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from parsers import Stream, UnknownEngineError
from tests.parsers import invented
from tests.parsers.invented import in_order, told
from tests.parsers.reading import QUOTED, TIMED, Read, bytewise, join, lines_of, read, wrap
from tests.parsers.scenarios import Scenario, scenario, scenarios

if TYPE_CHECKING:
    from random import Random

    from parsers.records import Request

few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

REAL = [
    scenario("llama-server-b11434/d_parallel4_12req").log,
    scenario("llama-server-b11434/f_client_disconnect").log,
    scenario("llama-server-mid2025/e_overflow_default").log,
    scenario("llama-server-mid2025/h_spec_draft_same_model").log,
    scenario("llama-server-mid2025/i_embeddings").log,
]
real = st.sampled_from(REAL)
any_log = st.one_of(real, invented.logs().map(lambda log: log.data))

LAUNCHED = re.compile(rb"\| processing task")


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(edges)]


@few
@given(any_log, st.lists(st.integers(0, 1 << 30), max_size=30))
def test_cutting_the_bytes_anywhere_changes_nothing(data: bytes, cuts: list[int]) -> None:
    whole, cut = read(data), read(*pieces(data, cuts))
    assert cut.told() == whole.told()
    assert cut.stream.counts == whole.stream.counts
    assert cut.stream.lines == whole.stream.lines
    assert cut.stream.bytes == len(data)
    assert [s.model_dump() for s in cut.stream.setups] == [s.model_dump() for s in whole.stream.setups]


def test_byte_by_byte() -> None:
    for data in REAL:
        assert bytewise(data).told() == read(data).told()


@settings(few, max_examples=200)
@given(invented.logs())
def test_slots_that_interleave_come_back_exactly(log: invented.Log) -> None:
    found = read(log.data)
    assert told(found.requests) == in_order(log.rows)
    counts = found.stream.counts
    assert (counts.aborted_requests, counts.failed_requests) == (log.aborted, log.failed)
    assert counts.incomplete_requests == 0
    lines = lines_of(log.data)
    for row in found.requests:
        assert f"task {row.request_id} |".encode() in lines[row.first_line - 1]
        assert log.data[row.offset :].startswith(lines[row.first_line - 1])


def truths(rows: list[Request]) -> dict[tuple[int | None, str | None], Request]:
    return {(row.slot, row.request_id): row for row in rows}


def check_cut(data: bytes, at: int, whole: Read) -> None:
    """What is left of a log gives some of its rows, maybe with less in them, and counts the others."""
    found, all_of_them = read(data[:at]), truths(whole.requests)
    for row in found.requests:
        full = all_of_them[row.slot, row.request_id]
        assert (row.kind, row.prefill_ms, row.prefill_tokens) == (
            full.kind,
            full.prefill_ms,
            full.prefill_tokens,
        )
        assert (row.decode_ms, row.output_tokens) == (full.decode_ms, full.output_tokens)
        for name in ("context_tokens", "cached_tokens", "prompt_tokens", "draft_tokens", "truncated"):
            assert getattr(row, name) in (None, getattr(full, name)), name
        assert (row.total_ms or 0) == pytest.approx(full.total_ms or 0, abs=0.0101)
        assert row.first_line == full.first_line
    counts = found.stream.counts
    ended = counts.requests + counts.aborted_requests + counts.failed_requests + counts.incomplete_requests
    assert ended == len(LAUNCHED.findall(data[:at]))


@settings(few, max_examples=200)
@given(any_log, st.integers(0, 1 << 30))
def test_a_log_cut_anywhere_gives_only_true_rows(data: bytes, at: int) -> None:
    check_cut(data, at % (len(data) + 1), read(data))


@pytest.mark.parametrize(
    "run", ["llama-server-b11434/e_overflow_context_shift", "llama-server-mid2025/i_embeddings"]
)
def test_a_log_cut_at_each_byte(run: str) -> None:
    data = scenario(run).log
    whole, begin = read(data), data.index(b"launch_slot_")
    for at in range(begin, len(data), 7):
        check_cut(data, at, whole)


@few
@given(any_log, st.integers(0, 1 << 30))
def test_a_log_without_its_beginning_gives_only_true_rows(data: bytes, at: int) -> None:
    start = at % (len(data) + 1)
    start = data.find(b"\n", start) + 1
    whole = read(data).requests
    for row in read(data[start:]).requests:
        same = [
            full
            for full in whole
            if (full.prefill_ms, full.decode_ms, full.output_tokens)
            == (row.prefill_ms, row.decode_ms, row.output_tokens)
            and (row.slot, row.request_id) in ((None, None), (full.slot, full.request_id))
            and full.kind == row.kind
            and row.cached_tokens in (None, full.cached_tokens)
        ]
        assert same, row


def shifted(log: Read, lines: int, size: int) -> list[dict[str, object]]:
    rows = log.told("run", "model")
    for row in rows:
        for name, by in (("line", lines), ("first_line", lines), ("offset", size)):
            if name in row:
                row[name] += by
    return rows


@few
@given(real, real)
def test_two_logs_in_a_row_are_two_runs(first: bytes, second: bytes) -> None:
    both = read(first + second)
    one, two = read(first), read(second)
    assert both.told("run", "model") == one.told("run", "model") + shifted(two, one.stream.lines, len(first))
    assert [row.run for row in both.rows] == [0] * len(one.rows) + [1] * len(two.rows)
    assert [s.model_dump(exclude={"line", "origin"}) for s in both.stream.setups] == [
        s.model_dump(exclude={"line", "origin"}) for s in (*one.stream.setups, *two.stream.setups)
    ]
    assert both.stream.setups[1].line == one.stream.lines + two.stream.setups[0].line


@few
@given(
    st.sampled_from(invented.LAYOUTS).flatmap(
        lambda layout: st.tuples(*[invented.logs((layout,), from_zero=True)] * 2)
    )
)
def test_a_restart_without_a_header_mixes_nothing_up(logs: tuple[invented.Log, invented.Log]) -> None:
    first, second = logs
    both = read(first.data + second.data)
    assert sorted(map(str, told(both.requests))) == sorted(
        map(str, in_order(first.rows) + in_order(second.rows))
    )
    assert both.stream.counts.incomplete_requests == 0


def test_a_process_killed_in_the_middle_and_started_again() -> None:
    killed, after = scenario("llama-server-mid2025/j_killed_midwrite").log, REAL[2]
    both = read(killed + after)
    assert len(both.requests) == len(read(after).requests)
    assert both.stream.counts.incomplete_requests == 1


@few
@given(st.binary(max_size=4000))
def test_garbage_is_no_log(data: bytes) -> None:
    assert bytewise(data).told() == read(data).told() == []


@few
@given(any_log, st.lists(st.tuples(st.integers(0, 1 << 30), st.binary(max_size=12)), min_size=1, max_size=20))
def test_damage_never_raises_and_damaged_rows_stay_few(data: bytes, damage: list[tuple[int, bytes]]) -> None:
    harmed = bytearray(data)
    for place, noise in damage:
        at = place % (len(harmed) + 1)
        harmed[at : at + len(noise)] = noise
    assert read(bytes(harmed)).stream.counts.requests <= read(data).stream.counts.requests + len(damage)


@few
@given(invented.logs(), invented.logs(), st.randoms(use_true_random=False))
def test_two_services_in_one_file_stay_apart(one: invented.Log, two: invented.Log, random: Random) -> None:
    sides = [lines_of(wrap(one.data, b"chat-1     | ")), lines_of(wrap(two.data, b"embedder-1 | "))]
    mixed = b""
    while any(sides):
        mixed += random.choice([side for side in sides if side]).pop(0)
    rows = read(mixed).requests
    apart = [told([row for row in rows if row.run == run]) for run in {row.run for row in rows}]
    assert sorted(map(str, apart)) == sorted(str(in_order(log.rows)) for log in (one, two) if log.rows)


# --- long lines

MEGABYTES = 5 << 20


def long_line(filler: bytes, newline: bytes = b"") -> bytes:
    return (filler * (MEGABYTES // len(filler) + 1))[:MEGABYTES] + newline


@pytest.mark.parametrize(
    "filler", [b"x", b"prompt eval time = ", b"slot | task | print_timing: id ", b"> ", b"\r", b'{"log":']
)
@pytest.mark.parametrize("newline", [b"", b"\n"])
def test_a_line_of_five_megabytes_costs_little(filler: bytes, newline: bytes) -> None:
    data, after = long_line(filler, newline), join(QUOTED[:6]) if newline else b""
    stream = Stream("log")
    tracemalloc.start()
    began = time.perf_counter()
    for at in range(0, len(data), 1 << 16):
        assert not stream.feed(data[at : at + (1 << 16)])
    rows = stream.feed(after) + stream.close()
    took_s, (_, peak) = time.perf_counter() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(rows) == (1 if newline else 0)
    assert took_s < 5
    assert peak < 2 << 20
    assert [row.offset for row in rows if hasattr(row, "offset")] == [len(data)] * len(rows)
    assert (
        read(data + after).told()
        == read(data, after).told()
        == [row | {"source": "log"} for row in read(data + after).told()]
    )
    assert stream.lines == data.count(b"\n") + after.count(b"\n") + (0 if newline else 1)


# --- the beginning of a source


@few
@example(b"\xef\xbb\xbf", [1, 2])
@example(b"\xff\xfe", [1])
@given(
    st.sampled_from([b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"]), st.lists(st.integers(0, 9), max_size=4)
)
def test_byte_order_marks(mark: bytes, cuts: list[int]) -> None:
    encoding = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(mark, "utf-8")
    text = "".join(f"{line}\n" for line in ("größer — 一", *QUOTED[:6]))
    data = mark + text.encode(encoding)
    [row] = read(*pieces(data[:16], cuts), data[16:]).requests
    assert (row.first_line, row.line) == (2, 6)
    assert data[row.offset :].decode(encoding).startswith(QUOTED[0])


@pytest.mark.parametrize("data", [b"", b"\xef", b"\xef\xbb\xbf", b"\xff", b"\n", b"\n\n"])
def test_next_to_nothing(data: bytes) -> None:
    log = read(data)
    assert log.rows == []
    assert log.stream.engine is None
    assert log.stream.lines == data.count(b"\n") + (1 if data in (b"\xef", b"\xff") else 0)


def test_an_engine_may_be_named() -> None:
    with pytest.raises(UnknownEngineError):
        Stream("log", engine="abacus")
    stream = Stream("log", engine="llama-server")
    assert len(stream.feed(join(TIMED)) + stream.close()) == 1


@pytest.mark.parametrize("run", scenarios(), ids=str)
def test_what_waits_is_told_when_the_log_rests(run: Scenario) -> None:
    """A tail that flushes after each line ends with the same requests."""
    stream, found = Stream("log"), []
    for line in lines_of(run.log):
        found += stream.feed(line) + stream.flush()
    found += stream.close()
    assert len(found) == len(read(run.log).rows)
