"""Each generated token takes longer the more context there is, as reading the KV cache explains.

What it looks at:
    Time per token against tokens in the context, over answers that ran alone and used no draft: at least
    eight, over contexts that span a factor of four. The line must explain half of the variance, and the
    context's part at the deepest tenth must be a quarter of what a token costs without any. Rho is the slope
    over what reading the KV cache at the device's full bandwidth would take: up to 1.6 it is just that.

Why it matters:
    The whole cache of a conversation is read once for every token. Deep in a long context that costs as
    much as the weights do.

When not to worry:
    Models with a sliding window or recurrent layers hardly grow; the rule uses the size of the cache that
    the log states, and is silent for a sliding window. It doesn't compare overlapping requests.

What to change:
    An 8-bit KV cache has 0.53 of the bytes of f16 and loses hardly any quality; a shorter history has fewer
    tokens. The saving is the slope's part of these answers at 0.53 of the bytes, less a fifth for unpacking.

Sources:
    Databricks 2023, "LLM Inference Performance Engineering" (bandwidth); llama.cpp#7412 (8-bit KV cache);
    rho of 1.26 to 1.43 with flash attention: github.com/lhl/strix-halo-testing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.fits import CONTEXT_TOKENS, context_ratio
from rules.physics.kv import bytes_per_value
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import decode_scaled
from rules.words import count, duration

if TYPE_CHECKING:
    from rules.fits import DecodeSlope
    from rules.lines import Estimate
    from rules.measures import Measures
    from rules.rule import Answer, Evidence
    from rules.savings import Array

LEAST_R2, LEAST_PART = 0.5, 0.25

RULE = Rule(
    id="decode-slope-kv",
    phase=Phase.DECODE,
    title="Deep contexts slow decode: each token reads the whole KV cache",
    needs=("context_tokens", "decode_ms", "kv_bytes_per_token", "devices"),
    remedies=("quantise-kv", "trim-history"),
    verify="llama-bench -n 64 -d 0,16384 with f16 and q8_0 for -ctk and -ctv: the gap by depth should halve.",
    sources=(
        "www.databricks.com/blog/llm-inference-performance-engineering-best-practices",
        "llama.cpp#7412",
        "github.com/lhl/strix-halo-testing",
    ),
    thresholds={
        "r2": Threshold(LEAST_R2, "share of the variance of ms per token that context explains"),
        "context_part": Threshold(LEAST_PART, "ms for the context over ms without, at the deepest tenth"),
        "rho": Threshold(1.6, "slope over plain reading of the KV cache, up to which it is only that"),
        "rho_high": Threshold(2.5, "upper end of rho's interval from which it may be the attention kernel"),
        "gained": Threshold(0.8, "part of the saved bytes that becomes saved time"),
    },
    fault=False,
)

EIGHT_BIT = "q8_0"


def check(m: Measures) -> Answer:
    """Ask whether reading the KV cache is what slows deep contexts down."""
    t = m.thresholds(RULE)
    found = steep(m, t)
    if not isinstance(found, tuple):
        return found
    slope, rho = found
    if rho.value > t["rho"]:
        return NotApplicable(f"context costs {rho.value:.1f} times what reading the KV cache explains")
    kept = _bytes_kept(m)
    if kept is None:
        return NotApplicable("the KV cache has 8 bits or fewer already, and only shorter contexts help")
    shares, deep = context_shares(m, slope), deep_tokens(m)
    change = decode_scaled(1 - t["gained"] * (1 - kept) * shares)
    saving = m.saving(change)
    rows = m.generations.drop_nulls("decode_ms")
    if not m.worth(saving.ms, rows.height):
        return NotApplicable("too little time to matter")
    return RULE.finding(
        confidence=Confidence.LIKELY if rho.high <= t["rho_high"] else Confidence.POSSIBLE,
        why=f"A token takes {slope.alpha_ms.value:.1f} ms without context and {slope.ms_per_token(deep):.1f} "
        f"ms at {count(deep)} tokens. The difference is what reading the KV cache takes; it adds up to "
        f"{duration(float((shares * m.ledger.decode_ms).sum()))} of {duration(m.wall_ms)}.",
        evidence=slope_evidence(m, slope, rho.value),
        requests=rows.height,
        saving=saving,
        change=change,
        fixes=(m.fix("quantise-kv"), m.fix("trim-history")),
        wont_help=("A smaller quantization of the weights: it leaves the context's part as it is.",),
    )


def steep(m: Measures, t: dict[str, float]) -> tuple[DecodeSlope, Estimate] | NotApplicable | CannotTell:
    """A slope that matters with its rho, or why there is none.

    Args:
        m: the log's measures.
        t: thresholds ``r2`` and ``context_part``.
    """
    slope = m.decode_slope
    if slope is None:
        return CannotTell("answers at very different contexts that ran alone are needed")
    if flat := _too_flat(m, slope, t["r2"], t["context_part"]):
        return NotApplicable(flat)
    rho = context_ratio(m)
    if rho is None:
        return CannotTell("the size of the KV cache or the memory's bandwidth is not known")
    return slope, rho


def _too_flat(m: Measures, slope: DecodeSlope, least_r2: float, least_part: float) -> str | None:
    """Why this slope is no matter, if it is none."""
    if slope.beta_ms.low <= 0 or slope.r2 < least_r2:
        return "time per token does not follow the context"
    if slope.context_ms(deep_tokens(m)) < least_part * slope.alpha_ms.value:
        return f"at {count(deep_tokens(m))} tokens of context a token costs little more than at none"
    if m.hardware.on_cpu:
        return "the model is on the CPU, and what context costs there was not measured"
    if m.decoding.split:
        return "part of the model is on the CPU; partial-offload says it"
    if m.room.kv_in_main_memory:
        return "the KV cache is in main memory; kv-in-main-memory says it"
    return None


def context_shares(m: Measures, slope: DecodeSlope) -> Array:
    """Context's part in the time of each generation's tokens, 0-1; 0 where the context is unknown."""
    ms = slope.beta_ms.value * CONTEXT_TOKENS
    share = m.generations.select((ms / (slope.alpha_ms.value + ms)).fill_null(0.0))
    values: Array = share.to_series().to_numpy()
    return values


def slope_evidence(m: Measures, slope: DecodeSlope, rho: float) -> tuple[Evidence, ...]:
    """The numbers behind a finding about the slope."""
    beta = slope.beta_ms.times(1_000)
    return (
        m.evidence(
            "time per token without context", round(slope.alpha_ms.value, 2), "ms", rows=m.decoding.alone
        ),
        m.evidence("added by 1,000 tokens of context", round(beta.value, 3), "ms"),
        m.evidence("its 95 % interval", f"{beta.low:.3g} to {beta.high:.3g}", "ms"),
        m.evidence("answers in the fit", slope.n, "answers"),
        m.stated("kv_bytes_per_token", "KV cache per token of context", unit="bytes"),
        m.evidence("slope over plain reading of the KV cache", round(rho, 2), "times"),
    )


def deep_tokens(m: Measures) -> float:
    """Context that a tenth of the answers go beyond, tokens."""
    return float(m.generations.select(CONTEXT_TOKENS.quantile(0.9)).item() or 0.0)


def _bytes_kept(m: Measures) -> float | None:
    """Bytes of an 8-bit KV cache over those of now; ``None`` where it has 8 bits or fewer already."""
    now = [bytes_per_value(kind or "f16") for kind in (m.setup.kv_type_k, m.setup.kv_type_v)]
    known = [size for size in now if size is not None]
    eight = bytes_per_value(EIGHT_BIT) or 1.0
    return 2 * eight / sum(known) if len(known) == len(now) and sum(known) > 2 * eight else None
