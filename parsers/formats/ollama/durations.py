"""Durations as Go prints them (``12.265908188s``, ``227.981ms``, ``1m3.2s``, ``33.3µs``), and its moments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

_PART = rb"\d+(?:\.\d+)?(?:h|ms|m|s|us|\xc2\xb5s|\xce\xbcs|ns)"
_DURATION = re.compile(rb"(?:" + _PART + rb")+")
_PARTS = re.compile(rb"(?<!\d)(\d+(?:\.\d+)?)(h|ms|m|s|us|\xc2\xb5s|\xce\xbcs|ns)")
_MS = {
    b"h": 3_600_000.0,
    b"m": 60_000.0,
    b"s": 1_000.0,
    b"ms": 1.0,
    b"us": 1e-3,
    b"\xc2\xb5s": 1e-3,
    b"\xce\xbcs": 1e-3,
    b"ns": 1e-6,
}
_LONGEST_MS = (1 << 63) / 1e6
"""Go counts nanoseconds in 64 bits."""
_YEARS = range(2000, 9000)


def go_duration_ms(printed: bytes) -> float | None:
    """A Go duration in ms, exact to the nanosecond; ``None`` for anything else, negative ones included."""
    if not _DURATION.fullmatch(printed):
        return None
    duration_ms = sum(float(amount) * _MS[unit] for amount, unit in _PARTS.findall(printed))
    return round(duration_ms, 6) if duration_ms <= _LONGEST_MS else None


def nanoseconds_ms(count: int | None) -> float | None:
    """A count of nanoseconds in ms; ``None`` stays ``None``."""
    return None if count is None else round(count / 1e6, 6)


def plausible(moment: datetime | None) -> datetime | None:
    """A moment that a log can hold; Go's zero time (year 1) is no time."""
    return moment if moment is not None and moment.year in _YEARS else None
