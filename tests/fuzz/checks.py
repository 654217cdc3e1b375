"""What holds of whatever is read: rows are true to their types, and say no more than a line."""

from __future__ import annotations

import math
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, get_type_hints

from parsers.formats.possible import LARGEST
from parsers.records import TABLES, Event, Request

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parsers.formats.process import Counts
    from parsers.records import Row
    from parsers.setup import Setup


def _kinds(row_type: type[Row]) -> dict[str, Any]:
    """The type of each column; whole numbers may stand for others."""
    hints = get_type_hints(row_type)
    found: dict[str, Any] = {}
    for field in fields(row_type):
        options = getattr(hints[field.name], "__args__", (hints[field.name],))
        kind = next(kind for kind in options if kind is not type(None))
        found[field.name] = (int, float) if kind is float else kind
    return found


_KINDS = {row_type: _kinds(row_type) for row_type in TABLES.values()}

LONGEST_TEXT = 1 << 16
"""A name in a row is part of a line; more than this of a line is never looked at."""

_LEAST = {"value", "clock_start_ms", "clock_end_ms"}
"""Columns of clocks and of an event's own number, which may be below zero."""


def rows_are_sound(rows: Iterable[Row], lines: int) -> None:
    """Numbers are finite and not negative, clocks are UTC, texts can be written, lines exist."""
    for row in rows:
        for name, kind in _KINDS[type(row)].items():
            value = getattr(row, name)
            if value is None:
                continue
            assert isinstance(value, kind), (name, value)
            assert isinstance(value, bool) == (kind is bool), (name, value)
            if isinstance(value, (int, float)):
                assert math.isfinite(value), (name, value)
                assert abs(value) <= LARGEST, (name, value)
                assert value >= 0 or (isinstance(row, Event) and name in _LEAST), (name, value)
            elif isinstance(value, datetime):
                assert value.tzinfo is UTC, (name, value)
            else:
                text_is_sound(value)
        assert 1 <= row.line <= lines + 1, row.line
        if isinstance(row, Request):
            assert 1 <= row.first_line <= row.line, (row.first_line, row.line)


def counts_are_sound(counts: Counts) -> None:
    """Nothing was counted less than never."""
    for name in counts.__slots__:
        assert getattr(counts, name) >= 0, name


def setups_are_sound(setups: Iterable[Setup]) -> None:
    """Facts are numbers that an engine can mean, and texts that can be written."""
    for setup in setups:
        for name, value in setup:
            if isinstance(value, (int, float)):
                assert math.isfinite(value), (name, value)
                assert abs(value) <= LARGEST, (name, value)
            elif isinstance(value, str):
                text_is_sound(value)


def text_is_sound(text: str) -> None:
    """It can be written, and is no longer than a line."""
    text.encode()
    assert len(text) <= LONGEST_TEXT, len(text)


def told(rows: Iterable[Row]) -> list[tuple[type, tuple[Any, ...]]]:
    """Rows as values that can be compared."""
    return [(type(row), tuple(getattr(row, name) for name in _KINDS[type(row)])) for row in rows]
