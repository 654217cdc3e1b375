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


def test_lines_of_a_users_format_are_not_taken() -> None:
    """Its pattern may depend on a number, and its needle be in a line that says nothing to llama-server."""
    spec = Format(
        engine="toy",
        title="toy",
        versions="1",
        grain="interval",
        identify=(b"graphs reused = ",),
        lines=(line("reused", b"graphs reused = ", rb".*graphs reused = +(?P<graphs>\d*7)$"),),
        reader=_Reused,
    )
    log = b"".join(one + b"\n" for one in server_log(random.Random(5), 900))
    counts = []
    for feed in (Stream.feed, Stream.feed_many):
        stream = Stream("log", latest=NOW, formats=(spec, *FORMATS))
        for at in range(0, len(log), 1 << 17):
            feed(stream, log[at : at + (1 << 17)])
        stream.close()
        counts.append((stream.counts, stream.matched))
    assert counts[0] == counts[1]
    assert counts[0][0].intervals > 50


class _Reused(Reader):
    def reused(self, m: re.Match[bytes], at: At) -> None:
        self.process.emit(Interval(line=at.number, engine="toy", running=int(m["graphs"])))
