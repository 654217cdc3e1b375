"""A last line without newline may be cut inside a value: then it is not believed."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from parsers.torn import may_go_on
from tests.parsers.reading import QUOTED, join, lines_of, read
from tests.parsers.test_samples import LOGS

if TYPE_CHECKING:
    from pathlib import Path

    from parsers.records import Row

VERBOSE = b"""\
total duration:       2m4.5s
load duration:        100ms
prompt eval count:    26 token(s)
prompt eval duration: 130ms
prompt eval rate:     200.00 tokens/s
eval count:           298 token(s)
eval duration:        1m"""
STATS = (
    b"INFO 05-22 02:21:04 [loggers.py:229] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: "
)


def values(row: Row) -> dict[str, object]:
    """What a row says, but where it ends: that may be the cut line."""
    return {f.name: getattr(row, f.name) for f in fields(row) if f.name not in ("line", "clock_end_ms")}


def test_a_duration_that_may_go_on() -> None:
    [cut] = read(VERBOSE).requests
    [whole] = read(VERBOSE + b"\n").requests
    assert (cut.prefill_ms, cut.decode_ms) == (130.0, None)
    assert whole.decode_ms == 60_000.0


def test_a_window_that_may_go_on() -> None:
    assert read(STATS + b"1").intervals == []
    assert [row.decode_tok_s for row in read(STATS + b"1\n").intervals] == [1.0]


def test_what_is_closed_is_read() -> None:
    whole = read(join(QUOTED[:6]))
    assert read(join(QUOTED[:6])[:-1]).told() == whole.told() != []
    assert read(join(QUOTED[:6])[:-1] + b"\r").told() == whole.told()


@pytest.mark.parametrize(
    ("pattern", "body", "goes_on"),
    [
        (rb"n: (?P<n>\d+)", b"n: 34", True),
        (rb"n: (?P<n>\d+(?:\.\d+)?)", b"n: 34.", True),
        (rb"n: (?P<n>\d+) tokens", b"n: 34 tokens", False),
        (rb"n: (?P<n>[01])", b"n: 1", False),
        (rb"n: (?P<n>.*)$", b"n: (34)", False),
        (rb"n: \d+(?:, why=(?P<why>\w+))?", b"n: 3, why=st", True),
    ],
)
def test_what_may_go_on(pattern: bytes, body: bytes, goes_on: bool) -> None:
    assert may_go_on(re.compile(pattern).match, body) is goes_on


def says(row: dict[str, object], more: dict[str, object]) -> bool:
    return all(value is None or value == more.get(name) for name, value in row.items())


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_no_row_of_a_cut_log_has_another_value(log: Path) -> None:
    """Whatever a cut last line says, the whole log says too."""
    lines = lines_of(log.read_bytes())
    for at in {len(lines) * step // 6 for step in range(6)} | {len(lines) - 1}:
        before, line = b"".join(lines[:at]), lines[at].rstrip(b"\r\n")
        true = [values(row) for row in read(before + lines[at]).rows + read(before).rows]
        for end in {len(line) * step // 6 for step in range(1, 6)} | {len(line) - 1}:
            rows = [values(row) for row in read(before + line[:end]).rows]
            assert all(any(says(row, one) for one in true) for row in rows), line[:end]
