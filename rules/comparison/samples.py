"""The measurements of one quantity on both sides, in strata of the same work."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.comparison.dimensions import LEAST_TOKENS, LEVEL, STALLED, Dimension
from rules.comparison.matching import Size, crossed, in_both
from rules.lines import MOST_SAMPLES, evenly

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rules.savings import Array

    Codes = NDArray[np.int64]
    Mask = NDArray[np.bool_]

KNOWN = 0.9
"""Of a side's samples: from here on a size is known there."""


class Samples:
    """One quantity on both sides.

    Args:
        frame: a row for each sample, in the order of time on each side: ``after``, ``value`` (what is
            measured), ``norm`` (by how much of it a size is divided out) and the dimensions' columns.
        dimensions: what samples must be alike in.
        needed: of these, what must be told on both sides; others are not matched on if they are not.
        one_sided: what must not be told on one side only.
    """

    def __init__(
        self,
        frame: pl.DataFrame,
        dimensions: tuple[Dimension, ...],
        needed: tuple[Dimension, ...] = (),
        one_sided: tuple[Dimension, ...] = (),
    ) -> None:
        known = pl.col("value").is_finite() & (pl.col("value") > 0) & (pl.col("norm") > 0)
        self.frame = thinned(frame.filter(known), "after", MOST_SAMPLES)
        self.dimensions = tuple(d for d in dimensions if self._knows(d))
        self.unknown = tuple(d for d in dimensions if d not in self.dimensions)
        self.missing = next((d for d in needed if d in self.unknown), None)
        self.one_sided = next((d for d in one_sided if sorted(self._told(d)) == [False, True]), None)

    @cached_property
    def after(self) -> Mask:
        """Which samples are after the change."""
        return self.frame["after"].to_numpy()

    @cached_property
    def counts(self) -> tuple[int, int]:
        """Samples before and after."""
        after = int(self.after.sum())
        return self.after.size - after, after

    @cached_property
    def log_value(self) -> Array:
        """Logarithms of what is compared."""
        values: Array = np.log(self.frame.select(pl.col("value") / pl.col("norm")).to_series().to_numpy())
        return values

    @cached_property
    def sizes(self) -> list[Size]:
        """The dimensions that are sizes."""
        return [self._size(d) for d in self.dimensions if d.width is not None]

    @cached_property
    def strata(self) -> Codes:
        """A number for each stratum."""
        return crossed([np.zeros(self.after.size, np.int64), *(self._codes(d) for d in self.dimensions)])

    def separating(self) -> Dimension | None:
        """The first dimension in which the sides have nothing in common; None where there is something."""
        together = np.zeros(self.after.size, np.int64)
        for dimension in self.dimensions:
            together = crossed([together, self._codes(dimension)])
            if not in_both(self.after, together).any():
                return dimension
        return None

    def _knows(self, dimension: Dimension) -> bool:
        return len(told := self._told(dimension)) == 2 and all(told)

    def _told(self, dimension: Dimension) -> list[bool]:
        """Of each side that has samples, whether it tells a dimension."""
        if dimension.column not in self.frame.columns:
            return []
        told = self.frame.group_by("after").agg(pl.col(dimension.column).is_not_null().mean())
        return [share >= KNOWN for share in told[dimension.column]]

    def _size(self, dimension: Dimension) -> Size:
        values = self.frame[dimension.column].cast(pl.Float64).fill_null(np.nan).to_numpy()
        least = 1.0 if dimension.column in (LEVEL.column, STALLED.column) else LEAST_TOKENS
        return Size(np.maximum(values, least), dimension.width or 1.0, dimension.slack)

    def _codes(self, dimension: Dimension) -> Codes:
        if dimension.width is not None:
            return self._size(dimension).codes
        codes: Codes = self.frame[dimension.column].rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
        return codes


def thinned(frame: pl.DataFrame, of: str, most: int) -> pl.DataFrame:
    """At most so many rows of each value of a column, in their order: see `rules.lines.evenly`."""
    if frame.height <= most:
        return frame
    places = frame.select(of, place=pl.int_range(pl.len())).group_by(of).agg("place")["place"]
    taken = [rows.to_numpy()[evenly(rows.len(), most)] for rows in places]
    return frame[np.sort(np.concatenate(taken))]
