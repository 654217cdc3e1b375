"""Percentiles from a histogram's buckets, only where they can tell."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def quantile(q: float, cumulative: Mapping[float, float]) -> float | None:
    """The q-quantile, linear within its bucket as Prometheus computes it.

    Args:
        q: 0-1.
        cumulative: by upper bound, the observations up to it; the last bound is infinite.

    Returns:
        ``None`` where the bucket has only one bound: the lowest holds all that is faster than it, the last
        all that is slower. The same for buckets that are none: unordered, or without the infinite one.

    Source: `histogram_quantile` of Prometheus.
    """
    bounds = sorted(cumulative)
    counts = [cumulative[bound] for bound in bounds]
    if not bounds or not math.isinf(bounds[-1]) or counts[-1] <= 0 or counts != sorted(counts):
        return None
    rank = q * counts[-1]
    place = next(i for i, count in enumerate(counts) if count >= rank)
    if place in (0, len(bounds) - 1):
        return None
    low, high = bounds[place - 1], bounds[place]
    below, inside = counts[place - 1], counts[place] - counts[place - 1]
    return low + (high - low) * (rank - below) / inside
