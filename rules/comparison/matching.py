"""Like with like: samples in strata of the same work, and the ratio of their values within these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rules.comparison.effect import ALPHA, LEAST, critical, dependence, left, ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rules.comparison.effect import Effect
    from rules.savings import Array

    Codes = NDArray[np.int64]
    Mask = NDArray[np.bool_]

_HUBER = 1.345
"""Standard deviations from which a residual pulls no more than that: 95 % as sharp as least squares."""

_ROUNDS, _SETTLED = 30, 1e-3
_NORMAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""

_LEAST_SCALE = 1e-3
"""Logs round; residuals are not exact beyond that."""

_LEAST_FREEDOM = 3


@dataclass(frozen=True, slots=True)
class Size:
    """Something about a request that its time depends on, and that must be alike to compare.

    Attributes:
        values: of each sample; NaN is unknown, which is a stratum of its own.
        width: largest over smallest value in a stratum.
        slack: how steep, in standard deviations, log time may depend on log size within a stratum.
    """

    values: Array
    width: float
    slack: float

    @property
    def codes(self) -> Codes:
        """A number for each stratum of this size alone; a stratum begins at the least value not in one."""
        known = np.sort(self.values[np.isfinite(self.values)])
        edges: list[float] = []
        at = 0
        while at < known.size:
            edges.append(float(known[at]))
            at = int(np.searchsorted(known, edges[-1] * self.width, side="right"))
        codes = np.searchsorted(np.array(edges), self.values, side="right").astype(np.int64)
        return np.where(np.isfinite(self.values), codes, 0)

    @property
    def logs(self) -> Array:
        """Natural logarithms; 0 for unknown."""
        return np.log(np.where(np.isfinite(self.values), self.values, 1.0))


def crossed(codes: list[Codes]) -> Codes:
    """One number for each combination of these."""
    together = np.zeros(codes[0].size, dtype=np.int64)
    for one in codes:
        together = together * (int(one.max(initial=0)) + 1) + one
    return np.unique(together, return_inverse=True)[1].astype(np.int64)


def in_both(after: Mask, strata: Codes) -> Mask:
    """Which samples are in strata that both sides have."""
    groups = int(strata.max(initial=-1)) + 1
    here = np.bincount(strata, weights=after, minlength=groups)
    there = np.bincount(strata, weights=~after, minlength=groups)
    kept: Mask = ((here > 0) & (there > 0))[strata]
    return kept


def matched_ratio(
    log_value: Array, after: Mask, strata: Codes, sizes: list[Size], alpha: float = ALPHA
) -> Effect | None:
    """The ratio after over before of values that are compared within strata only.

    log value = stratum + effect * after + slopes * log sizes, by Huber's M-estimator (1964), which far-off
    values pull no more than near ones, with its sandwich variance (Huber 1967). The slopes serve within a
    stratum, where sizes still differ a little. A normal prior says how steep they may be: an effect that
    can't be told from a slope gets an interval that allows for it.

    Args:
        log_value: natural logarithms, in the order of time on each side.
        after: which are after the change.
        strata: a number for each stratum; one that only one side has is left out.
        sizes: what the values depend on within a stratum.
        alpha: how often the interval may not hold the truth.

    Returns:
        None for fewer than `LEAST` samples a side in strata that both sides have, or no freedom to judge.
    """
    kept = in_both(after, strata)
    side = after[kept]
    n, n_after = side.size, int(side.sum())
    if min(n_after, n - n_after) < LEAST:
        return None
    groups = _Groups(strata[kept])
    logs = [size.logs[kept] for size in sizes]
    used = [i for i, x in enumerate(logs) if np.abs(groups.centred(x)).max() > _LEAST_SCALE]
    design = np.column_stack([side.astype(np.float64), *(logs[i] for i in used)])
    prior = np.diag([0.0, *(sizes[i].slack ** -2 for i in used)])
    freedom = n - groups.count - 1
    if freedom < _LEAST_FREEDOM:
        return None
    value, pulls, bread = _huber(design, log_value[kept], groups, prior, freedom)
    inflation = dependence(pulls[~side, 0], pulls[side, 0], fitted=groups.count + 1)
    meat = inflation * n / freedom * (pulls.T @ pulls) + prior
    reach = critical(left(freedom, inflation), alpha) * float(np.sqrt((bread @ meat @ bread)[0, 0]))
    return ratio(value, value - reach, value + reach, n - n_after, n_after)


class _Groups:
    """Strata of samples, for means within each.

    Args:
        strata: a number for each sample.
    """

    def __init__(self, strata: Codes) -> None:
        self._code = np.unique(strata, return_inverse=True)[1]
        self.count = int(self._code.max()) + 1

    def centred(self, values: Array, weight: Array | None = None) -> Array:
        """The values without their stratum's weighted mean."""
        w = np.ones(values.size) if weight is None else weight
        sums = np.bincount(self._code, weights=w * values, minlength=self.count)
        centred: Array = (
            values - (sums / np.bincount(self._code, weights=w, minlength=self.count))[self._code]
        )
        return centred


def _huber(
    design: Array, y: Array, groups: _Groups, prior: Array, freedom: int
) -> tuple[float, Array, Array]:
    """The first coefficient, each sample's pull on all of them, and the inverse curvature."""
    weight, scale = np.ones(y.size), float(max(y.std(), _LEAST_SCALE))
    wider = float(np.sqrt(y.size / freedom))
    for _ in range(_ROUNDS):
        rows = np.column_stack([groups.centred(column, weight) for column in design.T])
        target = groups.centred(y, weight)
        curvature = rows.T @ (rows * weight[:, None]) / scale**2 + prior
        value = np.linalg.solve(curvature, rows.T @ (weight * target) / scale**2)
        residual = target - rows @ value
        scale = max(_NORMAL * float(np.median(np.abs(residual))) * wider, _LEAST_SCALE)
        before, weight = weight, np.minimum(1.0, _HUBER * scale / np.maximum(np.abs(residual), 1e-12))
        if np.abs(weight - before).max() < _SETTLED:
            break
    near = np.abs(residual) <= _HUBER * scale
    bread = np.asarray(np.linalg.inv(rows.T @ (rows * near[:, None]) / scale**2 + prior), np.float64)
    return float(value[0]), rows * (weight * residual)[:, None] / scale**2, bread
