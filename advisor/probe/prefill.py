"""What prefill costs, by the times to the first token: start + a U + b U^2 for U evaluated tokens.

The start is what every request costs, a is what the weights cost a token, and b is attention; none is below
0. To tell b takes prompts of three lengths. A line has no b and takes attention for a cheaper start: with two
lengths the start may be higher than its interval.

Checked on 1,000 made probes each, with 2 % of noise and a start of 15 ms. An RTX 4090 (131.8 us a token and
0.01414 us a squared token, fitted to published rates of llama.cpp): the interval of the start holds 15 ms
in 93 % of probes of 128 to 2,048 tokens and in 94 % of 512 to 8,192; a line's does in 41 % and in 5 %.
Attention is seen in 98 % and in 100 %. An engine of 2,000 tok/s without any: 97 %; attention is seen in 2
%, and the interval of the rate holds in 93 %. Where attention adds a few percent and is mostly not seen (M2
Ultra, 128 to 2,048 tokens) the start holds in 95 %, and the rate, as the mean over these lengths, in 87 %.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from advisor.probe.result import Interval, Prefill
from rules.lines import estimates, fit_line, robust_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.probe.client import Sample
    from rules.lines import Estimate
    from rules.savings import Array

CURVE_LENGTHS = 3
_CURVE_SAMPLES = 5
"""Two more than a curve has coefficients."""
_LITTLE = 0.01
"""Of the time of a token: what attention adds to the longest prompt's is told from this on."""


def fit(samples: Sequence[Sample]) -> Prefill | None:
    """The curve through the times to the first token; ``None`` without counts, or without two lengths.

    Args:
        samples: ran alone, with prompts that no cache knew.
    """
    counted = [one for one in samples if one.prefill_tokens]
    tokens = np.array([one.prefill_tokens for one in counted], dtype=np.float64)
    ttft_ms = np.array([one.ttft_ms for one in counted], dtype=np.float64)
    line = fit_line(tokens, ttft_ms) if counted else None
    if line is None:
        return None
    start, token = line
    is_curved = False
    if len({one.planned.tokens for one in counted}) >= CURVE_LENGTHS and len(counted) >= _CURVE_SAMPLES:
        start, weights, attention = _curve(tokens, ttft_ms)
        is_curved = attention.low * tokens.max() > _LITTLE * weights.value
    if not is_curved and token.value <= 0:
        return None
    return Prefill(
        tok_s=None if is_curved else _rate(token),
        fixed_ms=Interval(value=start.value, low=start.low, high=start.high),
        requests=len(counted),
    )


def _curve(tokens: Array, ttft_ms: Array) -> list[Estimate]:
    design, ones = np.column_stack([np.ones_like(tokens), tokens, tokens**2]), np.ones_like(tokens)
    design /= ttft_ms[:, None]
    value, _ = robust_line(design, ones)
    return estimates(design, ones, value)


def _rate(token_ms: Estimate) -> Interval:
    high = 1000 / token_ms.low if token_ms.low > 0 else None
    return Interval(value=1000 / token_ms.value, low=1000 / token_ms.high, high=high)
