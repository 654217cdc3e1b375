"""Straight lines through a log's own samples, and how sure each coefficient is.

A fit gives one value, and a rule that compares it with a limit must know how far the samples let it move.
Every coefficient here is an `Estimate`: the value with its 95 % interval. The intervals hold for samples that
differ by chance; they know nothing of a drift that all samples share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.physics.decode import kv_slope_ratio
from rules.physics.prefill import fit_prefill

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from parsers.setup import Setup
    from rules.measures import Measures
    from rules.physics.prefill import PrefillFit
    from rules.savings import Array

SLOPE_SAMPLES, SLOPE_SPAN = 8, 4.0
"""Answers, and deepest over shallowest context among them, from which a slope can be told from noise."""

LINE_SAMPLES = 4
"""Two more than a line has coefficients."""

MOST_SAMPLES = 20_000
"""Of more samples every so many is taken: the interval is then far below one percent anyway."""

CONFIDENCE = 0.95

CONTEXT_TOKENS = (
    pl.coalesce("context_tokens", pl.col("prompt_tokens") + pl.col("output_tokens"))
    - pl.col("output_tokens") / 2
)
"""Tokens in the context half-way through an answer."""

_FIRST_SCALE, _LEAST_SCALE = 0.01, 1e-4
_OF_NORMAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""

SAME = ("model", "weights_bytes", "layers_offloaded", "flash_attention", "kv_type_k", "kv_type_v", "threads")
"""Facts that two process starts must share for their times per token to lie on one line."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A fitted value and its 95 % interval."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> Estimate:
        """The estimate in another unit; ``factor`` is positive."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True, slots=True)
class DecodeSlope:
    """Time per generated token against tokens in the context: alpha + beta * context.

    Attributes:
        alpha_ms: ms per token at an empty context: weights, launches, sampling.
        beta_ms: ms per token that each token of context adds: reading the KV cache, attention.
        n: samples.
        shallowest_tokens, deepest_tokens: contexts that the samples span, half-way through the answers.
        r2: share of the variance of ms per token that the line explains.
    """

    alpha_ms: Estimate
    beta_ms: Estimate
    n: int
    shallowest_tokens: float
    deepest_tokens: float
    r2: float

    @property
    def span(self) -> float:
        """Deepest over shallowest context."""
        return self.deepest_tokens / self.shallowest_tokens

    def ms_per_token(self, context_tokens: float) -> float:
        """Fitted ms per token at a context."""
        return self.alpha_ms.value + self.beta_ms.value * context_tokens

    def context_ms(self, context_tokens: float) -> float:
        """The part of `ms_per_token` that the context costs, ms."""
        return self.beta_ms.value * context_tokens


@dataclass(frozen=True, slots=True)
class PrefillTerms:
    """The two parts of prefill: a per token for the weights, b per pair of tokens for attention.

    Attributes:
        fit: the fitted model, a*U + b*(U*C + U^2/2) + c.
        a_ms: ms per token.
        b_ms: ms per pair of tokens that attend to each other.
    """

    fit: PrefillFit
    a_ms: Estimate
    b_ms: Estimate

    @property
    def equal_tokens(self) -> float | None:
        """Length of an uncached prompt whose attention takes as long as the weights; None without any."""
        b = self.b_ms.value
        return 2 * self.a_ms.value / b if b > 0 else None

    def attention_ms(self, new_tokens: Array, cached_tokens: Array | float = 0.0) -> Array:
        """Time that attention takes of each prefill, ms."""
        return np.asarray(self.b_ms.value * new_tokens * (cached_tokens + new_tokens / 2), dtype=np.float64)

    def attention_share(self, new_tokens: Array, cached_tokens: Array | float = 0.0) -> Array:
        """Attention's part of each predicted prefill, 0-1."""
        attention = self.attention_ms(new_tokens, cached_tokens)
        total = np.asarray(self.fit.model.predict_ms(new_tokens, cached_tokens), dtype=np.float64)
        return np.divide(attention, total, out=np.zeros_like(total), where=total > 0)


def fit_decode_slope(context_tokens: ArrayLike, ms_per_token: ArrayLike) -> DecodeSlope | None:
    """Fit `DecodeSlope` robustly: far-off samples pull no more than near ones; no coefficient is below 0.

    Args:
        context_tokens: tokens in the context, half-way through each answer.
        ms_per_token: time per generated token of each.

    Returns:
        None for fewer than `SLOPE_SAMPLES` samples or contexts that span less than `SLOPE_SPAN`.
    """
    context, measured = _usable(context_tokens, ms_per_token)
    if context.size < SLOPE_SAMPLES or context.max() < SLOPE_SPAN * context.min():
        return None
    design = np.column_stack([np.ones_like(context), context])
    value, weight = _robust_line(design, measured)
    alpha, beta = _estimates(design, measured, value)
    mean = float(np.average(measured, weights=weight))
    spread = float(np.sum(weight * (measured - mean) ** 2))
    left = float(np.sum(weight * (measured - design @ value) ** 2))
    return DecodeSlope(
        alpha_ms=alpha,
        beta_ms=beta,
        n=int(context.size),
        shallowest_tokens=float(context.min()),
        deepest_tokens=float(context.max()),
        r2=max(1 - left / spread, 0.0) if spread > 0 else 0.0,
    )


def fit_line(x: ArrayLike, y: ArrayLike) -> tuple[Estimate, Estimate] | None:
    """What y is at 0, and what each of x adds; robust, by relative error, neither below 0.

    Args:
        x: not negative.
        y: above 0.

    Returns:
        None for fewer than `LINE_SAMPLES` samples, or x that are all alike.
    """
    at, measured = _usable(x, y)
    if at.size < LINE_SAMPLES or at.min() == at.max():
        return None
    design, ones = np.column_stack([np.ones_like(at), at]) / measured[:, None], np.ones_like(at)
    value, _ = _robust_line(design, ones)
    start, slope = _estimates(design, ones, value)
    return start, slope


def fit_prefill_terms(
    new_tokens: ArrayLike, cached_tokens: ArrayLike, prefill_ms: ArrayLike
) -> PrefillTerms | None:
    """`rules.physics.prefill.fit_prefill` with intervals of its two rates.

    Returns:
        None where the samples can't tell attention from weights; see `PrefillFit.quadratic`.
    """
    new, cached, measured = _usable(new_tokens, cached_tokens, prefill_ms)
    fit = fit_prefill(new, cached, measured)
    if fit is None or not fit.quadratic:
        return None
    design = np.column_stack([new, new * (cached + new / 2), np.ones_like(new)]) / measured[:, None]
    value = np.array([fit.model.a_ms, fit.model.b_ms, fit.model.c_ms])
    a, b, _ = _estimates(design, np.ones_like(measured), value)
    return PrefillTerms(fit, a, b)


def decode_slope(m: Measures) -> DecodeSlope | None:
    """The slope of this log's decode, from answers that ran alone, one token at a time, on one setup.

    ``None`` where there are too few, where a draft was used, or where their contexts are too much alike.
    """
    if m.decoding.speculative:
        return None
    rows = on_one_setup(m, m.decoding.alone).select(
        context=CONTEXT_TOKENS, ms=pl.col("decode_ms") / pl.col("decode_steps")
    )
    rows = rows.drop_nulls()
    return fit_decode_slope(rows["context"].to_numpy(), rows["ms"].to_numpy())


def prefill_terms(m: Measures) -> PrefillTerms | None:
    """Weights and attention in this log's prefill, from prompts that were read alone on one setup.

    ``None`` where the samples can't tell them apart. A prompt whose cached tokens are unknown is no sample.
    """
    rows = on_one_setup(m, alone(m, m.valid_prefill)).drop_nulls("cached_tokens")
    return fit_prefill_terms(
        *(rows[name].to_numpy() for name in ("prefill_tokens", "cached_tokens", "prefill_ms"))
    )


def alone(m: Measures, rows: pl.DataFrame) -> pl.DataFrame:
    """Of these requests those that nothing ran beside; none where the log can't tell."""
    return rows if m.serial else rows.join(m.overlap.alone, on=["source", "line"], how="semi")


def context_ratio(m: Measures) -> Estimate | None:
    """Rho: what a token of context adds to decode, over what reading its part of the KV cache should add.

    See `rules.physics.decode.kv_slope_ratio`, whose limits were measured on GPUs. ``None`` where slope, size
    of the KV cache or bandwidth is not known, and for a sliding window, beyond which context adds nothing.
    """
    slope, kv_bytes, bandwidth = m.decode_slope, m.setup.kv_bytes_per_token, m.bandwidth_gb_s
    on_gpu = bool(m.hardware.gpus or m.hardware.gpu) and not m.hardware.on_cpu
    if slope is None or not kv_bytes or not bandwidth or not on_gpu or m.setup.sliding_window:
        return None
    return slope.beta_ms.times(kv_slope_ratio(1.0, kv_bytes, bandwidth))


def on_one_setup(m: Measures, rows: pl.DataFrame) -> pl.DataFrame:
    """Of these requests those of the most used model, from process starts set up as `Measures.setup`."""
    differing = [run for run, setup in enumerate(m.setups) if not alike(setup, m.setup)]
    rows = rows.filter(~pl.col("run").is_in(differing))
    models = rows["model"].drop_nulls()
    return rows.filter(pl.col("model") == models.mode().sort()[0]) if models.len() else rows


def alike(one: Setup, other: Setup) -> bool:
    """No fact of `SAME` that both know differs."""
    facts = ((getattr(one, fact), getattr(other, fact)) for fact in SAME)
    return all(mine is None or theirs is None or mine == theirs for mine, theirs in facts)


def _usable(*columns: ArrayLike) -> tuple[Array, ...]:
    """The columns as arrays without missing values, at most `MOST_SAMPLES` long."""
    table = np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])
    table = table[np.isfinite(table).all(axis=1)]
    return tuple(table[:: max(-(-len(table) // MOST_SAMPLES), 1)].T)


def _robust_line(design: Array, measured: Array) -> tuple[Array, Array]:
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


def _estimates(design: Array, measured: Array, value: Array) -> list[Estimate]:
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
