"""How often a part of the screen is worked out anew, so that it never takes more than its share."""

from __future__ import annotations

import time

_SHARE = 0.05


class Pace:
    """Says when work is due again: after ``least_s``, and after twenty times as long as it took.

    Args:
        least_s: seconds between two beginnings, at least.
    """

    def __init__(self, least_s: float = 0.0) -> None:
        self._least_s = least_s
        self._next_at_s = 0.0
        self._began_at_s = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the work may be done now."""
        return time.monotonic() >= self._next_at_s

    def __enter__(self) -> None:
        self._began_at_s = time.monotonic()

    def __exit__(self, *error: object) -> None:
        took_s = time.monotonic() - self._began_at_s
        self._next_at_s = self._began_at_s + max(self._least_s, took_s / _SHARE)
