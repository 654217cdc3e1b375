"""A fast GPU behind a small host: each token waits for the CPU that launches it.

What it looks at:
    All layers on a GPU whose decode can be predicted, decode below its healthy band but not out of all
    reason, a host of at most four hardware threads, and reading the weights as the smaller part of a token's
    time.

Why it matters:
    For each token the CPU launches every layer's kernels and samples the next token. A slow one makes a fast
    GPU wait, most with small models: an RTX 4090 on a Raspberry Pi gave 83 tok/s against 92 on a PC for a
    14B model, and 189 against 280 for a mixture of experts with 20B.

When not to worry:
    Large models: reading their weights takes so long that the launches hide behind it.

What to change:
    Measure decode without the server. If that is slow too, a build with CUDA graphs and flash attention needs
    fewer launches; else a faster host. The saving is an upper bound: decode as predicted.

Sources:
    github.com/geerlingguy/ai-benchmarks; llama.cpp#6766 (CUDA graphs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import decode_limited
from rules.words import percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="host-limited-gpu",
    phase=Phase.DECODE,
    title="The GPU may wait for a slow host",
    needs=("threads_available", "weights_bytes", "layers", "decode_ms"),
    remedies=("measure-decode",),
    verify="While it generates, one core of the CPU is busy all the time and the GPU is not (top, nvidia-smi "
    "dmon); a larger model comes nearer to its predicted speed.",
    sources=("github.com/geerlingguy/ai-benchmarks", "llama.cpp#6766"),
    thresholds={
        "health_below": Threshold(0.75, "measured over predicted speed below which decode is not healthy"),
        "health_least": Threshold(
            0.35, "measured over predicted speed below which a host explains too little: 0.68 was measured"
        ),
        "host_threads": Threshold(4, "hardware threads of a small host, such as a single-board computer"),
        "read_share": Threshold(0.5, "share of a token's time that reading the weights takes, at most, 0-1"),
    },
)


def check(m: Measures) -> Answer:
    """Ask whether launches take the time."""
    host, t = m.setup.threads_available, m.thresholds(RULE)
    health, predicted, measured = m.decoding.health, m.decoding.predicted_ms(), m.decoding.ms_per_token
    if m.decoding.split or m.hardware.on_cpu:
        return NotApplicable("weights on the CPU come first")
    if health is None or predicted is None or measured is None or not m.decoding.shallow:
        return CannotTell("what this GPU should give is not known")
    if not t["health_least"] <= health < t["health_below"]:
        return NotApplicable(f"decode runs at {percent(health)} of what this GPU should give")
    if host is None:
        return CannotTell("the host's hardware threads are not logged")
    if host > t["host_threads"]:
        return NotApplicable(f"the host has {host} hardware threads")
    if len(m.hardware.gpus) > 1:
        return NotApplicable("several GPUs come first")
    reached = m.decoding.reached
    if reached is None or reached > t["read_share"]:
        return NotApplicable("reading the weights takes most of the time")
    change = decode_limited(m.ledger, predicted / measured)
    saving = m.saving(change, bound="at_most")
    rows = m.generations.drop_nulls("decode_ms")
    if not m.worth(saving.ms, rows.height):
        return NotApplicable("too little time to matter")
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"A token takes {measured:,.1f} ms where this GPU should need {predicted:,.1f}; reading the "
        f"weights is {percent(reached)} of it. The host has {host} hardware threads: launching each layer's "
        "kernels may take the rest.",
        evidence=(
            m.evidence("time per token alone, median", round(measured, 2), "ms", rows=m.decoding.alone),
            m.evidence("predicted for this GPU", round(predicted, 2), "ms"),
            m.evidence("of its bandwidth in use", round(reached, 4), "share"),
            m.stated("threads_available", "hardware threads of the host"),
        ),
        requests=rows.height,
        change=change,
        saving=saving,
        fixes=(m.fix("measure-decode"),),
        wont_help=("A faster GPU behind the same host.",),
    )
