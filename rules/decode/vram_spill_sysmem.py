"""The GPU's memory is overfull, and the driver keeps the rest in system memory without a word.

What it looks at:
    Weights on the GPU, KV cache and compute buffers, added up as far as the log states them, beside the
    GPU's memory. Above it, or close to it, with a speed to match: tokens that take three times what this
    GPU needs or more, or prompts that are read at less than half the lowest rate, for its decode, that was
    measured on such a GPU. Benchmark rows count as well.

Why it matters:
    NVIDIA's driver on Windows (and under WSL) doesn't fail when the GPU's memory is full: it moves the rest
    to system memory, and each access crosses PCIe. A 12.55 GiB model on an 8 GB laptop GPU generates 0.8
    tokens a second; a 6.67 GiB one generates at full speed, but its compute buffers have no room, and it
    reads prompts thirty times slower.

When not to worry:
    Native Linux, where an allocation that doesn't fit fails: there only sizes beyond the GPU's memory
    count. GPUs that share the machine's memory, and logs that name layers or experts on the CPU, are left
    out; so are KV cache types without attention kernels, which slow down prefill in the same way.

What to change:
    A file that fits beside the KV cache and leaves a GiB free; else fewer layers on the GPU, which is much
    faster than the driver's way. The driver can be told to fail instead.

Sources:
    gist.github.com/cf95867c2d79458bd894c07b9e7d5cbd (the three sizes); llama.cpp#4498; ollama#7584;
    nvidia.custhelp.com/app/answers/detail/a_id/5490 (the driver's policy).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from rules.prefill import kv_type_fallback
from rules.prefilling import COMPARABLE_TOKENS, FAR_BELOW, least_ratio
from rules.rule import CannotTell, Confidence, Finding, NotApplicable, Phase, Rule, Threshold
from rules.samples import IS_VALID_DECODE, IS_VALID_PREFILL, median
from rules.savings import decode_limited, prefill_scaled, together
from rules.words import duration, percent, rate, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.rule import Answer, Evidence
    from rules.savings import Change

RULE = Rule(
    id="vram-spill-sysmem",
    explains=("kv-oom-risk",),
    phase=Phase.DECODE,
    title="The GPU's memory is overfull and spills into system memory",
    needs=("weights_bytes", "layers_offloaded"),
    remedies=(
        "weights-that-fit",
        "model-that-fits",
        "few-bits",
        "smaller-quant",
        "smaller-model",
        "free-vram",
        "fewer-slots",
        "smaller-context",
        "quantise-kv",
    ),
    verify="Watch shared GPU memory while it runs (Task Manager, Performance, GPU): it should stay near 0.",
    sources=("gist.github.com/cf95867c2d79458bd894c07b9e7d5cbd", "llama.cpp#4498", "ollama#7584"),
    thresholds={
        "full_share": Threshold(0.93, "of the GPU's memory, from which slow decode is put down to it"),
        "nearly_full_share": Threshold(
            0.8, "the same for slow prefill: compute buffers come last, and a display takes up to 1 GiB of 8"
        ),
        "health": Threshold(0.35, "decode speed over predicted speed below which it counts as slow"),
        "reached": Threshold(
            0.15,
            "of the paper bandwidth, where speed can't be predicted; small models on fast GPUs reach 0.27",
        ),
    },
)

_COOLING = "Cooling or a higher power limit: the GPU waits for PCIe."
_MORE_LAYERS = "More layers on the GPU: it holds more than it has room for already."


@dataclass(frozen=True, slots=True)
class _Speed:
    """What was measured: ms per token, prefill and decode rate, of valid samples."""

    token_ms: float | None
    prefill_tok_s: float | None
    prompt_tokens: float | None
    decoded: pl.DataFrame
    read: pl.DataFrame

    @property
    def ratio(self) -> float | None:
        """Prefill rate over decode rate."""
        return (
            None
            if self.prefill_tok_s is None or self.token_ms is None
            else self.prefill_tok_s * self.token_ms / 1000
        )


def check(m: Measures) -> Answer:
    """Ask whether the GPU reads memory that is not its own."""
    if reason := _not_here(m):
        return NotApplicable(reason)
    t, room = m.thresholds(RULE), m.room
    if room.vram_bytes is None:
        return CannotTell("the GPU's memory is not known (--vram gives it)")
    if m.decoding.mixture and m.setup.gpu_weights_bytes is None:
        return CannotTell("the log does not say where the experts are")
    placed = room.needed_bytes is not None
    needed = room.needed_bytes or ((room.weights_bytes or 0) + room.kv_bytes + (m.setup.compute_bytes or 0))
    if room.weights_bytes is None or not needed:
        return CannotTell("the model's size is not logged (--gguf FILE gives it)")
    filled = needed / room.vram_bytes
    if filled < t["nearly_full_share"]:
        return NotApplicable(f"{percent(filled)} of the GPU's memory is full")
    if filled <= 1 and m.setup.os not in (None, "windows"):
        return NotApplicable("on this system an allocation that does not fit fails")
    if m.finds(kv_type_fallback):
        return NotApplicable("the KV cache types slow prefill down, and that comes first")
    speed = _measured(m)
    slow_decode = filled >= t["full_share"] and _slow_decode(m, speed, t)
    if not slow_decode and not _slow_prefill(m, speed):
        return NotApplicable("it is as fast as a GPU whose memory suffices")
    proven = placed and (filled > 1 or m.setup.os == "windows")
    return _finding(m, needed, speed, slow_decode=slow_decode, proven=proven)


def _not_here(m: Measures) -> str | None:
    if not m.hardware.gpus and m.hardware.gpu is None:
        return "no GPU is named"
    if m.hardware.on_cpu:
        return "all weights are on the CPU"
    if not _nvidia(m):
        return "only NVIDIA's driver is known to do this"
    if m.hardware.shared_memory:
        return "the GPU has no memory of its own"
    if m.decoding.split:
        return "layers are on the CPU, and partial-offload speaks of them"
    return None


def _nvidia(m: Measures) -> bool:
    gpu = m.hardware.gpu
    return any(d.backend == "CUDA" for d in m.hardware.gpus) or (gpu is not None and gpu.vendor == "NVIDIA")


def _measured(m: Measures) -> _Speed:
    """Speeds of requests, else of benchmark rows."""
    rows = m.generations if m.generations.height else m.requests.filter(pl.col("kind") == "benchmark")
    decoded = rows.filter(IS_VALID_DECODE & (pl.col("decode_steps") > 0))
    read = rows.filter(IS_VALID_PREFILL)
    if m.generations.height:
        decoded = m.decoding.alone
    return _Speed(
        token_ms=None
        if m.decoding.speculative
        else median(decoded.select(pl.col("decode_ms") / pl.col("decode_steps"))),
        prefill_tok_s=median(read.select(1000 * pl.col("prefill_tokens") / pl.col("prefill_ms"))),
        prompt_tokens=median(read.select("prefill_tokens")),
        decoded=decoded,
        read=read,
    )


def _bandwidth_gb_s(m: Measures) -> float | None:
    """The GPU's paper bandwidth, the lowest of parts that share its name."""
    if m.bandwidth_gb_s is not None:
        return m.bandwidth_gb_s
    return m.hardware.gpu.bandwidth_bounds_gb_s[0] if m.hardware.gpu else None


def _slow_decode(m: Measures, speed: _Speed, t: Mapping[str, float]) -> bool:
    """Whether a token takes far longer than reading the weights from the GPU's own memory."""
    bandwidth, predicted = _bandwidth_gb_s(m), m.decoding.predicted_ms()
    if speed.token_ms is None or m.decoding.mixture:
        return False
    if predicted is not None:
        return predicted / speed.token_ms < t["health"]
    if bandwidth is None:
        return False
    return (m.room.weights_bytes or 0) / (speed.token_ms * 1e6) < t["reached"] * bandwidth


def _slow_prefill(m: Measures, speed: _Speed) -> bool:
    """Whether prompts are read far slower than decode promises."""
    if speed.ratio is None or (speed.prompt_tokens or 0) > COMPARABLE_TOKENS:
        return False
    return speed.ratio < FAR_BELOW * least_ratio(m)


def _finding(
    m: Measures, needed: float, speed: _Speed, *, slow_decode: bool, proven: bool
) -> Finding | NotApplicable:
    served = m.generations.height > 0
    change = _change(m, speed, slow_decode=slow_decode)
    saving = m.saving(change, bound="at_most" if slow_decode else "estimate") if served and change else None
    if saving is not None and not m.worth(saving.ms, m.generations.height):
        return NotApplicable("too little time to matter")
    return RULE.finding(
        confidence=Confidence.LIKELY if proven else Confidence.POSSIBLE,
        title=RULE.title if slow_decode else "The GPU's memory is so full that prompts are read over PCIe",
        why=_why(m, needed, speed, slow_decode=slow_decode),
        evidence=tuple(_evidence(m, needed, speed)),
        requests=m.generations.height,
        saving=saving,
        change=None if saving is None else change,
        fixes=tuple(_fixes(m)),
        wont_help=(_COOLING, _MORE_LAYERS),
    )


def _change(m: Measures, speed: _Speed, *, slow_decode: bool) -> Change | None:
    """What a model that fits would do: decode at this GPU's bandwidth, prefill at the lowest usual ratio."""
    token_ms, then_ms = speed.token_ms, _fitting_ms(m) if slow_decode else speed.token_ms
    if token_ms is None or then_ms is None:
        return None
    prefill_tok_s = 1000 / then_ms * least_ratio(m)
    prefill = prefill_scaled((speed.prefill_tok_s or prefill_tok_s) / prefill_tok_s)
    return together((decode_limited(m.ledger, then_ms / token_ms), prefill))


def _fitting_ms(m: Measures) -> float | None:
    """Time per token of the largest file that fits; by the bandwidth alone where it can't be predicted."""
    room, bandwidth = m.room, _bandwidth_gb_s(m)
    fits = max((room.usable_bytes or 0) - room.used_kv_bytes, 0.0)
    weights = min(float(room.weights_bytes or 0), fits)
    if weights <= 0 or bandwidth is None:
        return None
    return m.decoding.predicted_ms(weights) or weights / (bandwidth * 1e6)


def _why(m: Measures, needed: float, speed: _Speed, *, slow_decode: bool) -> str:
    have = size(m.room.vram_bytes)
    if slow_decode:
        then = _fitting_ms(m)
        instead = f" instead of about {duration(then)} in its own memory" if then else ""
        return (
            f"The GPU has {have} and should hold at least {size(needed)}. The driver keeps the rest in "
            f"system memory and fetches it over PCIe for every token: {duration(speed.token_ms)} "
            f"each{instead}."
        )
    least = least_ratio(m) * 1000 / (speed.token_ms or math.inf)
    return (
        f"The GPU has {have}, and what is known to be on it takes {size(needed)}. Tokens come at the usual "
        f"speed, but prompts are read at {rate(speed.prefill_tok_s)}, where {rate(least)} is the least to "
        "expect: the buffers for reading them seem to be in system memory."
    )


def _evidence(m: Measures, needed: float, speed: _Speed) -> Iterator[Evidence]:
    yield m.evidence("GPU memory", m.room.vram_bytes, "bytes")
    yield m.evidence("weights, KV cache and buffers, at least", round(needed), "bytes")
    yield m.stated("weights_bytes", "weights", unit="bytes")
    if speed.token_ms is not None:
        yield m.evidence("time per token, median", round(speed.token_ms, 2), "ms", rows=speed.decoded)
    if speed.prefill_tok_s is not None:
        yield m.evidence("prefill rate, median", round(speed.prefill_tok_s, 2), "tok/s", rows=speed.read)
    if m.setup.os is not None:
        yield m.stated("os", "operating system")


def _fixes(m: Measures) -> Iterator[Fix]:
    if m.room.weights_fit is False:
        yield from m.room.smaller_file()
        yield m.fix("free-vram")
        return
    yield m.fix("free-vram")
    yield from m.room.smaller_cache()
