"""A model that fits one GPU is split over several, and decodes slower than on one.

What it looks at:
    Two or more GPUs of one kind, all layers offloaded, weights and KV cache that fit one of them, and decode
    well below what one of them should give. Engines that split each matrix (tensor parallel) are left out.

Why it matters:
    With layers split, the GPUs work one after the other for each token, so a second one adds no speed, only
    the way between them. On Linux that costs 4 % (an 8B model on two RTX 4090: 122.6 tok/s, on one 127.7).
    Where the cards can't reach each other's memory it costs much more; 80 tok/s became 20 in one report.

When not to worry:
    Long prompts: several GPUs read them faster, one part after another. Or where the second GPU is there for
    a context that one can't hold.

What to change:
    Use one GPU for this model. The saving is an upper bound: decode as predicted for one.

Sources:
    github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference; llama.cpp#4014, llama.cpp#5619.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import decode_limited
from rules.words import percent, size

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="multi-gpu-no-gain",
    phase=Phase.DECODE,
    title="One GPU would decode faster than several",
    needs=("devices", "weights_bytes", "layers", "decode_ms"),
    remedies=("one-gpu", "measure-decode"),
    verify="Run the same questions on one GPU: ms per token should fall. If it stays, the split was not it.",
    sources=(
        "github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference",
        "llama.cpp#4014",
        "llama.cpp#5619",
    ),
    thresholds={
        "health_below": Threshold(
            0.7, "measured over predicted speed of one GPU; healthy runs, two GPUs included, stay above 0.75"
        ),
        "fill": Threshold(0.9, "share of one GPU's memory that weights and KV cache may take, 0-1"),
    },
)


def check(m: Measures) -> Answer:
    """Ask whether the way between GPUs costs more than it brings."""
    gpus = m.hardware.gpus
    if len(gpus) < 2:
        return NotApplicable("fewer than two GPUs are listed")
    if m.decoding.split or m.hardware.on_cpu:
        return NotApplicable("weights on the CPU come first")
    if m.setup.tensor_parallel is not None or m.engine in ("vllm", "sglang"):
        return NotApplicable("each GPU reads its part of each matrix at the same time")
    one, weights = gpus[0].memory_bytes, m.setup.weights_bytes
    if one is None or weights is None:
        return CannotTell("the memory of a GPU or the size of the weights is not logged")
    held, t = weights + (m.setup.kv_bytes or 0), m.thresholds(RULE)
    if held > t["fill"] * one:
        return NotApplicable(f"{size(held)} would not fit one GPU")
    health, predicted, measured = m.decoding.health, m.decoding.predicted_ms(), m.decoding.ms_per_token
    if health is None or predicted is None or measured is None or not m.decoding.shallow:
        return CannotTell("what one of these GPUs should give is not known")
    if health >= t["health_below"]:
        return NotApplicable(f"decode runs at {percent(health)} of what one GPU should give")
    change = decode_limited(m.ledger, predicted / measured)
    saving = m.saving(change, bound="at_most")
    rows = m.generations.drop_nulls("decode_ms")
    if not m.worth(saving.ms, rows.height):
        return NotApplicable("too little time to matter")
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"{len(gpus)} GPUs are listed, and {size(held)} of weights and KV cache would fit one of "
        f"{size(one)}. A token takes {measured:,.1f} ms, and should take {predicted:,.1f} on one. If the "
        "model is split, the GPUs take turns and wait for each other.",
        evidence=(
            m.stated("devices", "GPUs", len(gpus)),
            m.evidence("time per token alone, median", round(measured, 2), "ms", rows=m.decoding.alone),
            m.evidence("predicted for one", round(predicted, 2), "ms"),
            m.stated("weights_bytes", "weights", unit="bytes"),
            m.evidence("memory of one", one, "bytes"),
        ),
        requests=rows.height,
        change=change,
        saving=saving,
        fixes=(m.fix("one-gpu"), m.fix("measure-decode")),
        wont_help=("A third GPU: with layers split, they generate one after the other.",),
    )
