"""What a request will cost before anything runs: a guess, how far it may be off, and what it rests on.

A guess without a value still has bounds where physics sets them; without bounds nothing can be told.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rules.physics.decode import (
    HEALTHY,
    HEALTHY_MIXTURE,
    UNFITTED_SHARE,
    bandwidth_ceiling_tok_s,
    decode_constants,
    decode_ms_per_token,
)
from rules.physics.prefill import fit_prefill

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFILL_MFU = (0.17, 1.0)
"""Share of dense FP16 tensor throughput that prefill reaches: 0.17 (H100 PCIe) to 1.01 (GeForce, whose int8
kernels run faster than that figure); Llama 3 8B Q4_K_M at 512 tokens, llama.cpp of May 2024."""

POINTS_ERROR, BEYOND_POINTS_ERROR = 0.1, 0.2
"""Of prefill fitted to measured points, between them and past the longest: 8k tokens from 512 and 4k were 2 %
off in the median and 20 % at most (`benchmarks/predict.py`)."""

DOUBLING = 1.3
"""Time per token at twice the length over time per token, at most: 4k to 8k without flash attention."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A predicted number.

    Attributes:
        value: The prediction; None where only bounds, or nothing, can be told.
        low: Least that is plausible.
        high: Most that is plausible.
        basis: What it rests on, as a phrase.
    """

    value: float | None
    low: float | None
    high: float | None
    basis: str


NOTHING = Guess(None, None, None, "")


def decode_guess(
    weight_bytes: float,
    kv_bytes: float,
    bandwidth_bounds_gb_s: tuple[float, float],
    device_class: str | None,
    layers: int | None,
    *,
    mixture: bool = False,
    flash_attention: bool = True,
) -> Guess:
    """Decode rate in tok/s at batch 1.

    For a class with constants and a known number of layers `decode.decode_ms_per_token`, with the bounds
    that healthy runs keep to. Otherwise three quarters of the ceiling, between `UNFITTED_SHARE` of it.

    Args:
        weight_bytes: Weights read for one token.
        kv_bytes: KV cache read for one token.
        bandwidth_bounds_gb_s: Lowest and highest data-sheet bandwidth; the same twice when it is known.
        device_class: As in `devices.Device`; None when unknown.
        layers: Layers of the model; None when unknown.
        mixture: A mixture of experts.
        flash_attention: Whether it is on.

    Raises:
        ValueError: When weights or bandwidth are not positive.
    """
    slow, fast = bandwidth_bounds_gb_s
    middle = (slow + fast) / 2
    most = bandwidth_ceiling_tok_s(weight_bytes + kv_bytes, fast)
    constants = decode_constants(device_class)
    if constants is None or layers is None:
        low, high = UNFITTED_SHARE
        value = (low + high) / 2 * bandwidth_ceiling_tok_s(weight_bytes + kv_bytes, middle)
        least = low * bandwidth_ceiling_tok_s(weight_bytes + kv_bytes, slow)
        missing = "no fit for this device" if constants is None else "the number of layers is not known"
        basis = f"rough, three quarters of what bandwidth allows ({missing})"
        return Guess(value, least, high * most, basis)
    rates = []
    for bandwidth in (slow, middle, fast):
        ms = decode_ms_per_token(
            weight_bytes, kv_bytes, bandwidth, layers, constants, flash_attention=flash_attention
        )
        rates.append(1000 / ms if ms else 0.0)
    low, high = HEALTHY_MIXTURE if mixture else HEALTHY
    basis = f"from bandwidth and layers, as fitted to {constants.label}"
    return Guess(rates[1], low * rates[0], min(high * rates[2], most), basis)


def decode_guess_at(
    weight_bytes: float, kv_bytes: float, rates_gb_s: tuple[float, float], error: float, basis: str
) -> Guess:
    """Decode rate in tok/s at batch 1, from rates that decode was measured to read at.

    Args:
        weight_bytes: Weights read for one token.
        kv_bytes: KV cache read for one token.
        rates_gb_s: At which weights and at which KV cache is read.
        error: How far off it may be, as a share.
        basis: What the rates rest on, as a phrase.

    Raises:
        ValueError: When weights or a rate are not positive.
    """
    weights_gb_s, kv_gb_s = rates_gb_s
    if min(weight_bytes, weights_gb_s, kv_gb_s) <= 0:
        raise ValueError("sizes and rates must be positive")
    value = 1e9 / (weight_bytes / weights_gb_s + kv_bytes / kv_gb_s)
    return Guess(value, value * (1 - error), value * (1 + error), basis)


def prefill_guess(points: Sequence[tuple[float, float]], new_tokens: float, cached_tokens: float) -> Guess:
    """Prefill time in ms from measured points.

    With lengths that span 4x the model of `prefill.fit_prefill`; with fewer the rate is taken as constant,
    and a longer context than measured may cost up to `DOUBLING` per doubling.

    Args:
        points: Prompt tokens, none of them cached, and tok/s.
        new_tokens: Tokens to evaluate.
        cached_tokens: Tokens in the cache before them.

    Raises:
        ValueError: When a point is not positive.
    """
    if not new_tokens:
        return Guess(0.0, 0.0, 0.0, "nothing to evaluate")
    if not points:
        return NOTHING
    if min(min(point) for point in points) <= 0:
        raise ValueError("points must be positive")
    lengths = [float(tokens) for tokens, _ in points]
    times_ms = [1000 * tokens / tok_s for tokens, tok_s in points]
    fit = fit_prefill(lengths, [0.0] * len(points), times_ms, min_samples=2)
    if fit is None:
        return NOTHING
    ms = fit.model.predict_ms(new_tokens, cached_tokens)
    reach = 2 * cached_tokens + new_tokens
    if fit.quadratic:
        error = POINTS_ERROR if reach <= max(lengths) else BEYOND_POINTS_ERROR
        return Guess(ms, ms * (1 - error), ms * (1 + error), "fitted to the measured points")
    doublings = math.log2(reach / max(lengths)) if reach > max(lengths) else math.log2(reach / min(lengths))
    factor = DOUBLING ** max(0.0, doublings), DOUBLING ** min(0.0, doublings)
    basis = "the measured rate kept; a point at four times the length would tell how it falls"
    return Guess(ms, ms * factor[1] * (1 - POINTS_ERROR), ms * factor[0] * (1 + POINTS_ERROR), basis)


def prefill_guess_from_tflops(flops: float, tensor_tflops: float) -> Guess:
    """Bounds of prefill time in ms from operations and data-sheet throughput.

    Only bounds: the share that is reached differs six-fold between devices (`PREFILL_MFU`).

    Args:
        flops: From `prefill.prefill_flops`.
        tensor_tflops: Dense FP16 tensor throughput in 1e12 operations per second.

    Raises:
        ValueError: When the throughput is not positive.
    """
    if tensor_tflops <= 0:
        raise ValueError("tensor_tflops must be positive")
    least, most = PREFILL_MFU
    at_peak_ms = flops / (tensor_tflops * 1e9)
    return Guess(
        None, at_peak_ms / most, at_peak_ms / least, "TFLOPS alone, of which prefill reaches 17 to 100 %"
    )
