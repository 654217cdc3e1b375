"""Why requests can't be laid side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rules.measures import Measures

NEARLY_ALL = 0.9


def unplaced(m: Measures) -> str:
    """What the log lacks where `Overlap.known` is false."""
    rows = m.generations
    if not rows.height:
        return "no single request is logged, so none can be placed beside another"
    timed = max(rows[end].count() for end in ("finished_at", "clock_end_ms"))
    if not timed:
        return "the log has no clock that places requests beside each other"
    if timed < NEARLY_ALL * rows.height:
        return "too few requests have a time to place them beside each other"
    return "requests have the time at which they ended, but not when they began"
