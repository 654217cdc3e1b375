"""A GPU holds the model, but prompts are read about as slowly as a CPU would read them.

What it looks at:
    The rate of reading prompts over the rate of generating, of requests that ran alone. A GPU reads a prompt
    tens of times faster than it generates, since it takes hundreds of tokens at once; a CPU only two or three
    times. The least ratio that was measured for this kind of GPU is 33 for GeForce RTX, workstation and data
    center cards, 24 for Strix Halo, 11 for Apple; the rule speaks below half of it. For all others it speaks
    below 5, and is only possible.

Why it matters:
    The whole prompt is read before the first token comes. What should take a second takes ten or more.

When not to worry:
    Prompts of fewer than 256 tokens don't fill a GPU and are no samples; nor are requests that overlap. Cards
    without matrix cores read slower than those that were measured: 5.3 times (Radeon RX 5700 XT) and 6.4
    times (R9 200) as fast as they generate were published.

What to change:
    Usually attention or the KV cache is on the CPU (`--no-kv-offload`), or the build has no kernels for this
    GPU, or its memory is so full that the driver moves parts of it to main memory. `llama-bench` with the
    same file tells the server's settings from the build. Where the log names the cause (types of the KV
    cache, layers or experts on the CPU), another rule says it. The saving is this log's prefill at the least
    ratio that was measured; an upper bound where this kind of GPU was not measured.

Sources:
    llama.cpp#4167; github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference; llama.cpp#34 (CPUs);
    llama.cpp#5835, llama.cpp#18570 (cards without matrix cores).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.decode import vram_spill_sysmem
from rules.fits import alone
from rules.physics.prefill import LEAST_RATE_RATIO
from rules.prefill import kv_type_fallback
from rules.prefilling import FAR_BELOW, least_ratio, plausible_rate, rate_ratio
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import prefill_scaled
from rules.words import duration, rate

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="prefill-at-cpu-speed",
    phase=Phase.PREFILL,
    title="Prompts are read far slower than this GPU can",
    needs=("prefill_tokens", "prefill_ms", "decode_ms", "devices"),
    remedies=("check-gpu-prefill", "flash-attention"),
    verify="llama-bench -p 512 -n 128 with the same file: pp512 should be tens of times tg128.",
    sources=(
        "llama.cpp#4167",
        "github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference",
        "llama.cpp#34",
        "llama.cpp#5835",
        "llama.cpp#18570",
    ),
    thresholds={
        "expert_share": Threshold(0.3, "share of a mixture's weights on the CPU from which that explains it"),
    },
)


def check(m: Measures) -> Answer:
    """Ask whether a GPU that holds the model also reads the prompts."""
    if m.hardware.on_cpu:
        return NotApplicable("the model is on the CPU; that is cpu-only")
    if not m.hardware.gpus and not m.setup.layers_offloaded:
        return CannotTell("the log does not say that a GPU holds the model")
    plausible, ratio = plausible_rate(m), rate_ratio(m)
    if plausible is None or ratio is None:
        return CannotTell("no prompt and answer of a request that ran alone are long enough to give rates")
    if plausible:
        return NotApplicable("prompts are read at the usual rate")
    if known := _known_cause(m):
        return NotApplicable(known)
    least = least_ratio(m)
    change = prefill_scaled(ratio / least)
    known_kind = m.hardware.gpu is not None and m.hardware.gpu.device_class in LEAST_RATE_RATIO
    saving = m.saving(change, bound="estimate" if known_kind else "at_most")
    rows = m.generations.drop_nulls("prefill_ms")
    if not m.worth(saving.ms, rows.height):
        return NotApplicable("too little time to matter")
    samples = alone(m, m.valid_prefill)
    return RULE.finding(
        confidence=Confidence.LIKELY if known_kind else Confidence.POSSIBLE,
        why=f"Prompts are read at {rate(m.prefill_tok_s)}, only {ratio:.1f} times as fast as text is "
        f"generated; {_usual(least, known_kind=known_kind)} "
        f"{duration(float(rows['prefill_ms'].sum()))} of {duration(m.wall_ms)} went into it.",
        evidence=(
            m.evidence("prefill rate, median", m.prefill_tok_s, "tok/s", rows=samples),
            m.evidence("decode rate, median", m.decode_tok_s, "tok/s", rows=m.decoding.alone),
            m.evidence("prefill over decode rate", round(ratio, 2), "times"),
            m.evidence("least that a healthy GPU of this kind shows", least, "times")
            if known_kind
            else m.evidence("this kind of GPU", "not measured"),
            *([m.stated("layers_offloaded", "layers on the GPU")] if m.setup.layers_offloaded else []),
        ),
        requests=rows.height,
        saving=saving,
        change=change,
        fixes=(
            m.fix("check-gpu-prefill"),
            *([m.fix("flash-attention")] if m.setup.flash_attention is False else []),
        ),
        wont_help=(
            f"Shorter prompts first: these can be read {FAR_BELOW * least / ratio:.0f} times faster or more.",
        )
        if known_kind
        else (),
    )


def _usual(least: float, *, known_kind: bool) -> str:
    """How much faster than it generates a GPU reads."""
    if known_kind:
        return f"a GPU of this kind reads at least {least:.0f} times as fast."
    return "most GPUs read tens of times as fast, the oldest that were published five times."


def _known_cause(m: Measures) -> str | None:
    """What the log names that explains a slow prefill."""
    if m.decoding.split:
        return "part of the model is on the CPU; partial-offload says it"
    on_cpu, weights = m.decoding.cpu_bytes, m.setup.weights_bytes
    if m.decoding.mixture and on_cpu and weights and on_cpu > m.thresholds(RULE)["expert_share"] * weights:
        return "experts on the CPU are sent to the GPU for each batch"
    if m.finds(kv_type_fallback):
        return "kv-type-fallback names the cause"
    if m.finds(vram_spill_sysmem):
        return "the GPU's memory is overfull; vram-spill-sysmem says it"
    return None
