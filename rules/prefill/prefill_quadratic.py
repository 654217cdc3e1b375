"""Attention takes a large part of reading the longest prompts, and flash attention is off.

What it looks at:
    The time of prompts that were read alone, as a part per token (the weights) and a part per pair of tokens
    (attention): a*U + b*(U*C + U^2/2) + c for U new tokens behind C cached ones. It takes six prompts or
    more, the longest at least eight times the shortest, an attention part that is sure to be above zero, and
    a third of the longest prompt's time in it.

Why it matters:
    Twice the prompt has four times the pairs. Without flash attention, prompts of 8,192 tokens spent 34 to
    53 % of their time on attention on CUDA cards, and a few of 32,000 tokens spend most of it.

When not to worry:
    With flash attention on, what is left is what attention costs, and only shorter prompts help. Engines
    that have nothing else (vLLM, SGLang, TabbyAPI) are not asked.

What to change:
    Turn flash attention on. Measured on a Radeon 8060S it took the attention part down to 0.18 of what it was
    (rocWMMA) and 0.57 (RADV), but HIP builds without fast kernels for this card got several times slower. So
    the saving, half of the attention part, is an upper bound: measure it. Prompts that share a beginning
    should take it from the cache; a long history can be trimmed.

Sources:
    llama.cpp#5021 (flash attention), llama.cpp#15434 (on by default since b6325), llama.cpp#10439 (slower on
    ROCm then); arXiv:2001.08361; github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference (no flash attention).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.fits import PrefillTerms, alone, on_one_setup, prefill_terms
from rules.prefilling import plausible_rate, shorter_prefill
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import significant
from rules.words import count, duration, percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer
    from rules.savings import Array

RULE = Rule(
    id="prefill-quadratic",
    phase=Phase.PREFILL,
    title="Attention takes much of reading long prompts",
    needs=("prefill_tokens", "cached_tokens", "prefill_ms"),
    remedies=("flash-attention", "stable-prefix", "trim-history"),
    verify="llama-bench -p 512,8192 -fa 0,1: the rate at 8,192 tokens should come near that at 512.",
    sources=(
        "llama.cpp#5021",
        "llama.cpp#15434",
        "llama.cpp#10439",
        "arXiv:2001.08361",
        "github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference",
    ),
    thresholds={
        "span": Threshold(8.0, "longest over shortest prompt, in evaluated tokens, that shows attention"),
        "attention_share": Threshold(1 / 3, "share of the longest prompt's time in attention"),
        "kept_share": Threshold(0.5, "attention time with flash attention, over that without: 0.18 to 0.57"),
    },
)

_OFF, _UNKNOWN = "Flash attention is off.", "The log does not say whether flash attention is on."

ALWAYS_FLASH = ("vllm", "sglang", "tgi", "tabbyapi", "mlx-lm", "tensorrt-llm", "lmdeploy")


def check(m: Measures) -> Answer:
    """Ask whether attention is what makes long prompts slow, and can be made faster."""
    t = m.thresholds(RULE)
    if m.setup.flash_attention or m.engine in ALWAYS_FLASH:
        return NotApplicable("flash attention is on, and shorter prompts are all that helps")
    if m.hardware.on_cpu:
        return NotApplicable("what flash attention saves was measured on GPUs")
    terms = prefill_terms(m)
    if terms is None or terms.fit.span < t["span"]:
        return CannotTell("prompts of very different lengths that were read alone are needed")
    if terms.b_ms.low <= 0:
        return NotApplicable("no attention part can be told from noise")
    samples = on_one_setup(m, alone(m, m.valid_prefill)).drop_nulls("cached_tokens")
    longest = samples.sort("prefill_tokens", descending=True).head(1)
    share = float(_shares(terms, longest)[0])
    if share < t["attention_share"]:
        return NotApplicable(f"attention takes {percent(share)} of the longest prompt")
    if plausible_rate(m) is False:
        return NotApplicable("prompts are read too slowly for this GPU, and that comes first")

    rows = on_one_setup(m, m.generations).drop_nulls(["prefill_tokens", "prefill_ms"])
    shares = _shares(terms, rows)
    change = shorter_prefill(m, rows, (1 - t["kept_share"]) * shares)
    saving = m.saving(change, bound="at_most")
    if not m.worth(saving.ms, rows.height):
        return NotApplicable("too little time to matter")
    attention_ms = float((shares * rows["prefill_ms"].to_numpy()).sum())
    tokens, equal = longest["prefill_tokens"].item(), significant(terms.equal_tokens or 0.0, 2)
    off = m.setup.flash_attention is False
    slower = any(d.backend == "ROCm" for d in m.hardware.gpus)
    return RULE.finding(
        confidence=Confidence.LIKELY if off and not slower else Confidence.POSSIBLE,
        why=f"Attention takes {percent(share)} of the time to read the longest prompt, of {count(tokens)} "
        f"tokens, and {duration(attention_ms)} of all reading. From about {count(equal)} tokens on it "
        f"takes more than the weights. {_OFF if off else _UNKNOWN}",
        evidence=(
            m.evidence("attention at the longest prompt", round(share, 3), "share", rows=longest),
            m.evidence("weights", round(1000 * terms.a_ms.value, 1), "µs a token", rows=samples),
            m.evidence("attention equals weights at", equal, "tokens"),
            m.evidence("prompts in the fit", terms.fit.n, "prompts"),
            *([m.stated("flash_attention", "flash attention", "off")] if off else []),
        ),
        requests=rows.height,
        saving=saving,
        change=change,
        fixes=(m.fix("flash-attention"), m.fix("stable-prefix"), m.fix("trim-history")),
        wont_help=("A smaller quantization: attention works on the KV cache, not on the weights.",),
    )


def _shares(terms: PrefillTerms, rows: pl.DataFrame) -> Array:
    """Attention's share of each prefill; unknown cached tokens count as none, which only lowers it."""
    new, cached = (
        rows[name].cast(pl.Float64).fill_null(0).to_numpy() for name in ("prefill_tokens", "cached_tokens")
    )
    return terms.attention_share(new, cached)
