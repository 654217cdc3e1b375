"""Decode on the CPU reads well below the bandwidth that its memory should have.

What it looks at:
    Weights on the CPU of one socket, threads enough, and decode at 20 to 50 % of the bandwidth that was given
    for this machine. Below that, missing memory channels explain too little.

Why it matters:
    Each token reads all weights. One module where two channels could be filled halves the bandwidth, and
    modules that run below their rated speed take another part.

When not to worry:
    Where the given bandwidth is not this machine's. I-quants and trellis quants are limited by unpacking and
    not by memory, so for them the rule says nothing. A virtual machine gets a share of its host.

What to change:
    Measure the memory (mbw, likwid-bench, Intel MLC). If it is slow, fill all channels and switch on the
    rated speed. The saving is an upper bound: twice the bandwidth,
    within the most that CPUs were seen to reach.

Sources:
    llama.cpp#34 and llama.cpp#12966 (CPUs that decode at two thirds and more of their memory's bandwidth).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.decode import threads_too_few, threads_too_many
from rules.physics.quant import quant_name
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import decode_limited
from rules.words import percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="memory-channels",
    phase=Phase.DECODE,
    title="Main memory delivers less than it should",
    needs=("weights_bytes", "threads", "decode_ms"),
    remedies=("faster-memory",),
    verify="Measure the memory while nothing else runs (mbw -t0 1024, likwid-bench, Intel MLC): if it "
    "reaches 80 % of the bandwidth on paper, the memory is not it.",
    sources=("llama.cpp#34", "llama.cpp#12966"),
    thresholds={
        "reached_below": Threshold(
            0.5, "share of the memory's bandwidth below which decode is slow, 0-1: CPUs reach 0.68 to 0.78"
        ),
        "reached_least": Threshold(
            0.2, "share of the bandwidth, 0-1, below which a missing channel explains too little; a guess"
        ),
        "most_reach": Threshold(
            0.8, "the most of its memory's bandwidth that a CPU was seen to decode at, 0-1 (0.74 to 0.78)"
        ),
        "enough_threads": Threshold(4, "threads that use up a desktop's memory bandwidth (llama.cpp#12966)"),
    },
)

ONE_OF_TWO = 0.5
"""Of the time, what is left with a second channel filled: it doubles the bandwidth."""

_BY_UNPACKING = ("IQ", "TQ")


def check(m: Measures) -> Answer:
    """Ask whether the memory is slower than on paper."""
    if m.cpu.elsewhere is not None:
        return m.cpu.elsewhere
    reached, threads, t = m.cpu.reached, m.setup.threads, m.thresholds(RULE)
    if reached is None:
        return CannotTell(
            "the memory's bandwidth, or the bytes that a token reads, are not known (--bandwidth)"
        )
    if m.machine.measured_on:
        return NotApplicable("the memory's bandwidth was measured: what it lacks on paper is in it")
    if m.cpu.paging:
        return NotApplicable("the weights do not fit in main memory, and that comes first")
    if not t["reached_least"] <= reached < t["reached_below"]:
        return NotApplicable(f"decode reads at {percent(reached)} of the memory's bandwidth")
    if (m.machine.sockets or 1) > 1:
        return NotApplicable("several sockets come first")
    if (quant_name(m.setup.quantization or "") or "").startswith(_BY_UNPACKING):
        return NotApplicable("this quantization is limited by unpacking")
    if threads is None:
        return CannotTell("the number of threads is not logged")
    if threads < min(t["enough_threads"], m.cpu.most_cores or t["enough_threads"]):
        return CannotTell("so few threads can't use up the memory")
    for first in (threads_too_few, threads_too_many):
        if m.finds(first):
            return NotApplicable(f"{first.RULE.id} explains it")
    change = decode_limited(m.ledger, max(ONE_OF_TWO, reached / t["most_reach"]))
    rows = m.generations.drop_nulls("decode_ms")
    saving = m.saving(change, bound="at_most")
    if not m.worth(saving.ms, rows.height):
        return NotApplicable("too little time to matter")
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"{threads} threads read {m.decoding.read_gb_s or 0:,.0f} GB/s of the "
        f"{m.bandwidth_gb_s or 0:,.0f} GB/s that the memory has on paper, {percent(reached)}; other CPUs "
        "reach 70 to 80 %. A channel without a module, or modules below their rated speed, look like this.",
        evidence=(
            *m.cpu.evidence(),
            m.stated("weights_bytes", "weights, read once for each token", unit="bytes"),
        ),
        requests=rows.height,
        change=change,
        saving=saving,
        fixes=(m.fix("faster-memory"),),
    )
