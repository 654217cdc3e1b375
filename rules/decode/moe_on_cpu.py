"""Experts of a mixture are on the CPU although there is room for more of them on the GPU.

What it looks at:
    Mixtures of experts with part of their weights in main memory. Where all layers count as offloaded, only
    experts are there: then what the GPU's memory has left, in layers of experts. Where whole layers are on
    the CPU, their attention is too.

Why it matters:
    Every token goes through the attention and the shared weights of every layer, but only through a few of
    the experts. Main memory is read ten times slower than the GPU's, so what all tokens need belongs on the
    GPU first, and then as many experts as fit.

When not to worry:
    The GPU is full: then this is the best place for the rest. Builds that fit the model to the memory by
    themselves (`--fit`, the default of llama.cpp since late 2025) leave no such gap unless a number was
    given.

What to change:
    All layers on the GPU, with the experts of as few layers as possible on the CPU (`--n-cpu-moe`), lowered
    until a GiB is left. The number to start with counts the KV cache of all layers, the compute buffers and
    that GiB. The saving takes all of a token's time to be the CPU's part, so it is a bound: no log says how
    much of it is. It stops at what the GPU needs to read the experts that a token uses; where that is not
    known, or where whole layers are on the CPU, none is given.

Sources:
    llama.cpp#14992, llama.cpp#15077 (the switches); ik_llama.cpp#672.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rules.physics.decode import decode_constants, decode_ms_per_token
from rules.room import LEAST_BITS, gib
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import decode_limited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.rule import Answer, Finding

RULE = Rule(
    id="moe-on-cpu",
    explains=("prefill-dominates-long-prompt", "rag-chunks-too-many", "ubatch-small-moe-on-cpu"),
    phase=Phase.DECODE,
    title="More of the experts would fit the GPU",
    needs=("experts", "weights_bytes", "gpu_weights_bytes"),
    remedies=("cpu-moe", "fewer-slots", "smaller-context", "quantise-kv", "weights-that-fit"),
    verify="The header should state less weight on the CPU, and ms per token should fall with it.",
    sources=("llama.cpp#14992", "llama.cpp#15077", "ik_llama.cpp#672"),
    fault=False,
    thresholds={
        "cpu_share": Threshold(0.1, "of the weights on the CPU, 0-1: the embedding table alone is less"),
    },
)

EXPERTS_OF_LAYER = 0.95
"""Share of a layer's bytes that is experts: 0.97 of Qwen3 30B-A3B, Mixtral 8x7B and gpt-oss-120b, 0.95 of
GLM-4.5-Air, by their dimensions. The rest of a layer stays on the GPU."""

_THREADS = "More threads: the experts wait for main memory, not for cores."


def check(m: Measures) -> Answer:
    """Ask whether the CPU has experts that the GPU could hold."""
    d, weights, layers = m.decoding, m.setup.weights_bytes, m.setup.layers
    if not d.mixture:
        return NotApplicable("the model is no mixture of experts")
    if m.hardware.on_cpu or m.hardware.shared_memory:
        return NotApplicable("there is only one memory")
    if weights is None or d.cpu_bytes is None or layers is None:
        return CannotTell("the log does not say where the weights are")
    if d.cpu_bytes < m.thresholds(RULE)["cpu_share"] * weights:
        return NotApplicable("nearly all weights are on the GPU")
    if not m.setup.layers_offloaded:
        return CannotTell("the log does not say how many layers are on the GPU")
    layer_bytes = weights / layers
    if d.split:
        return _whole_layers(m, layer_bytes)
    room, on_cpu = m.room, min(math.ceil(d.cpu_bytes / layer_bytes), layers)
    if room.usable_bytes is None or room.needed_bytes is None:
        return CannotTell("the GPU's memory is not known (--vram gives it)")
    moved = min(int((room.usable_bytes - room.needed_bytes) / layer_bytes), on_cpu)
    if moved < 1:
        return NotApplicable("the GPU is full")
    rows = m.generations.drop_nulls("decode_ms")
    factor = max(1 - moved * layer_bytes / d.cpu_bytes, _least_factor(m))
    change = decode_limited(m.ledger, factor) if factor > 0 else None
    saving = m.saving(change, bound="at_most") if change else None
    if not m.worth(saving.ms if saving else float(rows["decode_ms"].sum()), rows.height):
        return NotApplicable("generating takes too little time to matter")
    free = (room.vram_bytes or 0) - room.needed_bytes
    return RULE.finding(
        confidence=Confidence.LIKELY,
        why=f"{gib(d.cpu_bytes)} of {gib(weights)} GiB of weights are on the CPU, the experts of about "
        f"{on_cpu} layers, while {gib(free)} of the GPU's {gib(room.vram_bytes or 0)} GiB are not taken by "
        f"this model. The experts of about {moved} of them would fit.",
        evidence=(
            m.stated("experts", "experts"),
            m.evidence("weights on the CPU", round(d.cpu_bytes), "bytes"),
            m.evidence("GPU memory", room.vram_bytes, "bytes"),
            m.evidence("of it taken by weights, KV cache and buffers", round(room.needed_bytes), "bytes"),
        ),
        requests=rows.height,
        saving=saving,
        change=change,
        fixes=(m.fix("cpu-moe", layers=on_cpu - moved),),
        wont_help=(_THREADS,),
        fault=moved == on_cpu,
    )


def _least_factor(m: Measures) -> float:
    """Of a token's time, the least with all experts on the GPU: what reading its active weights takes there.

    The share of the experts that are used understates the active weights, and attention comes on top. 0
    where it can't be predicted.
    """
    s, now_ms = m.setup, m.decoding.ms_per_token or m.ms_per_token
    if not (s.experts and s.experts_used and s.weights_bytes and s.layers and now_ms):
        return 0.0
    if m.device is None or m.bandwidth_gb_s is None:
        return 0.0
    active = s.weights_bytes * min(s.experts_used / s.experts, 1.0)
    constants = decode_constants(m.device.device_class)
    return min((decode_ms_per_token(active, 0.0, m.bandwidth_gb_s, s.layers, constants) or 0.0) / now_ms, 1.0)


def _whole_layers(m: Measures, layer_bytes: float) -> Finding | NotApplicable:
    """Attention is on the CPU with the experts, where the experts of more layers would make room for it."""
    if m.room.all_fits:
        return NotApplicable("all of it would fit the GPU; partial-offload says it")
    rows = m.generations.drop_nulls("decode_ms")
    if not m.worth(float(rows["decode_ms"].sum()), rows.height):
        return NotApplicable("generating takes too little time to matter")
    on_gpu, layers, kept = (
        m.setup.layers_offloaded,
        m.setup.layers_offloadable,
        _layers_kept(m, layer_bytes),
    )
    return RULE.finding(
        title="Whole layers of a mixture of experts run on the CPU",
        confidence=Confidence.CERTAIN,
        why=f"{on_gpu} of {layers} layers are on the GPU, and the rest on the CPU with all they have, "
        f"{gib(m.decoding.cpu_bytes or 0.0)} GiB. A token needs the attention of every layer but few of the "
        "experts: with all layers on the GPU and only experts on the CPU, the same memory serves more of "
        f"each token. Beside the KV cache of all layers, the experts of about {kept} layers stay there.",
        evidence=(
            m.stated("layers_offloaded", f"layers on the GPU, of {layers}", unit="layers"),
            m.evidence("weights on the CPU", round(m.decoding.cpu_bytes or 0.0), "bytes"),
            *([m.stated("experts", "experts")] if m.setup.experts else []),
        ),
        requests=rows.height,
        fixes=tuple(_making_room(m, kept)),
        verify="Start with this number, lower it until 1 GiB of the GPU is left; ms per token should fall.",
        wont_help=(_THREADS,),
        fault=True,
    )


def _layers_kept(m: Measures, layer_bytes: float) -> int:
    """Layers whose experts stay on the CPU once all else is on the GPU, with a GiB of it left free.

    Where the GPU's memory is not known, it holds what it holds now: the KV cache that joins it takes the
    place of experts, and one layer more is kept to be safe.
    """
    room, weights = m.room, m.setup.weights_bytes or 0
    kv_bytes = 0 if room.kv_in_main_memory else room.kv_bytes
    if room.usable_bytes is not None:
        too_much = float(weights + kv_bytes + (m.setup.compute_bytes or 0) - room.usable_bytes)
    else:
        too_much = (m.decoding.cpu_bytes or 0.0) + kv_bytes - room.kv_vram_bytes + layer_bytes
    layers = m.setup.layers or 0
    return min(max(math.ceil(too_much / (EXPERTS_OF_LAYER * layer_bytes)), 1), layers)


def _making_room(m: Measures, kept: int) -> Iterator[Fix]:
    """Experts to the CPU, then what makes room for more of them; no file of less than 4 bits."""
    yield m.fix("cpu-moe", layers=kept)
    yield from m.room.smaller_cache()
    if (m.room.fitting_bits or 0.0) >= LEAST_BITS:
        yield from m.room.smaller_file()
