"""The fast way through usual lines gives the rows, counts and setups that reading line by line gives."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers import Stream, Tables
from parsers.records import TABLES, Columns
from tests.parsers.server_log import server_log

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 1, 1, tzinfo=UTC)
_BLOCK = 1 << 17


def _docker(line: bytes, number: int) -> bytes:
    time = f"2026-03-02T10:{number // 60000 % 60:02d}:{number // 1000 % 60:02d}.{number % 1000 + 1}Z"
    record = {"log": line.decode() + "\n", "stream": "stderr", "time": time}
    return json.dumps(record, separators=(",", ":")).encode()


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


def _read(log: bytes, *, many: bool) -> tuple[Tables, Stream, bool]:
    stream, tables, together = Stream("log", latest=NOW), Tables(), False
    for at in range(0, len(log), _BLOCK):
        rows = (stream.feed_many if many else stream.feed)(log[at : at + _BLOCK])
        together |= any(isinstance(row, Columns) for row in rows)
        tables.extend(rows)
    tables.extend(stream.close())
    return tables, stream, together


def _is_read_alike(log: bytes) -> bool:
    """Whether both ways give the same, and then whether the fast one was taken."""
    (slow, one, _), (fast, other, together) = _read(log, many=False), _read(log, many=True)
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
