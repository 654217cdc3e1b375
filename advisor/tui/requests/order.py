"""Which requests a table shows, and in which order: numbers over a frame, nothing of it copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

PLACE = "number"
"""What the order of the log is sorted by: each request's number, counted since the session began."""

_MAY_BE_NUMBERS = {"request_id"}


class RowOrder:
    """The requests that pass a filter, sorted.

    A request is known by its number, which stays when others come and when the oldest are dropped.

    Attributes:
        frame: the rows that are kept, the oldest first.
        first: the number of the first of them.
        by, is_descending: what they are sorted by.
    """

    def __init__(self) -> None:
        self.frame = pl.DataFrame()
        self.first = 0
        self.by = PLACE
        self.is_descending = False
        self._passes: pl.Expr | None = None
        self._passing: Numbers | None = None
        self._sorted: Numbers | None = None

    def __len__(self) -> int:
        return self.frame.height if self._passing is None else self._passing.size

    @property
    def end(self) -> int:
        """The number that the next request will have."""
        return self.first + self.frame.height

    def take(self, frame: pl.DataFrame, first: int) -> None:
        """Go on with newer rows; those that were there before are the same still."""
        known = self.end
        self.frame, self.first = frame, first
        if self._passing is not None:
            kept = self._passing[np.searchsorted(self._passing, first) :]
            self._passing = np.concatenate([kept, self._found(max(known, first))])
        self._sort()

    def filter(self, passes: pl.Expr | None) -> None:
        """Show only such as pass; all of them for ``None``."""
        self._passes = passes
        self._passing = None if passes is None else self._found(self.first)
        self._sort()

    def sort(self, by: str, *, is_descending: bool) -> None:
        """Sort by a column, or by `PLACE`; unknown values go last, equal ones stay as in the log."""
        self.by, self.is_descending = by, is_descending
        self._sort()

    def numbers(self, start: int, stop: int) -> Numbers:
        """The numbers of the requests at these positions."""
        numbers = self._passing if self._sorted is None else self._sorted
        if numbers is not None:
            return numbers[start:stop]
        if self._is_reversed:
            return np.arange(self.end - 1 - start, max(self.end - 1 - stop, self.first - 1), -1)
        return np.arange(self.first + start, min(self.first + stop, self.end))

    def number(self, position: int) -> int | None:
        """The number of the request at a position; ``None`` where there is none."""
        return int(self.numbers(position, position + 1)[0]) if 0 <= position < len(self) else None

    def position(self, number: int) -> int | None:
        """Where a request stands; ``None`` if it is not shown."""
        if not self.first <= number < self.end:
            return None
        if self._sorted is not None:
            found = np.flatnonzero(self._sorted == number)
            return int(found[0]) if found.size else None
        if self._passing is not None:
            at = int(np.searchsorted(self._passing, number))
            return at if at < self._passing.size and self._passing[at] == number else None
        return self.end - 1 - number if self._is_reversed else number - self.first

    def rows(self, start: int, stop: int, columns: list[str]) -> list[dict[str, Any]]:
        """The rows at these positions, each with its `PLACE`."""
        numbers = self.numbers(start, stop)
        if not numbers.size:
            return []
        picked = self.frame.select(columns)[(numbers - self.first).astype(np.uint32)]
        return picked.with_columns(pl.Series(PLACE, numbers, pl.Int64)).to_dicts()

    def row(self, number: int) -> dict[str, Any] | None:
        """All that is known of a request; ``None`` once it is no longer kept."""
        if not self.first <= number < self.end:
            return None
        return self.frame.row(number - self.first, named=True) | {PLACE: number}

    @property
    def _is_reversed(self) -> bool:
        return self.by == PLACE and self.is_descending

    def _found(self, number: int) -> Numbers:
        """The numbers of those that pass, from this one on."""
        rows = self.frame[number - self.first :]
        if self._passes is None or not rows.height:
            return np.arange(number, self.end)
        passes = self._passes
        found = rows.select(passes.alias("passes")).to_series().arg_true().to_numpy()
        return found.astype(np.int64) + number

    def _sort(self) -> None:
        if self.by == PLACE:
            reverse = self._is_reversed and self._passing is not None
            self._sorted = self._passing[::-1] if reverse and self._passing is not None else None
            return
        if not self.frame.height:
            self._sorted = None
            return
        rows = self.frame.select(self.by)
        if self._passing is not None:
            rows = rows[(self._passing - self.first).astype(np.uint32)]
        by = [pl.col(self.by)]
        if self.by in _MAY_BE_NUMBERS:
            by.insert(0, pl.col(self.by).cast(pl.Int64, strict=False))
        order = rows.select(
            pl.arg_sort_by(by, descending=self.is_descending, nulls_last=True, maintain_order=True)
        )
        places = order.to_series().to_numpy().astype(np.int64)
        self._sorted = places + self.first if self._passing is None else self._passing[places]
