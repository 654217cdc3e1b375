"""How much two sets of measurements differ, and how sure that is.

Every interval is wide enough that all `EFFECTS` of a comparison hold together in 99 of 100 comparisons of a
log with itself; ``alpha`` makes them wider, where many logs are compared. Measurements of one process follow
each other, and a hot machine stays hot for a while: each side is taken in the order of time, and the more
neighbours are alike, the wider the interval.

How often a slower decode is found, by requests a side, with 5 % noise, over made logs of chats, retrieval and
calls with no cache (30 pairs each); first noise that does not drift, then noise whose neighbours correlate
by 0.3:

    slower            10             30           100
      5 %        0,    0 %   17-27,  3-10 %   100, 67-80 %
     10 %     7-30, 3-13 %   93-97, 53-57 %   100,   100 %
     20 %    40-83, 23-60 %    100, 97-100 %  100,   100 %

What no interval here knows: two runs of an unchanged setup differ too, by heat, clocks and other work on the
machine. Below `FLOOR` nothing is called a difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rules.savings import Array

TOGETHER = 0.99
"""All effects of a comparison hold together this often."""

EFFECTS = 10
"""First token and total by median, by mean and at like work; prefill and decode; queue and load."""

FLOOR = 0.02
"""Smaller changes are usual between two runs of one setup."""

LEAST = 5
"""Measurements a side from which an effect is told."""

ALPHA = (1 - TOGETHER) / EFFECTS
"""How often the interval of one effect does not hold the truth."""

_MOST_ALIKE, _MOST_QUEUED, _MOST_OF_ALL = 0.95, 0.99, 0.5
"""Correlation of neighbours, the same in a queue, and of a side's values how few may count: two, even if all
move together."""

_SLOW = 2.0
"""Times what an autoregression of a queue's neighbours explains: its far values hang together longer."""

_WIDEST = float(np.log(1e4))
"""Of the logarithms of a ratio: an interval wider than that says nothing."""

_BLOCKS_FROM = 100
"""Measurements from which the scatter of block means is known well enough to be used."""

_SEEN = 1.9
"""Times half an interval: a change that large is found in four of five repetitions, as measured."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A change from before to after with its interval.

    Attributes:
        value: a ratio, after over before, or a difference in ms.
        low, high: its interval.
        none: the value that means no change: 1 or 0.
        n_before, n_after: measurements that it rests on.
        least: the least distance from ``none`` that counts, of a ratio as its logarithm.
    """

    value: float
    low: float
    high: float
    none: float
    n_before: int
    n_after: int
    least: float

    @property
    def sign(self) -> int:
        """-1 for less, 1 for more; 0 for none.

        The change must be `FLOOR`, and its interval a quarter of that away from none.
        """
        ends = np.array([self.low, self.value, self.high])
        near, moved, far = np.log(ends) if self.none else ends
        if near <= 0 <= far or abs(moved) < self.least or min(abs(near), abs(far)) < self.least / 4:
            return 0
        return 1 if moved > 0 else -1

    @property
    def visible(self) -> float | None:
        """A change, as a share of before, that is found four times out of five; None of nothing before."""
        ends = np.array([self.low, self.high])
        low, high = np.log(ends) if self.none else ends
        moved = float(max(_SEEN * (high - low) / 2 + self.least / 2, _SEEN * self.least))
        if self.none:
            return float(np.expm1(moved))
        before = self.least / FLOOR
        return moved / before if before > 0 else None


def ratio_of_medians(
    before: Array, after: Array, inflation: float = 1.0, alpha: float = ALPHA
) -> Effect | None:
    """The ratio of two medians, with no assumption on how the values are spread.

    A median lies between two of its sorted values (the binomial interval of a quantile); the intervals of
    both sides are put together as Donner and Zou 2012 do for a difference (MOVER), here of logarithms.

    Args:
        before: positive values, in the order of time.
        after: the same.
        inflation: the least by which the variance of a mean is larger than for independent values.
        alpha: how often the interval may not hold the truth.

    Returns:
        None where so few values bound no median at this confidence; see `ratio_of_geometric_means`.
    """
    if min(before.size, after.size) < LEAST:
        return None
    logs = np.log(before), np.log(after)
    (then, lower, upper), (now, lower_now, upper_now) = _intervals(logs, inflation, alpha)
    value = now - then
    low = value - float(np.hypot(now - lower_now, upper - then))
    high = value + float(np.hypot(upper_now - now, then - lower))
    return ratio(value, low, high, before.size, after.size) if np.isfinite(high - low) else None


def _intervals(logs: tuple[Array, Array], inflation: float, alpha: float) -> list[tuple[float, float, float]]:
    """Each side's median and its interval, infinite where so few values have none."""
    inflation = max(dependence(*(np.sign(values - np.median(values)) for values in logs)), inflation)
    reach = critical(left(sum(values.size for values in logs), inflation) - 2, alpha)
    found = []
    for values in logs:
        middle, ranks = (values.size - 1) / 2, reach * float(np.sqrt(values.size * inflation)) / 2
        low, high = -np.inf, np.inf
        if ranks <= middle:
            at = [middle - ranks, middle + ranks]
            low, high = (float(x) for x in np.interp(at, np.arange(values.size), np.sort(values)))
        found.append((float(np.median(values)), low, high))
    return found


def ratio_of_geometric_means(
    before: Array, after: Array, inflation: float = 1.0, alpha: float = ALPHA
) -> Effect | None:
    """The ratio of two geometric means, for few values: their logarithms scatter evenly enough for that.

    Args:
        before: positive values, in the order of time.
        after: the same.
        inflation: the least by which the variance of a mean is larger than for independent values.
        alpha: how often the interval may not hold the truth.

    Returns:
        None for fewer than `LEAST` on a side, or where they bound nothing.
    """
    found = difference_of_means(np.log(before), np.log(after), inflation, alpha)
    return found and ratio(found.value, found.low, found.high, found.n_before, found.n_after)


def ratio(value: float, low: float, high: float, n_before: int, n_after: int) -> Effect | None:
    """An effect from logarithms; None where the interval is too wide to say anything."""
    if high - low > _WIDEST:
        return None
    told, least, most = (float(x) for x in np.exp([value, low, high]))
    return Effect(told, least, most, 1.0, n_before, n_after, float(np.log1p(FLOOR)))


def difference_of_means(
    before: Array, after: Array, inflation: float = 1.0, alpha: float = ALPHA
) -> Effect | None:
    """The difference of two means, of times that may be zero: Welch 1947 with dependent values.

    Args:
        before: values in the order of time, ms.
        after: the same.
        inflation: the least by which the variance of a mean is larger than for independent values.
        alpha: how often the interval may not hold the truth.

    Returns:
        None for fewer than `LEAST` on a side.
    """
    if min(before.size, after.size) < LEAST:
        return None
    inflation = max(dependence(before, after), inflation)
    variance = np.array([values.var(ddof=1) * inflation / values.size for values in (before, after)])
    value, total = float(after.mean() - before.mean()), float(variance.sum())
    reach = 0.0
    if total > 0:
        freedom = total**2 / float((variance**2 / (np.array([before.size, after.size]) - 1)).sum())
        reach = critical(left(freedom, inflation), alpha) * float(np.sqrt(total))
    least = FLOOR * float(before.mean())
    return Effect(value, value - reach, value + reach, 0.0, before.size, after.size, least)


def dependence(*series: Array, fitted: int = 2) -> float:
    """How many times larger the variance of a mean is than for independent values; at least 1.

    The larger of two estimates: (1 + r) / (1 - r) for a correlation r of neighbours (a first-order
    autoregression; r a standard error up, since short series show too little of it), and of long series also
    the scatter of the means of some square root of n blocks, which sees slower changes.

    Args:
        series: each in the order of time; one dependence is taken for all.
        fitted: means that were taken out of them; each hides some of the correlation.
    """
    centred = [values - values.mean() for values in series]
    n = sum(values.size for values in centred)
    power = sum(float(values @ values) for values in centred)
    if power <= 0 or n < LEAST:
        return 1.0
    inflation = _of_neighbours(centred, power, fitted, _MOST_ALIKE)
    blocks = [_block_means(values) for values in centred if values.size >= _BLOCKS_FROM]
    if len(blocks) == len(centred):
        scatter = [length * float(means.var(ddof=1)) for means, length in blocks]
        inflation = max(inflation, float(np.mean(scatter)) / (power / n))
    return float(max(min(inflation, n / len(series) * _MOST_OF_ALL), 1.0))


def _of_neighbours(centred: list[Array], power: float, fitted: int, most: float) -> float:
    n = sum(values.size for values in centred)
    r = sum(float(values[1:] @ values[:-1]) for values in centred) / power
    r += fitted * (1 + max(r, 0.0)) / n + float(np.sqrt(max(1 - r * r, 0.0) / n))
    r = min(max(r, 0.0), most)
    return (1 + r) / (1 - r)


def in_a_queue(*waits: Array) -> float:
    """As `dependence`, of waits in a queue, which drains slowly: a busy hour of hundreds may be one event."""
    centred = [values - values.mean() for values in waits]
    power = sum(float(values @ values) for values in centred)
    return _SLOW * _of_neighbours(centred, power, len(waits), _MOST_QUEUED) if power > 0 else 1.0


def _block_means(values: Array) -> tuple[Array, int]:
    length = int(np.sqrt(values.size))
    return values[: values.size // length * length].reshape(-1, length).mean(axis=1), length


def left(freedom: float, inflation: float) -> float:
    """Degrees of freedom of dependent values: half-way, in ratio, to those of as many as count."""
    return freedom / float(np.sqrt(inflation))


def critical(freedom: float, alpha: float = ALPHA) -> float:
    """Student's t that an effect must exceed, two-sided."""
    from scipy.special import stdtrit  # type: ignore[import-untyped]

    return float(stdtrit(max(freedom, 1.0), 1 - alpha / 2))
