"""Spans of time, counted and measured by their sorted starts and ends: none is compared with each other one.

Sorting is stable throughout, which is quick on what is nearly in order, as logs are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rules.savings import Array


class Spans:
    """What ran from when to when.

    Args:
        start, end: of each, in any order.
    """

    def __init__(self, start: Array, end: Array) -> None:
        self._starts, self._ends = _Moments(start), _Moments(end)

    def most(self) -> int:
        """Most of them that ran at once; of those that touch, one is over."""
        starts = self._starts.sorted
        running = np.arange(1, starts.size + 1) - self._ends.until(starts)
        return int(running.max())

    def others(self, begin: Array, finish: Array) -> NDArray[np.int64]:
        """How many others ran at some moment between ``begin`` and ``finish`` of each."""
        begun = np.searchsorted(self._starts.sorted, finish, side="left")
        met: NDArray[np.int64] = np.maximum(begun - self._ends.until(begin) - 1, 0)
        return met

    def running_ms(self, begin: Array, finish: Array) -> Array:
        """Sum of the time that each of them ran between ``begin`` and ``finish``."""
        started_ms = self._starts.since(finish) - self._starts.since(begin)
        ms: Array = started_ms - (self._ends.since(finish) - self._ends.since(begin))
        return ms


class _Moments:
    def __init__(self, moments: Array) -> None:
        self.sorted = np.sort(moments, kind="stable")
        self._sums: Array | None = None

    def until(self, moment: Array) -> NDArray[np.intp]:
        """How many lie at a moment or before it."""
        return np.searchsorted(self.sorted, moment, side="right")

    def since(self, moment: Array) -> Array:
        """Sum of the time from each of those that lie before a moment until it."""
        if self._sums is None:
            self._sums = np.concatenate([[0.0], np.cumsum(self.sorted)])
        before = self.until(moment)
        ms: Array = before * moment - self._sums[before]
        return ms


class Busy:
    """Stretches of time, those that touch made one.

    Args:
        begin, finish: of each, in any order; such as end before they begin are none.
    """

    def __init__(self, begin: Array, finish: Array) -> None:
        order = np.argsort(begin, kind="stable")
        begin, finish = begin[order], np.maximum(finish[order], begin[order])
        reached = np.maximum.accumulate(finish)
        fresh = np.concatenate([[True], begin[1:] > reached[:-1]])
        last = np.concatenate([np.flatnonzero(fresh)[1:] - 1, [begin.size - 1]])
        self._begin, self._finish = begin[fresh], reached[last]
        self._sums = np.concatenate([[0.0], np.cumsum(self._finish - self._begin)])

    def ms_before(self, moment: Array) -> Array:
        """How much of these stretches lies before each moment."""
        at = np.searchsorted(self._begin, moment, side="right")
        inside = np.where(at > 0, np.maximum(self._finish[at - 1] - moment, 0.0), 0.0)
        ms: Array = self._sums[at] - inside
        return ms
