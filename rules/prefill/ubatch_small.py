"""Prompts are read in batches too small to keep the GPU busy.

What it looks at:
    The physical batch (`-ub`; `num_batch` of Ollama; the tokens of a step in other engines): 256 tokens or
    fewer, while a typical prompt has more than two batches. The GPU must have a gigabyte of memory free, as
    far as the log tells.

Why it matters:
    Each batch reads all weights once and starts every kernel once. From some 512 tokens on a GPU is busy
    with arithmetic instead; below, part of the time is wasted.

When not to worry:
    On a CPU small batches cost little. In a server for many users a small batch is chosen on purpose, so
    that running answers don't stop while a prompt is read. And the gain is often small: on an RTX 4090
    (8B, 4 bits) 512 tokens at a time were read 1.08 times faster than 256, 1.39 times faster than 128.

What to change:
    512 tokens, which is llama.cpp's default; 2,048 for a mixture of experts, where each expert sees few of a
    batch's tokens (26B with 4B active on an RTX 3090: 2.07 times faster than 256). The saving takes the
    factors of these cards; slower GPUs are busy with smaller batches already, so it is an upper bound.

Sources:
    llama.cpp#7676 (RTX 4090), llama.cpp#22298 (mixture, RTX 3090); github.com/lhl/strix-halo-testing (best
    at 1,024 to 2,048 on Strix Halo); docs.vllm.ai/en/stable/configuration/optimization.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.savings import prefill_scaled
from rules.words import count, duration

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="ubatch-small",
    phase=Phase.PREFILL,
    title="Prompts are read in small batches",
    needs=("ubatch", "prefill_tokens", "prefill_ms"),
    remedies=("bigger-ubatch",),
    verify="Read the same long prompt twice, with the new batch and with the old one, and compare prefill.",
    sources=(
        "llama.cpp#7676",
        "llama.cpp#22298",
        "github.com/lhl/strix-halo-testing",
        "docs.vllm.ai/en/stable/configuration/optimization",
    ),
    thresholds={
        "small_tokens": Threshold(256, "tokens of a batch up to which it counts as small"),
        "batches": Threshold(2, "batches that a typical prompt must fill"),
    },
    fault=False,
)

LOGICAL_TOKENS = 2_048
"""llama.cpp's default of the logical batch, which no physical batch may exceed."""

DENSE_SPEEDUP = {16: 5.35, 32: 3.02, 64: 1.91, 128: 1.39, 256: 1.08, 512: 1.0}
"""Prefill rate at the last of these batches over the rate at each: Llama 3 8B Q4_0 on an RTX 4090."""

MIXTURE_SPEEDUP = {16: 5.81, 32: 4.15, 64: 3.31, 128: 2.99, 256: 2.07, 512: 1.48, 1_024: 1.18, 2_048: 1.0}
"""The same for a mixture of experts: Gemma 4 26B A4B Q4_K_M on an RTX 3090."""


def batch_tokens(m: Measures) -> int | None:
    """Most prompt tokens that one pass through the weights takes; ``None`` where it is not logged."""
    s = m.setup
    logged = [tokens for tokens in (s.ubatch, s.batch) if tokens]
    return min(logged) if logged else s.chunk_tokens


def check(m: Measures) -> Answer:
    """Ask whether larger batches would read prompts faster."""
    t = m.thresholds(RULE)
    tokens, prompt = batch_tokens(m), median(m.valid_prefill.select("prefill_tokens"))
    if tokens is None:
        return CannotTell("the log does not say how many prompt tokens a batch has")
    if tokens > t["small_tokens"]:
        return NotApplicable(f"{count(tokens)} tokens a batch are enough")
    if m.hardware.on_cpu:
        return NotApplicable("a CPU is busy with small batches too")
    if prompt is None:
        return CannotTell("no evaluated prompt is long enough to fill two batches")
    if prompt <= t["batches"] * tokens:
        return NotApplicable("most prompts fit one or two batches")
    if m.room.filled is not None and m.room.fits_beside(m.room.kv_bytes) is False:
        return NotApplicable("the GPU has no memory left for larger batches")
    rows = m.generations.drop_nulls("prefill_ms")
    table, card = (MIXTURE_SPEEDUP, 3090) if m.decoding.mixture else (DENSE_SPEEDUP, 4090)
    speedup = float(np.interp(np.log2(tokens), np.log2(list(table)), list(table.values())))
    larger = max(table)
    change = prefill_scaled(1 / speedup)
    saving = m.saving(change, bound="at_most")
    if not m.worth(saving.ms, rows.height):
        return NotApplicable("too little time to matter")
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"A batch takes {count(tokens)} prompt tokens, so a typical prompt of {count(prompt)} needs "
        f"{count(np.ceil(prompt / tokens))} passes through the weights. On an RTX {card}, {count(larger)} at "
        f"a time were read {speedup:.2f} times faster; here that is at most {duration(saving.ms)} of "
        f"{duration(float(rows['prefill_ms'].sum()))}.",
        evidence=(
            m.stated(
                "ubatch" if m.setup.ubatch else "batch" if m.setup.batch else "chunk_tokens",
                "prompt tokens a batch",
                tokens,
                "tokens",
            ),
            m.evidence("evaluated, median", prompt, "tokens", rows=m.valid_prefill),
            m.evidence("prefill rate, median", m.prefill_tok_s, "tok/s"),
        ),
        requests=rows.height,
        saving=saving,
        change=change,
        fixes=(m.fix("bigger-ubatch", ubatch=larger, batch=LOGICAL_TOKENS),),
    )
