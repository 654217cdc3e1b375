"""Prefill as this log shows it: whether its rate is one that this kind of machine gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.measures import median
from rules.physics.prefill import ANY_GPU_RATE_RATIO, least_rate_ratio

if TYPE_CHECKING:
    from rules.measures import Measures

FAR_BELOW = 0.5
"""Of the lowest ratio that was measured: clocks, drivers and longer prompts explain less than that."""

COMPARABLE_TOKENS = 8_192
"""In longer prompts attention slows prefill more than decode."""


def plausible_rate(m: Measures) -> bool | None:
    """Whether prompts are read about as fast as this machine can, judged beside its decode.

    False where a GPU reads prompts far slower than its decode rate promises: then something is wrong with
    prefill (it runs on the CPU, or attention fell back to slow kernels), and prompts are not to blame.
    ``None`` where the log can't tell.
    """
    prefill, decode = m.prefill_tok_s, m.decode_tok_s
    if prefill is None or decode is None:
        return None
    if m.hardware.on_cpu:
        return True
    ratio = prefill / decode
    gpu = m.hardware.gpu
    if not m.hardware.gpus and gpu is None:
        return True if ratio >= FAR_BELOW * ANY_GPU_RATE_RATIO else None
    least = least_rate_ratio(gpu.device_class if gpu else None, mixture=m.decoding.mixture)
    if ratio >= FAR_BELOW * least:
        return True
    evaluated = median(m.valid_prefill.select("prefill_tokens")) or 0.0
    return None if m.decoding.speculative or evaluated > COMPARABLE_TOKENS else False
