"""The fast way through usual lines gives the rows, counts and setups that reading line by line gives."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers import FORMATS, SourceReader, Stream, Tables
from parsers.formats.base import At, Format, Reader, line
from parsers.records import TABLES, Columns, Interval
from parsers.saved import resumed, saved
from tests.parsers.server_log import server_log

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _docker(line: bytes, number: int) -> bytes:
    time = f"2026-03-02T10:{number // 60000 % 60:02d}:{number // 1000 % 60:02d}.{number % 1000 + 1}Z"
    record = {"log": line.decode() + "\n", "stream": "stderr", "time": time}
    return json.dumps(record, separators=(",", ":")).replace(">", "\\u003e").encode()


def _journald(line: bytes, number: int) -> bytes:
    return b"Mar 02 10:%02d:%02d gpu-7 llama[4711]: %b" % (number // 60000 % 60, number // 1000 % 60, line)


def _kubectl(line: bytes, number: int) -> bytes:
    return b"2026-03-02T10:%02d:%02d.%09dZ stderr F %b" % (
        number // 60000 % 60,
        number // 1000 % 60,
        number,
        line,
    )


WRAPPINGS: dict[str, Callable[[bytes, int], bytes]] = {
    "bare": lambda line, _: line,
    "compose": lambda line, _: b"llm-1  | " + line,
    "docker": _docker,
    "journald": _journald,
    "kubectl": _kubectl,
}


def _read(
    log: bytes, *, many: bool, block: int = 1 << 17, put_by: bool = False
) -> tuple[Tables, Stream, bool]:
    reader, tables, together = SourceReader(Stream("log", latest=NOW)), Tables(), False
    for at in range(0, len(log), block):
        rows = (reader.feed_many if many else reader.feed)(log[at : at + block])
        together |= any(isinstance(row, Columns) for row in rows)
        tables.extend(rows)
        if put_by:
            state = saved(reader)
            assert state is not None
            reader = resumed(state)
    tables.extend(reader.close())
    return tables, reader.log, together


def _is_read_alike(log: bytes, block: int = 1 << 17, *, put_by: bool = False) -> bool:
    """Whether both ways give the same, and then whether the fast one was taken."""
    slow, one, _ = _read(log, many=False)
    fast, other, together = _read(log, many=True, block=block, put_by=put_by)
    for table in TABLES:
        assert getattr(fast, table).equals(getattr(slow, table)), table
    assert other.counts == one.counts
    assert other.matched == one.matched
    assert [s.model_dump() for s in other.setups] == [s.model_dump() for s in one.setups]
    return together


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_usual_lines_are_read_alike(wrapping: str) -> None:
    lines = server_log(random.Random(1), 900)
    log = b"".join(WRAPPINGS[wrapping](line, at) + b"\n" for at, line in enumerate(lines))
    assert _is_read_alike(log), "the fast way was not taken"


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from([*WRAPPINGS]), st.sampled_from([0.0, 0.0005, 0.003, 0.02]))
def test_edited_lines_are_read_alike(seed: int, wrapping: str, share: float) -> None:
    lines = server_log(random.Random(seed), 700, odd=share)
    _is_read_alike(b"".join(WRAPPINGS[wrapping](line, at) + b"\n" for at, line in enumerate(lines)))


@pytest.mark.parametrize("block", [70_000, 300_001, 1 << 21])
def test_blocks_are_cut_anywhere_and_readers_put_by_between(block: int) -> None:
    lines = server_log(random.Random(7), 1500, odd=0.0005)
    assert _is_read_alike(b"".join(line + b"\n" for line in lines), block, put_by=True)


def test_wrappings_change() -> None:
    """Midnight comes, then the log is another container's, then it is of none."""
    lines = server_log(random.Random(3), 2400)
    days = [*[b"Mar 02"] * (len(lines) // 4), *[b"Mar 03"] * (len(lines) // 4)]
    log = [b"%b 10:00:00 gpu-7 llama[4711]: %b" % (day, line) for day, line in zip(days, lines, strict=False)]
    log += [b"llm-2  | " + line for line in lines]
    log += [b"llm-%d  | " % (at % 2 + 1) + line for at, line in enumerate(lines)]
    assert _is_read_alike(b"".join(line + b"\n" for line in log + lines))


def _two_clocks(line: bytes, at: int) -> bytes:
    inner = 99 if at > 3000 and at % 700 == 0 else at // 900 % 60
    return b"2026-03-02T10:%02d:00Z stderr F 2026-03-02T10:%02d:00Z %b" % (at // 400 % 60, inner, line)


def _first_clocks_impossible(line: bytes, at: int) -> bytes:
    return (b"2026-03-02T24:59:60Z " if at < 3000 else b"2026-03-02T10:%02d:00Z " % (at // 99 % 60)) + line


def _clock_in_a_label(line: bytes, at: int) -> bytes:
    return b"[pod/llm-10:20:%02d] " % (30 + at % 2) + line


def _cut_records(line: bytes, at: int) -> bytes:
    record = _docker(line, at)
    return record[: record.rindex(b'"time":"') + 7] + b'"}' if at % 50 == 0 else record


def _both_streams(line: bytes, at: int) -> bytes:
    return _docker(line, at).replace(b"stderr", b"stdout" if at % 97 == 0 else b"stderr")


@pytest.mark.parametrize(
    "wrapped", [_two_clocks, _first_clocks_impossible, _clock_in_a_label, _cut_records, _both_streams]
)
def test_strange_wrappings_are_read_alike(wrapped: Callable[[bytes, int], bytes]) -> None:
    lines = server_log(random.Random(11), 1200)
    _is_read_alike(b"".join(wrapped(one, at) + b"\n" for at, one in enumerate(lines)))


def test_a_text_in_another_container_holds_no_line_of_this_one() -> None:
    head = b"web-1  | 2026-03-02T10:00:00.000000Z  %b generate{a=x}: text_generation_router::server: %b\n"
    text = head % (b"INFO", b"Success") + head % (b"DEBUG", b"Input: why is")
    lines = [b"llm-1  | " + one + b"\n" for one in server_log(random.Random(12), 1200)]
    log = b"".join([*lines[:200], text, *lines[200:]])
    assert _is_read_alike(log)


@pytest.mark.parametrize("literal", [b"graphs reused = ", b" W slot ", b"/     ", b"slot update_slots: id"])
def test_formats_of_others_may_read_any_of_these_lines(literal: bytes) -> None:
    """Their patterns may depend on a number, a level, a blank or a function."""
    toy = Format(
        engine="toy",
        title="toy",
        versions="1",
        grain="interval",
        identify=(literal,),
        lines=(line("seen", literal, rb".*" + literal + rb".*(?P<last>\d)\D*$"),),
        reader=_Toy,
    )
    lines = server_log(random.Random(5), 900)
    for at in range(2500, len(lines), 3):
        lines[at] = lines[at].replace(b" I slot", b" W slot").replace(b"launch_slot_", b"update_slots")
    log = b"".join(one + b"\n" for one in lines)
    counts = []
    for feed in (Stream.feed, Stream.feed_many):
        stream = Stream("log", latest=NOW, formats=(toy, *FORMATS))
        for at in range(0, len(log), 1 << 17):
            feed(stream, log[at : at + (1 << 17)])
        stream.close()
        counts.append((stream.counts, stream.matched))
    assert counts[0] == counts[1]
    assert counts[0][0].intervals


class _Toy(Reader):
    def seen(self, m: re.Match[bytes], at: At) -> None:
        self.process.emit(Interval(line=at.number, engine="toy", running=int(m["last"])))


@pytest.mark.parametrize("slot", ["1", "9" * 20])
@pytest.mark.parametrize("task", ["3", "9" * 20, "-" + "9" * 20])
def test_ids_beyond_all_numbers_are_read_alike(slot: str, task: str) -> None:
    lines = server_log(random.Random(3), 900)
    launch = f"0.01.500.000 I slot launch_slot_: id  {slot} | task {task} | processing task, is_child = 0"
    lines.insert(next(at for at, line in enumerate(lines) if b"launch_slot_" in line), launch.encode())
    _is_read_alike(b"".join(line + b"\n" for line in lines))


@pytest.mark.parametrize("which", [5, 40, 200, 400])
@pytest.mark.parametrize("number", [b"9007199254740992.00", b"2678400001.00"])
def test_times_of_more_than_a_month_are_read_alike(number: bytes, which: int) -> None:
    lines, words = server_log(random.Random(1), 900), b"      total time = "
    at = [at for at, line in enumerate(lines) if words in line][which]
    before, _, after = lines[at].partition(words)
    lines[at] = before + words + number + after[after.index(b" ms /") :]
    _is_read_alike(b"".join(line + b"\n" for line in lines))
