"""Every sample in every carrier, cut anywhere, with lines lost and bits flipped: nothing is invented."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.parsers.reading import TIMES, lines_of, read
from tests.parsers.test_carriers import CARRIERS
from tests.parsers.test_samples import LOGS, check, expected_of
from tests.parsers.test_stream import pieces

if TYPE_CHECKING:
    from pathlib import Path

    from parsers.records import Row
    from tests.parsers.reading import Read

few = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
SAMPLES = pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
_SAID = {
    "requests": ("prefill_ms", "prefill_tokens", "decode_ms", "output_tokens", "queue_ms", "kind"),
    "intervals": ("kind", "prefill_tokens", "decode_tokens", "running", "waiting", "kv_usage"),
}


STRIPPED = {*(name for name in CARRIERS if name.startswith("journald")), "indented with tabs"}
"""Carriers that take the blanks off a line's beginning: records of several lines can't be told from them."""
CLOCKED = {
    name
    for name in CARRIERS
    if name in ("kubernetes", "journald iso", "jan") or "times" in name or "json" in name
}


def some_of(count: int, most: int = 8) -> list[int]:
    """Places spread over a log."""
    return sorted({count * step // most for step in range(most)})


def said(row: Row, names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in names)


def is_part_of(less: tuple[Any, ...], more: tuple[Any, ...]) -> bool:
    """The one says nothing that the other doesn't."""
    return all(a is None or a == b for a, b in zip(less, more, strict=True))


def invented(harmed: Read, whole: Read) -> list[tuple[Any, ...]]:
    """What a log says after it has lost something, and did not say before."""
    rows = []
    for table, names in _SAID.items():
        true = {said(row, names) for row in getattr(whole, table)}
        found = [said(row, names) for row in getattr(harmed, table)]
        rows += [row for row in found if not any(is_part_of(row, one) for one in true)]
    return rows


@SAMPLES
def test_in_every_carrier(log: Path) -> None:
    """A carrier may have a clock that contradicts the log: then only what there is must be the same."""
    data, expected = log.read_bytes(), expected_of(log)
    whole = read(data)
    indented = any(line[:1] in b" \t" for line in data.splitlines() if line)
    for name, carry in CARRIERS.items():
        if indented and name in STRIPPED:
            continue
        carried = read(carry(data))
        assert carried.stream.engine == whole.stream.engine, name
        assert Counter(map(type, carried.rows)) == Counter(map(type, whole.rows)), name
        if name not in CLOCKED:
            try:
                check(carried, expected, without=(*TIMES, "offset"))
            except AssertionError as error:
                raise AssertionError(name) from error


@SAMPLES
def test_in_any_pieces(log: Path) -> None:
    data = log.read_bytes()
    whole = read(data)

    @few
    @given(st.lists(st.integers(0, 1 << 30), max_size=20))
    def cut(cuts: list[int]) -> None:
        harmed = read(*pieces(data, cuts))
        assert harmed.told() == whole.told()
        assert harmed.stream.counts == whole.stream.counts

    cut()


@SAMPLES
def test_without_its_end(log: Path) -> None:
    """The lost lines may be those that showed that one more was a quote: that costs one row."""
    lines = lines_of(log.read_bytes())
    whole = read(b"".join(lines))
    for at in some_of(len(lines)):
        assert len(invented(read(b"".join(lines[:at])), whole)) <= 1


@SAMPLES
def test_without_any_line(log: Path) -> None:
    """What stood on both sides of the lost line may be taken for one: that costs two rows."""
    lines = lines_of(log.read_bytes())
    whole = read(b"".join(lines))
    for at in some_of(len(lines)):
        assert len(invented(read(b"".join(lines[:at] + lines[at + 1 :])), whole)) <= 2


@SAMPLES
def test_cut_at_any_byte_or_with_flipped_bits(log: Path) -> None:
    data = log.read_bytes()
    whole = len(read(data).rows)

    @few
    @given(st.integers(0, len(data)), st.lists(st.integers(0, 8 * len(data) - 1), max_size=5))
    def harm(end: int, flips: list[int]) -> None:
        harmed = bytearray(data)
        for bit in flips:
            harmed[bit // 8] ^= 1 << bit % 8
        assert len(read(bytes(harmed[:end])).rows) <= whole + len(flips) + 1

    harm()
