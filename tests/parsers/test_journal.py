"""The journal in each of `journalctl`'s layouts: its clock and its unit are those of every row."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsers.reading import QUOTED, TIMES, Read, bytewise, join, lines_of, read
from tests.parsers.scenarios import scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

START = datetime(2025, 12, 31, 23, 59, 58, tzinfo=UTC)
LOG = scenario("llama-server-b11434/d_parallel4_12req").log
OLD = scenario("llama-server-mid2025/a_short_default").log
PLACES = ("line", "first_line", "offset", *TIMES)


def moment(number: int) -> datetime:
    return START + timedelta(milliseconds=137 * number)


def entry(number: int, fields: Iterable[tuple[str, bytes]]) -> bytes:
    """An entry as `journalctl -o export` writes it, what is no text in its binary form."""
    us = str(int(moment(number).timestamp() * 1_000_000))
    head = [("__CURSOR", b"s=1;i=%x" % number), ("__REALTIME_TIMESTAMP", us.encode()), ("_BOOT_ID", b"ab")]
    return b"".join(_field(name, value) for name, value in [*head, *fields]) + b"\n"


def _field(name: str, value: bytes) -> bytes:
    if all(byte >= 32 or byte == 9 for byte in value):
        return name.encode() + b"=" + value + b"\n"
    return name.encode() + b"\n" + struct.pack("<Q", len(value)) + value + b"\n"


def export(
    log: bytes, unit: str = "llama-server", *, message_first: bool = False, more: bytes = b"x"
) -> bytes:
    out = b""
    for number, line in enumerate(lines_of(log)):
        message = [("MESSAGE", line.removesuffix(b"\n"))]
        about = [("_PID", b"71"), ("SYSLOG_IDENTIFIER", unit.encode()), ("_EXTRA", more)]
        out += entry(number, message + about if message_first else about + message)
    return out


def rows(log: Read) -> list[dict[str, object]]:
    return log.told(*PLACES)


@pytest.mark.parametrize("log", [LOG, OLD], ids=["b11434", "mid-2025"])
@pytest.mark.parametrize("message_first", [False, True])
@pytest.mark.parametrize("more", [b"x", b"MESSAGE=no\n\n__CURSOR=x\n", b"\x00" * 10, b"\n" * 266])
def test_an_export_gives_the_rows_of_its_messages(log: bytes, message_first: bool, more: bytes) -> None:
    data = export(log, message_first=message_first, more=more)
    found, plain = read(data), read(log)
    assert rows(found) == rows(plain)
    assert found.stream.counts == plain.stream.counts
    assert (found.stream.lines, found.stream.bytes) == (data.count(b"\n"), len(data))
    for row, bare in zip(found.requests, plain.requests, strict=True):
        said = lines_of(log)[bare.first_line - 1]
        assert data[row.offset :].removeprefix(b"MESSAGE=").startswith(said[:-1])
        assert data.count(b"\n", 0, row.offset) == row.first_line - 1
        assert (row.started_at, row.finished_at) == (moment(bare.first_line - 1), row.finished_at)
        assert row.finished_at is not None
        assert row.finished_at > moment(bare.first_line - 1)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 1 << 30), max_size=20), st.booleans())
def test_cutting_an_export_anywhere_changes_nothing(cuts: list[int], message_first: bool) -> None:
    data = export(OLD, message_first=message_first, more=b"a\nb\x00")
    edges = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    pieces = [data[a:b] for a, b in pairwise(edges)]
    assert read(*pieces).told() == read(data).told()


def test_an_export_byte_by_byte() -> None:
    data = export(join(QUOTED), more=b"\n\n")
    assert bytewise(data).told() == read(data).told() != []


def test_several_lines_in_one_message_and_colours() -> None:
    text = b"\x1b[32m" + join(QUOTED[:6]).removesuffix(b"\n") + b"\x1b[0m"
    data = entry(1, [("_SYSTEMD_UNIT", b"llama.service"), ("MESSAGE", text)])
    [row] = read(data).requests
    assert (row.request_id, row.finished_at) == ("7", moment(1))
    assert data[row.offset :].startswith(b"\x1b[32m" + QUOTED[0].encode())


def test_two_units_stay_apart() -> None:
    sides = [export(LOG, "one"), export(LOG, "two")]
    entries = [side.split(b"\n\n") for side in sides]
    mixed = b"".join(e + b"\n\n" for pair in zip_longest(*entries, fillvalue=b"") for e in pair if e)
    assert len(read(mixed).requests) == 2 * len(read(LOG).requests)
    assert {row.run for row in read(mixed).requests} == {0, 1}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(0, 400))
def test_an_export_with_a_hole_in_it_raises_nothing(at: int, size: int) -> None:
    data = export(OLD, more=b"a\nb")
    start = at % len(data)
    harmed = data[:start] + data[start + size :]
    assert read(harmed).stream.counts.requests <= read(OLD).stream.counts.requests


LAYOUTS: dict[str, Callable[[int, bytes], bytes]] = {
    "short-unix": lambda n, line: b"%.6f host llama[71]: " % moment(n).timestamp() + line,
    "short-iso": lambda n, line: (
        moment(n).strftime("%Y-%m-%dT%H:%M:%S+0000 host llama[71]: ").encode() + line
    ),
    "short-iso-precise": lambda n, line: (
        moment(n).strftime("%Y-%m-%dT%H:%M:%S.%f+00:00 host llama[71]: ").encode() + line
    ),
}
CLOCKLESS: dict[str, Callable[[int, bytes], bytes]] = {
    "cat": lambda n, line: line,
    "short-precise": lambda n, line: moment(n).strftime("%b %d %H:%M:%S.%f host llama[71]: ").encode() + line,
    "short-full": lambda n, line: (
        moment(n).strftime("%a %Y-%m-%d %H:%M:%S UTC host llama[7]: ").encode() + line
    ),
    "short-monotonic": lambda n, line: b"[%12.6f] host llama[71]: " % (n * 0.137) + line,
    "short-delta": lambda n, line: b"[%12.6f <%12.6f >] host llama[71]: " % (n * 0.137, 0.137) + line,
}


@pytest.mark.parametrize("layout", [*LAYOUTS, *CLOCKLESS])
def test_what_journalctl_prints(layout: str) -> None:
    wrapping = (LAYOUTS | CLOCKLESS)[layout]
    found = read(b"".join(wrapping(n, line) for n, line in enumerate(lines_of(OLD))))
    assert found.told("offset", *TIMES) == read(OLD).told("offset", *TIMES)
    exact = timedelta(seconds=0 if layout != "short-iso" else 1)
    for row in found.requests if layout in LAYOUTS else ():
        assert row.started_at is not None
        assert timedelta(0) <= moment(row.first_line - 1) - row.started_at <= exact


def test_two_units_of_short_iso_are_counted_apart() -> None:
    bare = join(QUOTED[:6])
    one, two = (
        [LAYOUTS["short-iso"](0, line).replace(b"llama", unit) for line in lines_of(bare)]
        for unit in (b"one", b"two")
    )
    mixed = b"".join(line for pair in zip(one, two, strict=True) for line in pair)
    assert len(read(mixed).requests) == 2
