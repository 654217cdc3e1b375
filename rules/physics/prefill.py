"""Prefill: what it computes, and a time model fitted to a log's own samples."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

QUADRATIC_SAMPLES = 6
"""Samples from which a fit to log lines may claim the attention term, and any fit a fixed cost."""

QUADRATIC_SPAN = 4.0
"""Largest over smallest, in new tokens and in attention work per token, that shows the attention term."""

LEAST_RATE_RATIO = {"geforce": 33.0, "workstation": 33.0, "datacenter": 33.0, "strix": 24.0, "apple": 11.0}
"""Prefill over decode rate at batch 1, the lowest of a device class: 512-token prompts, 7B to 70B models in 4
bits (llama.cpp#4167, XiongjieDai/GPU-Benchmarks-on-LLM-Inference). More bits a weight only raise it; CPUs
have 1.8 to 3.0."""

ANY_GPU_RATE_RATIO = 10.0
"""For a GPU whose class was not measured: half of it is above all CPUs and below the slowest cards that were
published, a Radeon RX 5700 XT with 5.3 (llama.cpp#5835) and an R9 200 with 6.4 (llama.cpp#18570)."""

MIXTURE_OF_DENSE = 0.6
"""A mixture of experts on an RTX 3090 has a ratio of 20."""

_ROBUST_ROUNDS = 12
_ERROR_FLOOR = 0.01
_TRIM_FACTOR = 3.0
_TRIM_FLOOR = 0.05


def prefill_flops(
    active_parameters: float, new_tokens: float, cached_tokens: float, layers: int, attention_width: int
) -> float:
    """Floating-point operations to evaluate a prompt.

    2*P*U for the weights (Kaplan et al. 2020, arXiv:2001.08361) plus 4*L*d*(U*C + U^2/2) for QK^T and AV
    under a causal mask, 2 operations per multiply-add (serving form: Pope et al. 2022, arXiv:2211.05102).

    Args:
        active_parameters: Parameters that one token passes through.
        new_tokens: Tokens evaluated, U.
        cached_tokens: Tokens already in the KV cache, C.
        layers: Attention layers, L.
        attention_width: Query heads times head size, d.
    """
    pairs = new_tokens * (cached_tokens + new_tokens / 2)
    return 2 * active_parameters * new_tokens + 4 * layers * attention_width * pairs


def least_rate_ratio(device_class: str | None, *, mixture: bool = False) -> float:
    """Lowest ratio of prefill to decode rate that a healthy GPU shows; see `LEAST_RATE_RATIO`.

    Args:
        device_class: as in `devices.Device`; None for a GPU that is not known.
        mixture: the model is a mixture of experts.
    """
    dense = LEAST_RATE_RATIO.get(device_class or "", ANY_GPU_RATE_RATIO)
    return dense * MIXTURE_OF_DENSE if mixture else dense


@dataclass(frozen=True, slots=True)
class PrefillModel:
    """Prefill time in ms: a*U + b*(U*C + U^2/2) + c, for U new tokens on top of C cached ones.

    The terms are those of `prefill_flops` plus a fixed cost; with C = 0 the time per token is a + (b/2)*U.
    """

    a_ms: float
    b_ms: float = 0.0
    c_ms: float = 0.0

    @overload
    def predict_ms(self, new_tokens: float, cached_tokens: float = 0) -> float: ...
    @overload
    def predict_ms(self, new_tokens: FloatArray, cached_tokens: FloatArray | float = 0) -> FloatArray: ...
    def predict_ms(
        self, new_tokens: float | FloatArray, cached_tokens: float | FloatArray = 0
    ) -> float | FloatArray:
        """Prefill time in ms; takes numbers or numpy arrays of them."""
        pairs = new_tokens * (cached_tokens + new_tokens / 2)
        return self.a_ms * new_tokens + self.b_ms * pairs + self.c_ms


@dataclass(frozen=True, slots=True)
class PrefillFit:
    """A fitted model and how far to trust it.

    Attributes:
        model: The fitted model.
        n: Usable samples, or as many of them as were taken.
        outliers: Of those, left out of the final fit.
        span: Largest over smallest number of new tokens.
        median_error: Median |predicted / measured - 1| over all usable samples.
        max_error: The largest of them, outliers included.
        quadratic: Whether the samples tell the attention term from the linear one. When False the model is a
            median ms per token, good near the lengths it has seen and silent on others.
    """

    model: PrefillModel
    n: int
    outliers: int
    span: float
    median_error: float
    max_error: float
    quadratic: bool


def fit_prefill(
    new_tokens: Sequence[float] | FloatArray,
    cached_tokens: Sequence[float] | FloatArray,
    prefill_ms: Sequence[float] | FloatArray,
    *,
    min_samples: int = QUADRATIC_SAMPLES,
) -> PrefillFit | None:
    """Fit `PrefillModel` to measured requests.

    Least absolute error relative to the larger of predicted and measured (by reweighted least squares, so
    that too slow and too fast samples pull alike), then least squares on the relative error without the
    samples that are more than three median errors and 5 % off. No coefficient goes below 0. The attention
    term needs `min_samples` samples whose new tokens and whose attention work per new token (C + U/2) both
    span 4x; the fixed cost needs six. Otherwise the model is the median ms per token.

    Args:
        new_tokens: Tokens evaluated by each request.
        cached_tokens: Tokens each found in the cache.
        prefill_ms: Time each took. Samples with a missing or non-positive time or count are dropped; so
            should the caller drop very short ones (a prefill below some 64 tokens runs like decode). Of more
            than `rules.lines.MOST_SAMPLES` so many are taken.
        min_samples: Fewer than the default only for clean benchmark points.

    Returns:
        None when no sample is usable.
    """
    import numpy as np

    from rules.lines import evenly

    new, cached, measured = (
        np.asarray(column, dtype=np.float64) for column in (new_tokens, cached_tokens, prefill_ms)
    )
    usable = (new > 0) & (cached >= 0) & (measured > 0) & np.isfinite(new + cached + measured)
    taken = np.flatnonzero(usable)
    taken = taken[evenly(taken.size)]
    new, cached, measured = new[taken], cached[taken], measured[taken]
    n = int(new.size)
    if n == 0:
        return None

    depth = cached + new / 2
    span = float(new.max() / new.min())
    quadratic = n >= min_samples and min(span, float(depth.max() / depth.min())) >= QUADRATIC_SPAN
    model = PrefillModel(float(np.median(measured / new)))
    outliers = 0
    if quadratic:
        terms = np.column_stack([new, new * depth, np.ones(n)])[:, : 3 if n >= QUADRATIC_SAMPLES else 2]
        for _ in range(_ROBUST_ROUNDS):
            predicted = model.predict_ms(new, cached)
            larger = np.maximum(predicted, measured)
            error = np.maximum(abs(predicted - measured) / larger, _ERROR_FLOOR)
            model = _least_squares(terms, measured, 1 / (larger * np.sqrt(error)))
        kept = error <= max(_TRIM_FACTOR * float(np.median(error)), _TRIM_FLOOR)
        model = _least_squares(terms[kept], measured[kept], 1 / measured[kept])
        outliers = n - int(kept.sum())
    relative_error = abs(model.predict_ms(new, cached) / measured - 1)
    return PrefillFit(
        model=model,
        n=n,
        outliers=outliers,
        span=span,
        median_error=float(np.median(relative_error)),
        max_error=float(relative_error.max()),
        quadratic=quadratic,
    )


def _least_squares(terms: FloatArray, measured: FloatArray, weight: FloatArray) -> PrefillModel:
    """Weighted non-negative least squares: the best over all subsets of the terms."""
    import numpy as np

    rows, target = terms * weight[:, None], measured * weight
    columns = range(terms.shape[1])
    best_loss, best = np.inf, np.zeros(3)
    for chosen in (list(subset) for size in columns for subset in combinations(columns, size + 1)):
        coefficients = np.linalg.lstsq(rows[:, chosen], target, rcond=None)[0]
        loss = float(((rows[:, chosen] @ coefficients - target) ** 2).sum())
        if (coefficients >= 0).all() and loss < best_loss:
            best_loss, best = loss, np.zeros(3)
            best[chosen] = coefficients
    return PrefillModel(*map(float, best))
