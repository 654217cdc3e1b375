"""Wall clocks that programs print before a line, without a zone, so taken as UTC, and some without a year."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from parsers.formats.base import At

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


def elapsed_ms(began: datetime | None, ended: datetime | None) -> float | None:
    """Time between two clocks without a zone; ``None`` where they may have been set between."""
    if began is None or ended is None:
        return None
    elapsed = round((ended - began).total_seconds() * 1000, 3)
    return elapsed if 0 <= elapsed < _SET_BY_MS else None


_FURTHEST_ZONE = timedelta(hours=14)
"""How far a zone's clock may be ahead of UTC."""


class Years:
    """The year of moments that print none; it rolls over.

    Args:
        year: that of the first one; ``None``: the last one in which it isn't after ``latest``.
        latest: when the log was last written.
    """

    def __init__(self, year: int | None, latest: datetime) -> None:
        self._year = self._first_year = latest.year if year is None else year
        self._latest = latest + _FURTHEST_ZONE if year is None else None
        self._month: int | None = None

    def place(self, month: int, in_year: Callable[[int], datetime | None]) -> datetime | None:
        """The moment.

        Args:
            month: as it is printed, 1-12.
            in_year: makes it of a year; ``None`` for a day that this one has not.
        """
        if self._month is None and self._latest is not None:
            first = in_year(self._year)
            if first is not None and first > self._latest:
                self._year = self._first_year = self._year - 1
        return in_year(self._year_of(month))

    def _year_of(self, month: int) -> int:
        """December to January is a new year; a late line of the old one may still follow."""
        if (self._month, month) == (12, 1):
            self._year += 1
        elif (self._month, month) == (1, 12) and self._year > self._first_year:
            self._year -= 1
        self._month = month
        return self._year
