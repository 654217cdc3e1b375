"""One group beside all others: the rows that are compared, and what they say of each quantity."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.comparison.both import Both, sized
from rules.comparison.ended import UNFINISHED
from rules.comparison.quantities import NAMES, SPEEDS, WAITS, quantity
from rules.groups import OF

if TYPE_CHECKING:
    from rules.comparison.quantities import Quantity
    from rules.measures import Measures

MOST_ROWS, LEAST_ROWS, MOST_OTHERS = 20_000, 100, 5_000
"""Of more requests in all, every so many of each group are taken, but this many; of the others this many."""


class Among:
    """Compares each of several groups with the others.

    Args:
        whole: the measures of all rows, which say of which group they are.
        parts: those of each group.
    """

    def __init__(self, whole: Measures, parts: dict[str | None, Measures]) -> None:
        self._whole, self._parts = whole, parts

    @cached_property
    def _rows(self) -> pl.DataFrame:
        """The generations that count: not given up, not a process's first, and not more than needed."""
        ended = self._whole.overlap.requests.filter(~UNFINISHED)
        number = {name: i for i, name in enumerate(self._parts) if name is not None}
        unnamed = list(self._parts).index(None) if None in self._parts else None
        of = pl.col(OF).replace_strict(number, default=None, return_dtype=pl.Int32)
        placed = pl.when(pl.col(OF).is_null()).then(pl.lit(unnamed, pl.Int32)).otherwise(of)
        rows = sized(ended).with_columns(ended.select(placed.alias("group")).to_series(), after=False)
        rows = _warm(self._whole, rows).drop_nulls("group")
        step = (pl.len().over("group") / max(MOST_ROWS // len(self._parts), LEAST_ROWS)).ceil()
        return rows.filter(pl.int_range(pl.len()).over("group") % step == 0)

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
        after = pl.col("group") == places.index(one)
        among = pl.col("group").is_in([places.index(other) for other in (one, *rest)])
        step = max((self._rows.height - 1) // MOST_OTHERS, 0) + 1
        taken = after | (pl.int_range(pl.len()) % step == 0)
        rows = self._rows.filter(among & taken).with_columns(after=after)
        replaced = self._replaced(one, [other for other in rest if other != one])
        return quantity(_Sides(self._whole, self._parts[one], rows, replaced), name, alpha)

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
