"""Wall clocks that programs print before a line, without a zone: taken as UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
