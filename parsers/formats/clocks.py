"""Wall clocks that programs print before a line, without a zone, so taken as UTC, and some without a year."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from parsers.formats.base import At
    from parsers.formats.process import Process

STAMP = rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{3})?"
"""``2026-01-02 03:04:05``, with milliseconds after a comma (Python) or a point, or without."""

_SET_BY_MS = 3_600_000.0
"""By how much a wall clock is set forward in spring."""


def wall_clock(printed: bytes | None, at: At) -> datetime | None:
    """The carrier's clock where it has one, else the line's own."""
    if at.time is not None or printed is None:
        return at.time
    try:
        return datetime.fromisoformat(printed.decode("ascii").replace(",", ".")).replace(tzinfo=UTC)
    except ValueError:
        return None


def at_epoch(seconds: float) -> datetime | None:
    """The time so many seconds after 1970 began, UTC; ``None`` for one that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def elapsed_ms(began: datetime | None, ended: datetime | None) -> float | None:
    """Time between two clocks without a zone; ``None`` where they may have been set between."""
    if began is None or ended is None:
        return None
    elapsed = round((ended - began).total_seconds() * 1000, 3)
    return elapsed if 0 <= elapsed < _SET_BY_MS else None


def parse_yearless(month: int, day: int, clock: str, year: int) -> datetime | None:
    """A wall clock without year or zone, such as vLLM's ``11-29 19:39:17``, read as UTC in ``year``."""
    try:
        hour, minute, second = map(int, clock.split(":"))
        return datetime(year, month, day, tzinfo=UTC) + timedelta(0, 3600 * hour + 60 * minute + second)
    except ValueError:
        return None


_FURTHEST_ZONE = timedelta(hours=14)
"""How far a zone's clock may be ahead of UTC."""


class Years:
    """The year of moments that print none; it rolls over.

    Args:
        process: says that of the first one; ``None``: the last one in which it isn't after the log was last
            written.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._year = self._first_year = process.year or 0
        self._month: int | None = None

    def place(self, month: int, in_year: Callable[[int], datetime | None]) -> datetime | None:
        """The moment.

        Args:
            month: as it is printed, 1-12.
            in_year: makes it of a year; ``None`` for a day that this one has not.
        """
        if self._month is None and self._process.year is None:
            self._year = self._first_year = self._begin(in_year)
        return in_year(self._year_of(month))

    def _begin(self, in_year: Callable[[int], datetime | None]) -> int:
        process = self._process
        year = process.latest.year
        first = in_year(year)
        if first is not None and first > process.latest + _FURTHEST_ZONE:
            year -= 1
        before, again = datetime(year + 1, 1, 1, tzinfo=UTC), in_year(year + 1)
        if again is not None:
            before = max(before, again - _FURTHEST_ZONE)
        process.dated_before = min(process.dated_before or before, before)
        return year

    def _year_of(self, month: int) -> int:
        """December to January is a new year; a late line of the old one may still follow."""
        if (self._month, month) == (12, 1):
            self._year += 1
        elif (self._month, month) == (1, 12) and self._year > self._first_year:
            self._year -= 1
        self._month = month
        return self._year
