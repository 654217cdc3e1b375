"""What requests must be alike in to be compared: their sizes, and who ran beside them."""

from __future__ import annotations

from dataclasses import dataclass

from rules.words import count, percent

_NARROW, _WIDE = 1.5, 2.0
LEAST_TOKENS = 16.0
"""Fewer are one short batch, whatever their number."""

STEEP, GENTLE, SHARED, STALLING = 0.35, 0.25, 0.5, 2.0
"""How log time may depend on a log size beyond what is divided out: of waits, of time per token, on the
requests at once, and on one more than the share of a decode in which another's prompt was read."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """Something that samples must be alike in.

    Attributes:
        key: its name; spaces for underscores, what to call it.
        column: the values that must be alike.
        width: largest over smallest value in a stratum; None where values must be equal.
        slack: see `rules.comparison.matching.Size`.
        told: the column that says it in words, if it is another one.
    """

    key: str
    column: str
    width: float | None = None
    slack: float = 0.0
    told: str | None = None

    @property
    def name(self) -> str:
        """What to call it."""
        return self.key.replace("_", " ")

    @property
    def said(self) -> str:
        """The column that says it in words."""
        return self.told or self.column


EVALUATED_TOKENS = Dimension("evaluated_tokens", "evaluated", _NARROW, GENTLE)
CACHE_STATE = Dimension("cached_tokens", "reached", _NARROW, GENTLE, "cached_tokens")
COMPANY = Dimension("other_requests", "alone")
DEPTH = Dimension("context_tokens", "context", _NARROW, GENTLE)
LEVEL = Dimension("requests_at_once", "level", _NARROW, SHARED)
STALLED = Dimension("stalled_share", "stalled", _NARROW, STALLING, "stalled_share")
READ = Dimension("evaluated_tokens", "evaluated", _NARROW, STEEP)
BEHIND = Dimension("cached_tokens", "reached", _NARROW, STEEP, "cached_tokens")
ANSWER = Dimension("output_tokens", "output_tokens", _WIDE, STEEP)


def span(key: str, low: float, high: float) -> str:
    """Two ends of a dimension in words: ``893 to 909``; one number where both are printed alike."""
    least, most = (_printed(key, end) for end in (low, high))
    return least if least == most else f"{least} to {most}"


def _printed(key: str, value: float) -> str:
    if key == STALLED.key:
        return percent(value)
    return f"{value:.1f}" if key == LEVEL.key else count(value)
