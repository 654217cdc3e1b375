"""The weights are stored in 8 bits or more, and every token reads all of them.

What it looks at:
    The quantization that the log names (F32, F16, BF16 or Q8_0) and the share of all request time that goes
    into generating (at least 40 %), where nothing else shows why decode would be slow.

Why it matters:
    At batch 1, decode is bound by reading the weights once for each token. A Q4_K_M file has 31 % of the
    bytes of F16 and 58 % of Q8_0. The gain is less than that, since the time per layer stays: F16 to Q4_K_M
    is 3.27 times fewer bytes and was measured 2.47 times faster.

When not to worry:
    From 4.9 bits a weight down: the next step gains little and costs quality. Nor while layers on the CPU
    or eager mode slow decode down, which come first. Prefill hardly changes with the quantization.

What to change:
    Use a Q4_K_M file; Q8_0 loses almost no quality and saves about half as much. On a CPU avoid IQ types,
    which are bound by unpacking.

Sources:
    llama.cpp tools/quantize/README.md (bits, sizes and speeds of Llama 3.1 8B);
    XiongjieDai/GPU-Benchmarks-on-LLM-Inference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.physics.decode import decode_constants, quantisation_saving_ms_per_token
from rules.physics.quant import quant_name
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import decode_scaled
from rules.words import duration, percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer, Bound

RULE = Rule(
    id="quantise-weights",
    phase=Phase.DECODE,
    title="A smaller quantization would generate faster",
    needs=("quantization", "decode_ms"),
    remedies=("smaller-quant",),
    verify="Run the same questions with the smaller file: ms per token should fall and answers stay as good.",
    sources=("llama.cpp tools/quantize/README.md", "github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference"),
    fault=False,
    thresholds={"decode_share": Threshold(0.4, "least share of all time that generating takes")},
)

LARGE = ("F32", "F16", "BF16", "Q8_0")
TARGET = "Q4_K_M"


def check(m: Measures) -> Answer:
    """Ask whether fewer bits a weight would pay."""
    d = m.decoding
    name = quant_name(m.setup.quantization) if m.setup.quantization else None
    if name is None:
        return CannotTell("the log names no quantization")
    if name not in LARGE:
        return NotApplicable(f"{name} is small already; fewer bits gain little and cost quality")
    share = m.share(Phase.DECODE)
    if share < m.thresholds(RULE)["decode_share"]:
        return NotApplicable(f"generating takes {percent(share)} of the time")
    if d.slowed_by:
        return NotApplicable(f"{d.slowed_by}, and that comes first")
    now, ratio = m.ms_per_token, d.shrink(TARGET)
    if now is None or ratio is None:
        return CannotTell("no answer is long enough to give a time per token")
    saved_ms = _saved_ms_per_token(m, ratio)
    factor = ratio if saved_ms is None else max(1 - saved_ms / now, ratio)
    change = decode_scaled(factor)
    bound: Bound = "at_most" if saved_ms is None else "estimate"
    saving = m.saving(change, bound=bound)
    rows = m.generations.drop_nulls("decode_ms")
    if not m.worth(saving.ms, rows.height):
        return NotApplicable("too little time to matter")
    about = "at most " if saved_ms is None else "about "
    return RULE.finding(
        confidence=Confidence.LIKELY,
        why=f"Generating takes {duration(float(rows['decode_ms'].sum()))} of {duration(m.wall_ms)}, and "
        f"each token reads all weights as {name}. {TARGET} has {percent(ratio)} of the bytes and would "
        f"take {about}{now * (1 - factor):,.1f} ms off the {now:,.1f} ms a token.",
        evidence=(
            m.stated("quantization", "quantization"),
            *([m.stated("weights_bytes", "weights", unit="bytes")] if m.setup.weights_bytes else []),
            m.evidence("share of all request time", round(share, 4), "share"),
            m.evidence("time per token, median", round(now, 2), "ms", rows=m.valid_decode),
            m.evidence(f"bytes of {TARGET} over {name}", round(ratio, 3), "share"),
        ),
        requests=rows.height,
        saving=saving,
        change=change,
        fixes=(m.fix("smaller-quant", to=TARGET),),
        wont_help=("For prefill: it does about the same work in every quantization.",),
    )


def _saved_ms_per_token(m: Measures, ratio: float) -> float | None:
    """By the bytes no longer read, where the bandwidth that decode reaches on this device is known."""
    gpu, weights, bandwidth = m.decoding.gpu, m.setup.weights_bytes, m.bandwidth_gb_s
    if gpu is None or weights is None or bandwidth is None or m.decoding.mixture or m.decoding.speculative:
        return None
    constants = decode_constants(gpu.device_class)
    return quantisation_saving_ms_per_token(weights, weights * ratio, bandwidth, constants)
