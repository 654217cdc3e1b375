"""The weights do not fit in main memory, so parts of them come from the disk for every token.

What it looks at:
    The weights that are not on a GPU, with their KV cache, beside main memory (`--memory`, or the size that
    llama.cpp lists for the CPU), and the time per token: what does not fit must be readable from a disk in
    that time. Where the size of the memory is not known, a time per token so long that even slow memory
    would be read faster.

Why it matters:
    A mapped file that does not fit still loads. But every token reads all of it in the same order, so what
    was read last is dropped first and even the part that would fit is read again. A disk is 20 to 100
    times slower than memory: 600 ms a token became 3 minutes on a machine whose memory was nearly enough.

When not to worry:
    The first answer after a start, while the file is read for the first time. Mixtures of experts read only
    part of their weights for a token, so a model somewhat larger than memory can still be usable.

What to change:
    A file that fits, with room for the system: a smaller quantization or a smaller model. Where it should
    fit, close what else uses memory and pin the weights. The saving is an upper bound: the smaller file read
    at the memory's bandwidth, or at no time at all where that is not known.

Sources:
    llama.cpp#711 (30B in 16 GB: 20 s a token), llama.cpp#702 (7B in 8 GB), ollama#3054 (mmap), llama.cpp#767.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.cpu import FASTEST_DISK_GB_S
from rules.decoding import TELLING_BYTES
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import decode_limited
from rules.words import duration, percent, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.rule import Answer, Evidence, Finding

RULE = Rule(
    id="paging-from-disk",
    phase=Phase.DECODE,
    title="The weights do not fit in main memory",
    needs=("weights_bytes", "decode_ms"),
    remedies=("weights-that-fit", "smaller-model", "memory-that-fits"),
    verify="While it generates, the disk should be idle (iostat, iotop or the task manager); with a file "
    "that fits, ms per token should fall many times.",
    sources=("llama.cpp#711", "llama.cpp#702", "ollama#3054", "llama.cpp#767"),
    thresholds={
        "slow_gb_s": Threshold(
            1.5,
            "GB/s that decode reads, below which a disk may be at work where the memory's size is not known: "
            "a Raspberry Pi 4 decodes at more than 3",
        ),
        "usable_share": Threshold(
            0.85, "of main memory that weights may take beside the system and other programs, 0-1; a guess"
        ),
    },
)


def check(m: Measures) -> Answer:
    """Ask whether a disk stands behind each token."""
    held, memory = m.cpu.held_bytes, m.cpu.memory_bytes
    if held is None:
        return CannotTell("the size of the weights, or where they are, is not logged")
    rows = m.generations.drop_nulls("decode_ms")
    if not m.worth(float(rows["decode_ms"].sum()), rows.height):
        return NotApplicable("generating takes too little time to matter")
    if m.decoding.ms_per_token is None:
        return CannotTell("no answer is long enough to give a time per token of a request that ran alone")
    if memory is None:
        return _unknown_memory(m, held)
    if m.cpu.missing_bytes:
        return _too_large(m, held, memory)
    if held > m.thresholds(RULE)["usable_share"] * memory and _crawls(m, held):
        return _nearly(m, held)
    return NotApplicable(f"{size(held)} of weights and KV cache fit in {size(memory)} of main memory")


def _crawls(m: Measures, held: float) -> bool:
    """Reads slower than any memory, of a model that reads all its weights."""
    whole = held >= TELLING_BYTES and not m.decoding.mixture
    return whole and (m.cpu.held_gb_s or 0.0) <= m.thresholds(RULE)["slow_gb_s"]


def _too_large(m: Measures, held: float, memory: int) -> Answer:
    ms = m.decoding.ms_per_token or 0.0
    told = (
        f"Weights and KV cache need {size(held)} of main memory, and there are {size(memory)}. What does not "
        f"fit is read from the disk again for each token: {duration(ms)} a token."
    )
    if m.decoding.mixture:
        return _mixture(m, told)
    if not m.cpu.paging:
        return NotApplicable("tokens come faster than a disk could deliver them")
    usable = _usable(m, memory)
    then_ms = usable / (m.bandwidth_gb_s * 1e6) if m.cpu.reached is not None and m.bandwidth_gb_s else 0.0
    change = decode_limited(m.ledger, then_ms / ms)
    return RULE.finding(
        confidence=Confidence.LIKELY,
        why=told,
        evidence=tuple(_evidence(m)),
        requests=m.decoding.alone.height,
        fixes=tuple(_smaller(m, usable)),
        change=change,
        saving=m.saving(change, bound="at_most"),
        wont_help=_VAIN,
    )


def _mixture(m: Measures, told: str) -> Answer:
    """Of its experts a token needs a few; those may be the ones that memory holds."""
    experts, used, ms = m.setup.experts, m.setup.experts_used, m.decoding.ms_per_token
    if not experts or not used or not ms:
        return CannotTell("how much of its weights a token of this mixture of experts reads is not logged")
    if (m.cpu.held_bytes or 0.0) * used / experts > FASTEST_DISK_GB_S * ms * 1e6:
        return NotApplicable("tokens come faster than a disk could deliver their experts")
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"{told} A token needs {used} of {experts} experts, so the disk may have much or little of it.",
        evidence=tuple(_evidence(m)),
        requests=m.decoding.alone.height,
        fixes=tuple(_smaller(m, _usable(m, m.cpu.memory_bytes or 0))),
        verify=_WATCH,
        wont_help=_VAIN,
    )


def _usable(m: Measures, memory: int) -> float:
    """What weights may take of main memory beside the system and the KV cache."""
    return max(memory * m.thresholds(RULE)["usable_share"] - (m.setup.kv_bytes or 0), 0.0)


def _smaller(m: Measures, usable: float) -> Iterator[Fix]:
    if usable > 0:
        yield m.fix("weights-that-fit", gib=f"{usable / 2**30:,.1f}")
    yield m.fix("smaller-model")


def _nearly(m: Measures, held: float) -> Finding:
    memory = m.cpu.memory_bytes or 1
    return _maybe(
        m,
        f"Weights and KV cache take {percent(held / memory)} of main memory, and a token takes "
        f"{duration(m.decoding.ms_per_token)}: memory would be read faster. The system may have dropped part "
        "of the weights, which then come from the disk.",
    )


def _unknown_memory(m: Measures, held: float) -> Answer:
    if not _crawls(m, held):
        return CannotTell("the size of main memory is not logged (--memory gives it)")
    return _maybe(
        m,
        f"A token takes {duration(m.decoding.ms_per_token)}, in which {size(held)} are read: "
        f"{m.cpu.held_gb_s or 0:,.2g} GB/s, the speed of a disk and not of memory. The weights may not fit.",
    )


def _maybe(m: Measures, why: str) -> Finding:
    return RULE.finding(
        title="The weights may come from the disk",
        confidence=Confidence.POSSIBLE,
        why=why,
        evidence=tuple(_evidence(m)),
        requests=m.decoding.alone.height,
        fixes=(m.fix("memory-that-fits"), m.fix("smaller-model")),
        wont_help=_VAIN,
        verify=_WATCH,
    )


_WATCH = (
    "Watch the disk while it generates (iostat, iotop or the task manager): if it is idle, this is not it."
)

_VAIN = (
    "More threads, or faster memory: they wait for the disk.",
    "Loading without mmap where the file does not fit: the system then swaps or ends the process.",
)


def _evidence(m: Measures) -> Iterator[Evidence]:
    yield m.evidence(
        "time per token alone, median",
        round(m.decoding.ms_per_token or 0.0, 2),
        "ms",
        rows=m.decoding.alone.sort("decode_ms", descending=True),
    )
    yield m.stated("weights_bytes", "weights", unit="bytes")
    if m.setup.kv_bytes is not None:
        yield m.stated("kv_bytes", "KV cache", unit="bytes")
    if m.cpu.memory_bytes is not None:
        yield m.evidence("main memory", m.cpu.memory_bytes, "bytes")
    if m.cpu.missing_bytes:
        yield m.evidence("of it does not fit", round(m.cpu.missing_bytes), "bytes")
    if m.cpu.held_gb_s is not None:
        yield m.evidence("read for each token, if all is", round(m.cpu.held_gb_s, 3), "GB/s")
