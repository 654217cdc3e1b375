"""Robust straight lines: coefficients that far-off samples don't bend, each with its 95 % interval.

The intervals hold for samples that differ by chance; they know nothing of a drift that all samples share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from rules.savings import Array

LINE_SAMPLES = 4
"""Two more than a line has coefficients."""

MOST_SAMPLES = 20_000
"""Of more samples so many are taken: the interval is then far below one percent anyway."""

CONFIDENCE = 0.95

_FIRST_SCALE, _LEAST_SCALE = 0.01, 1e-4
_SEED = 1
_OF_NORMAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A fitted value and its 95 % interval."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> Estimate:
        """The estimate in another unit; ``factor`` is positive."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)


def fit_line(x: ArrayLike, y: ArrayLike) -> tuple[Estimate, Estimate] | None:
    """What y is at 0, and what each of x adds; robust, by relative error, neither below 0.

    Args:
        x: not negative.
        y: above 0.

    Returns:
        None for fewer than `LINE_SAMPLES` samples, or x that are all alike.
    """
    at, measured = usable(x, y)
    if at.size < LINE_SAMPLES or at.min() == at.max():
        return None
    design, ones = np.column_stack([np.ones_like(at), at]) / measured[:, None], np.ones_like(at)
    value, _ = robust_line(design, ones)
    start, slope = estimates(design, ones, value)
    return start, slope


def evenly(of: int, most: int = MOST_SAMPLES) -> NDArray[np.int64]:
    """Places of at most ``most`` among ``of``: of each equally long stretch one by chance, always the same.

    Every so many would not do: what alternates in step with it would be seen from one side only.
    """
    if of <= most:
        return np.arange(of)
    edges = np.linspace(0, of, most + 1).astype(np.int64)
    return np.random.default_rng(_SEED).integers(edges[:-1], edges[1:])


def usable(*columns: ArrayLike) -> tuple[Array, ...]:
    """The columns as arrays without missing values, at most `MOST_SAMPLES` long."""
    told = [np.asarray(column, dtype=np.float64) for column in columns]
    finite = np.flatnonzero(np.logical_and.reduce([np.isfinite(column) for column in told]))
    taken = finite[evenly(finite.size)]
    return tuple(column[taken] for column in told)


def robust_line(design: Array, measured: Array) -> tuple[Array, Array]:
    """Non-negative coefficients of least soft absolute error, and weights near 0 for far-off samples.

    Twice: near least absolute deviations first, which far-off samples do not bend; then with the scale of the
    residuals found so, which takes more from the near ones (Huber 1964; soft L1 is smooth where his loss has
    a corner).
    """
    from scipy.optimize import least_squares  # type: ignore[import-untyped]

    unit = np.abs(design).max(axis=0) / np.median(measured)
    rows, target = design / np.abs(design).max(axis=0), measured / np.median(measured)
    value, scale = np.full(design.shape[1], 0.5), _FIRST_SCALE
    for _ in range(2):
        found = least_squares(
            lambda x: rows @ x - target,
            value,
            jac=lambda _: rows,
            bounds=(0.0, np.inf),
            loss="soft_l1",
            f_scale=scale,
        )
        value = np.asarray(found.x, dtype=np.float64)
        scale = _scale(rows @ value - target)
    return value / unit, 1 / (1 + ((rows @ value - target) / scale) ** 2)


def estimates(design: Array, measured: Array, value: Array) -> list[Estimate]:
    """Intervals of fitted coefficients, from the scatter of the samples around them.

    The sandwich of an M-estimator with soft L1 loss (Huber 1967): it needs no equal or normal scatter, and a
    far-off sample widens it no more than a near one. Student's t serves for few samples.
    """
    from scipy.special import stdtrit  # type: ignore[import-untyped]

    size = np.abs(design).max(axis=0)
    rows, residual = design / size, measured - design @ value
    z = (residual / _scale(residual)) ** 2
    curvature, pull = (1 + z) ** -1.5, residual / np.sqrt(1 + z)
    bread = np.linalg.pinv(rows.T @ (rows * curvature[:, None]))
    leverage = np.einsum("ij,jk,ik->i", rows, bread, rows) * curvature
    pulled = rows * (pull / (1 - np.clip(leverage, 0.0, 0.9)))[:, None]
    covariance = bread @ (pulled.T @ pulled) @ bread
    freedom = max(len(measured) - len(value), 1)
    reach = stdtrit(freedom, (1 + CONFIDENCE) / 2) * np.sqrt(np.diag(covariance)) / size
    return [
        Estimate(float(v), max(float(v - r), 0.0), float(v + r)) for v, r in zip(value, reach, strict=True)
    ]


def _scale(residual: Array) -> float:
    """Robust standard deviation of residuals around 0; never 0."""
    return max(_OF_NORMAL * float(np.median(np.abs(residual))), _LEAST_SCALE)
