"""What was compared with what: the samples of like work on both sides, stratum by stratum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from rules.comparison.dimensions import LEVEL, STALLED
from rules.comparison.matching import in_both

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rules.comparison.dimensions import Dimension
    from rules.comparison.effect import Effect
    from rules.comparison.samples import Samples

MOST_STRATA = 20

_ALONE = {LEVEL.key: (1.0, 1.0), STALLED.key: (0.0, 0.0)}
"""Sizes that go without saying."""

_OPPOSED = 3
"""Samples a side from which a stratum of its own may contradict the whole."""


@dataclass(frozen=True, slots=True)
class Stratum:
    """Samples that are alike: their sizes from and to, and both sides' medians."""

    sizes: dict[str, tuple[float, float]]
    n_before: int
    n_after: int
    before: float
    after: float

    @property
    def pairs(self) -> float:
        """What it weighs: the harmonic mean of its samples, halved."""
        return self.n_before * self.n_after / (self.n_before + self.n_after)

    @property
    def log_change(self) -> float:
        """Logarithm of after over before."""
        return float(np.log(self.after / self.before))


def strata(samples: Samples) -> tuple[Stratum, ...]:
    """The strata that both sides have, those with most samples first, at most `MOST_STRATA`."""
    sized = [d for d in samples.dimensions if d.width is not None]
    kept = in_both(samples.after, samples.strata)
    late = pl.col("after")
    told = (
        samples.frame.with_columns(stratum=pl.Series(samples.strata))
        .filter(kept)
        .group_by("stratum")
        .agg(
            *(pl.col(d.said).min().cast(pl.Float64).alias(f"{d.key}_low") for d in sized),
            *(pl.col(d.said).max().cast(pl.Float64).alias(f"{d.key}_high") for d in sized),
            n_before=(~late).sum(),
            n_after=late.sum(),
            before=pl.col("value").filter(~late).median(),
            after=pl.col("value").filter(late).median(),
        )
        .sort(pl.min_horizontal("n_before", "n_after"), "stratum", descending=[True, False])
        .head(MOST_STRATA)
    )
    return tuple(_stratum(row, sized) for row in told.iter_rows(named=True))


def _stratum(row: dict[str, Any], sized: list[Dimension]) -> Stratum:
    ends = {d.key: (row[f"{d.key}_low"], row[f"{d.key}_high"]) for d in sized}
    known = {key: (round(low, 4), round(high, 4)) for key, (low, high) in ends.items() if low is not None}
    known = {key: told for key, told in known.items() if told != _ALONE.get(key)}
    return Stratum(known, row["n_before"], row["n_after"], row["before"], row["after"])


def opposed(effect: Effect | None, strata: Sequence[Stratum]) -> list[Stratum]:
    """Strata whose medians went the other way, and farther than so few samples go by chance."""
    if effect is None or not effect.sign:
        return []
    reach = np.log(effect.high / effect.low) / 2
    total = effect.n_before * effect.n_after / (effect.n_before + effect.n_after)
    return [
        stratum
        for stratum in strata
        if min(stratum.n_before, stratum.n_after) >= _OPPOSED
        and stratum.log_change * effect.sign < -reach * np.sqrt(total / stratum.pairs)
    ]
