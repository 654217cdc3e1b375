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
    until a GiB is left. The saving takes all of a token's time to be the CPU's part, so it is a bound: no
    log says how much of it is.

Sources:
    llama.cpp#14992, llama.cpp#15077 (the switches); ik_llama.cpp#672.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rules.room import gib
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import decode_limited

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer, Finding

RULE = Rule(
    id="moe-on-cpu",
    phase=Phase.DECODE,
    title="More of the experts would fit the GPU",
    needs=("experts", "weights_bytes", "gpu_weights_bytes"),
    remedies=("cpu-moe",),
    verify="The header should state less weight on the CPU, and ms per token should fall with it.",
    sources=("llama.cpp#14992", "llama.cpp#15077", "ik_llama.cpp#672"),
    fault=False,
    thresholds={
        "cpu_share": Threshold(0.1, "of the weights on the CPU, 0-1: the embedding table alone is less"),
    },
)

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
    on_cpu = min(math.ceil(d.cpu_bytes / layer_bytes), layers)
    if d.split:
        return _whole_layers(m, on_cpu)
    room = m.room
    if room.usable_bytes is None or room.needed_bytes is None:
        return CannotTell("the GPU's memory is not known (--vram gives it)")
    moved = min(int((room.usable_bytes - room.needed_bytes) / layer_bytes), on_cpu)
    if moved < 1:
        return NotApplicable("the GPU is full")
    rows = m.generations.drop_nulls("decode_ms")
    change = decode_limited(m.ledger, 1 - min(moved * layer_bytes / d.cpu_bytes, 1.0))
    saving = m.saving(change, bound="at_most")
    if not m.worth(saving.ms, rows.height):
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
    )


def _whole_layers(m: Measures, on_cpu: int) -> Finding | NotApplicable:
    """Attention is on the CPU with the experts; the experts of one more layer would make room for it."""
    rows = m.generations.drop_nulls("decode_ms")
    if not m.worth(float(rows["decode_ms"].sum()), rows.height):
        return NotApplicable("generating takes too little time to matter")
    on_gpu, layers = m.setup.layers_offloaded, m.setup.layers_offloadable
    return RULE.finding(
        title="Whole layers of a mixture of experts run on the CPU",
        confidence=Confidence.LIKELY,
        why=f"{on_gpu} of {layers} layers are on the GPU, and the rest on the CPU with all they have. A "
        "token needs the attention of every layer but few of the experts: with all layers on the GPU and "
        "only experts on the CPU, the same memory serves more of each token.",
        evidence=(
            m.stated("layers_offloaded", f"layers on the GPU, of {layers}", unit="layers"),
            m.evidence("weights on the CPU", round(m.decoding.cpu_bytes or 0.0), "bytes"),
            *([m.stated("experts", "experts")] if m.setup.experts else []),
        ),
        requests=rows.height,
        fixes=(m.fix("cpu-moe", layers=min(on_cpu + 1, m.setup.layers or on_cpu)),),
        verify="Start with this number, lower it until 1 GiB of the GPU is left; ms per token should fall.",
        wont_help=(_THREADS,),
    )
