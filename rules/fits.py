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

from rules.frames import passing
from rules.lines import Estimate, estimates, robust_line, usable
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

CONTEXT_TOKENS = (
    pl.coalesce("context_tokens", pl.col("prompt_tokens") + pl.col("output_tokens"))
    - pl.col("output_tokens") / 2
)
"""Tokens in the context half-way through an answer."""

SAME = ("model", "weights_bytes", "layers_offloaded", "flash_attention", "kv_type_k", "kv_type_v", "threads")
"""Facts that two process starts must share for their times per token to lie on one line."""


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
    context, measured = usable(context_tokens, ms_per_token)
    if context.size < SLOPE_SAMPLES or context.max() < SLOPE_SPAN * context.min():
        return None
    design = np.column_stack([np.ones_like(context), context])
    value, weight = robust_line(design, measured)
    alpha, beta = estimates(design, measured, value)
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


def fit_prefill_terms(
    new_tokens: ArrayLike, cached_tokens: ArrayLike, prefill_ms: ArrayLike
) -> PrefillTerms | None:
    """`rules.physics.prefill.fit_prefill` with intervals of its two rates.

    Returns:
        None where the samples can't tell attention from weights; see `PrefillFit.quadratic`.
    """
    new, cached, measured = usable(new_tokens, cached_tokens, prefill_ms)
    fit = fit_prefill(new, cached, measured)
    if fit is None or not fit.quadratic:
        return None
    design = np.column_stack([new, new * (cached + new / 2), np.ones_like(new)]) / measured[:, None]
    value = np.array([fit.model.a_ms, fit.model.b_ms, fit.model.c_ms])
    a, b, _ = estimates(design, np.ones_like(measured), value)
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
    rows = passing(rows, ~pl.col("run").is_in(differing))
    models = rows["model"].drop_nulls()
    return passing(rows, pl.col("model") == models.mode().sort()[0]) if models.len() else rows


def alike(one: Setup, other: Setup) -> bool:
    """No fact of `SAME` that both know differs."""
    facts = ((getattr(one, fact), getattr(other, fact)) for fact in SAME)
    return all(mine is None or theirs is None or mine == theirs for mine, theirs in facts)
