"""One group beside all others: the rows that are compared, and what they say of each quantity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.comparison.both import Both, sized
from rules.comparison.ended import UNFINISHED
from rules.comparison.quantities import NAMES, SPEEDS, WAITS, quantity
from rules.comparison.samples import thinned
from rules.groups import OF
from rules.lines import evenly

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rules.comparison.quantities import Quantity
    from rules.measures import Measures

MOST_ROWS, LEAST_ROWS, MOST_OTHERS = 20_000, 100, 5_000
"""Of more requests in all a sample of each group, but of none fewer than that; beside one so many others."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """What was compared where it was not everything.

    Attributes:
        requests, of: of so many requests of all groups so many, spread over each group.
        others: beside each group at most so many of the others, spread over each of them.
    """

    requests: int
    of: int
    others: int


class Among:
    """Compares each of several groups with the others.

    Args:
        whole: the measures of all rows, which say of which group they are.
        parts: those of each group.
    """

    def __init__(self, whole: Measures, parts: dict[str | None, Measures]) -> None:
        self._whole, self._parts = whole, parts

    @cached_property
    def _all(self) -> pl.DataFrame:
        """The generations that count: not given up, not a process's first."""
        ended = self._whole.overlap.requests.filter(~UNFINISHED)
        number = {name: i for i, name in enumerate(self._parts) if name is not None}
        of = pl.col(OF).replace_strict(number, default=None, return_dtype=pl.Int32)
        rows = sized(ended).with_columns(ended.select(of.alias("group")).to_series(), after=False)
        return _warm(self._whole, rows).drop_nulls("group")

    @cached_property
    def _rows(self) -> pl.DataFrame:
        """Of these not more than needed."""
        return thinned(self._all, "group", max(MOST_ROWS // len(self._parts), LEAST_ROWS))

    @property
    def sampled(self) -> Sampled | None:
        """What was compared; None if everything."""
        requests, of = self._rows.height, self._all.height
        fewest = int(np.bincount(self._groups[0], minlength=len(self._parts)).min())
        return None if requests == of and of - fewest <= MOST_OTHERS else Sampled(requests, of, MOST_OTHERS)

    @cached_property
    def quantities(self) -> list[str]:
        """What the rows tell and what is not nothing everywhere."""
        told = self._rows.select(pl.col(f"{name}_ms").fill_null(0).max().alias(name) for name in NAMES).row(
            0, named=True
        )
        return [name for name in NAMES if told[name]]

    @cached_property
    def _request_ms(self) -> float:
        """What a request takes on average, ms."""
        mean = self._rows["total_ms"].mean()
        return float(mean) if isinstance(mean, int | float) else 0.0

    def compare(self, name: str, one: str | None, rest: list[str | None], alpha: float) -> Quantity:
        """The others before, one group after.

        Args:
            name: the quantity.
            one: the group.
            rest: the others; it may be among them.
            alpha: how often an interval may not hold the truth.
        """
        places = list(self._parts)
        others = [place for other in rest if (place := places.index(other)) != places.index(one)]
        after = pl.col("group") == places.index(one)
        rows = self._rows[self._beside(places.index(one), others)].with_columns(after=after)
        replaced = self._replaced(one, [other for other in rest if other != one])
        return quantity(_Sides(self._whole, self._parts[one], rows, replaced), name, alpha)

    def _beside(self, one: int, others: list[int]) -> NDArray[np.int64]:
        """The rows of a group, and a sample of the others' that takes as much from each as it has of them."""
        of, by_group = self._groups
        beside = by_group[np.isin(of[by_group], others)]
        return np.sort(np.append(np.flatnonzero(of == one), beside[evenly(beside.size, MOST_OTHERS)]))

    @cached_property
    def _groups(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The group of each row, and the rows in the order of these."""
        of = self._rows["group"].cast(pl.Int64).to_numpy()
        return of, np.argsort(of, kind="stable")

    @cached_property
    def _names(self) -> dict[str, dict[str | None, set[str]]]:
        """The engines and models of each group."""
        return {
            column: {
                one: set(m.generations[column].drop_nulls().cast(pl.String).unique())
                for one, m in self._parts.items()
            }
            for column in ("engine", "model")
        }

    def _replaced(self, one: str | None, others: list[str | None]) -> tuple[str, ...]:
        """What a group has names of, and none that is one of the others' too."""
        replaced = []
        for column, names in self._names.items():
            theirs = set().union(*(names[other] for other in others))
            if names[one] and theirs and not names[one] & theirs:
                replaced.append(column)
        return tuple(replaced)

    def moved(self, q: Quantity) -> float | None:
        """How far the group is from the others, more being slower; None where nothing tells.

        The logarithm of a ratio; of queue and load a share of a mean request.
        """
        if q.name in SPEEDS:
            return float(np.log(q.alike.value)) if q.alike else None
        if q.name in WAITS:
            before, after = q.before.median, q.after.median
            return float(np.log(after / before)) if before and after else None
        before, after = q.before.mean, q.after.mean
        if before is None or after is None or not self._request_ms:
            return None
        return (after - before) / self._request_ms

    def cost_ms(self, q: Quantity, one: str | None) -> float | None:
        """What the difference costs a mean request of the group, ms; None where that is not known."""
        group = self._parts[one]
        if q.name in SPEEDS:
            mean = group.generations[f"{q.name}_ms"].mean()
            return (
                float(mean) * (1 - 1 / q.alike.value) if q.alike and isinstance(mean, int | float) else None
            )
        if q.mean is not None:
            return q.mean.value
        return None if q.after.mean is None or q.before.mean is None else q.after.mean - q.before.mean


class _Sides(Both):
    """A group beside others whose rows are known.

    Args:
        whole, group: the measures of all, and of the group.
        rows: of both sides.
        replaced: see `Both.replaced`.
    """

    def __init__(
        self, whole: Measures, group: Measures, rows: pl.DataFrame, replaced: tuple[str, ...]
    ) -> None:
        super().__init__(whole, group)
        self.__dict__.update(warm=rows, replaced=replaced)


def _warm(whole: Measures, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows without each process's first request, as in a comparison of two logs."""
    both = Both(whole, whole)
    both.__dict__["rows"] = rows
    return both.warm
