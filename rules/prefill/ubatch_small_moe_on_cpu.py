"""Experts are kept in main memory and sent to the GPU anew for every small batch of the prompt.

What it looks at:
    A mixture of experts of which more than 30 % of the weights are on the CPU, beside a GPU with memory of
    its own; a physical batch (`-ub`) of 512 tokens or fewer; prompts of 1,000 tokens or more. And whether
    reading took as long as sending those weights takes at all.

Why it matters:
    From batches of 32 tokens up llama.cpp computes the experts on the GPU and copies their weights over PCIe
    for each batch. A batch eight times larger copies them an eighth as often. Measured with GLM-4.5-Air and
    15,000 tokens: 175 tok/s with 512 tokens a batch, 535 tok/s with 2,048.

When not to worry:
    Where the GPU shares the main memory (Apple, Strix Halo) nothing is copied. Short prompts fill one batch
    anyway.

What to change:
    `-b 4096 -ub 4096`, or 2,048 if the compute buffers don't fit; moving one more layer's experts to the CPU
    makes room. The saving counts the copies that fall away, at the speed of PCIe 4.0 x16 (24 GB/s). ik_llama
    computes experts on the CPU until `-ub` exceeds 32 * experts / used experts, so there it is a bound.

Sources:
    textgen#7309 (the measurement); llama.cpp#25859 (prefill waits for copies), llama.cpp#15346 (only used
    experts are copied, most of them at 512 tokens), llama.cpp#6083 (large batches on the GPU);
    ik_llama.cpp#2433.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.prefill.ubatch_small import batch_tokens
from rules.prefilling import shorter_prefill
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.words import count, duration, percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="ubatch-small-moe-on-cpu",
    phase=Phase.PREFILL,
    title="Experts cross PCIe again for every small batch",
    needs=("ubatch", "cpu_weights_bytes", "prefill_tokens", "prefill_ms"),
    remedies=("bigger-ubatch",),
    verify="Read one long prompt with -ub 512 and with the new value: prefill should fall with the batches.",
    sources=(
        "textgen#7309",
        "llama.cpp#25859",
        "llama.cpp#15346",
        "llama.cpp#6083",
        "ik_llama.cpp#2433",
    ),
    thresholds={
        "small_tokens": Threshold(512, "tokens of a batch up to which copies dominate"),
        "long_tokens": Threshold(1_000, "evaluated tokens of a typical prompt"),
        "cpu_share": Threshold(0.3, "share of the weights on the CPU"),
        "pcie_gb_s": Threshold(24.0, "GB/s to the GPU: 12 with PCIe 3.0 x16, 24 with 4.0, 50 with 5.0"),
    },
)

LARGE_TOKENS = 4_096

FASTEST_GB_S = 50.0
"""PCIe 5.0 x16. Batches that took less than a copy takes even there were not computed on the GPU's side."""

USED_AT_512 = 0.6
"""Share of the experts that 512 tokens use and that are copied: 56 to 74 % of 128, reading code."""


def check(m: Measures) -> Answer:
    """Ask whether copies of experts are what reading prompts waits for."""
    t, d = m.thresholds(RULE), m.decoding
    if not d.mixture:
        return NotApplicable("the model is no mixture of experts")
    tokens, on_cpu, weights = batch_tokens(m), d.cpu_bytes, m.setup.weights_bytes
    if tokens is None or on_cpu is None or weights is None:
        return CannotTell("batch size, or where the weights are, is not logged")
    if not m.hardware.gpus or m.hardware.on_cpu or m.hardware.shared_memory:
        return NotApplicable("no weights cross a bus")
    if on_cpu < t["cpu_share"] * weights:
        return NotApplicable("few of the weights are on the CPU")
    if d.split:
        return NotApplicable("whole layers are on the CPU; partial-offload says it")
    if tokens > t["small_tokens"]:
        return NotApplicable(f"batches of {count(tokens)} tokens share each copy well")
    rows = m.valid_prefill
    prompt = median(rows.select("prefill_tokens"))
    if prompt is None or prompt < t["long_tokens"]:
        return NotApplicable("most prompts are short")
    batches = (pl.col("prefill_tokens") / tokens).ceil()
    batch_ms = median(rows.select(pl.col("prefill_ms") / batches)) or 0.0
    if batch_ms < USED_AT_512 * on_cpu / (FASTEST_GB_S * 1e6):
        return NotApplicable("a batch is read faster than the experts could be copied")

    copy_ms = on_cpu / (t["pcie_gb_s"] * 1e6)
    fewer = batches - (pl.col("prefill_tokens") / LARGE_TOKENS).ceil()
    saved = (copy_ms * fewer / pl.col("prefill_ms")).clip(upper_bound=fewer / batches)
    change = shorter_prefill(m, m.generations.drop_nulls("prefill_ms"), saved)
    saving = m.saving(change, bound="at_most" if m.engine == "ik-llama" else "estimate")
    if not m.worth(saving.ms, rows.height):
        return NotApplicable("too little time to matter")
    return RULE.finding(
        confidence=Confidence.LIKELY,
        why=f"{percent(on_cpu / weights)} of the weights are on the CPU. A prompt of {count(prompt)} tokens "
        f"sends them to the GPU {count(np.ceil(prompt / tokens))} times, once for every {count(tokens)} "
        f"tokens. A batch takes {duration(batch_ms)}; copying alone takes about {duration(copy_ms)} of it at "
        f"{t['pcie_gb_s']:.0f} GB/s.",
        evidence=(
            m.evidence("weights on the CPU", round(on_cpu), "bytes"),
            m.stated("weights_bytes", "all weights", unit="bytes"),
            m.stated("ubatch" if m.setup.ubatch else "batch", "prompt tokens a batch", tokens, "tokens"),
            m.evidence("time a batch, median", round(batch_ms, 1), "ms", rows=rows),
        ),
        requests=rows.height,
        saving=saving,
        change=change,
        fixes=(m.fix("bigger-ubatch", ubatch=LARGE_TOKENS, batch=LARGE_TOKENS),),
        wont_help=("More threads: the GPU computes these batches, and waits for the copies.",),
    )
