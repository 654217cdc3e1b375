"""Each generated token takes far longer the more context there is than reading the KV cache explains.

What it looks at:
    The same slope as `decode-slope-kv`: time per token against tokens in the context, over answers that ran
    alone. Its ratio rho to what reading the KV cache at the device's full bandwidth would take must be above
    2.5, and surely above the 1.6 that reading alone reaches.

Why it matters:
    Without flash attention every step computes and stores the scores of the whole context apart. On a Radeon
    8060S a 7B model fell from 50 to 18 tok/s at 4,096 tokens without it, and to 40 with it.

When not to worry:
    Short chats stay at the left end of the line, where it costs nothing. Overlapping requests, drafts and
    models with a sliding window are not judged.

What to change:
    Turn flash attention on. If it is on, its kernel may be missing for this KV cache type or head size, or
    the cache may be in main memory (`--no-kv-offload`): measure decode at two depths. An 8-bit KV cache comes
    after that: it saves bytes, and bytes are not what the time goes into. The saving takes the slope down to
    a rho of 1.4.

Sources:
    llama.cpp#13373 (16.7 to 28 tok/s at 22,000 tokens on an M3 Ultra); github.com/lhl/strix-halo-testing
    (rho 9.2 without, 1.3 to 2.3 with flash attention); without it 2.7 to 9.2 on RTX, A100, H100 and Apple:
    github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.decode.decode_slope_kv import (
    LEAST_PART,
    LEAST_R2,
    context_shares,
    deep_tokens,
    slope_evidence,
    steep,
)
from rules.prefill import kv_type_fallback
from rules.prefill.prefill_quadratic import ALWAYS_FLASH
from rules.rule import Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import decode_scaled
from rules.words import count, duration

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="decode-slope-attention",
    phase=Phase.DECODE,
    title="Deep contexts slow decode far more than reading the KV cache would",
    needs=("context_tokens", "decode_ms", "kv_bytes_per_token", "devices"),
    remedies=("flash-attention", "measure-decode"),
    verify="llama-bench -n 64 -d 0,8192 -fa 0,1: with it, the rates at both depths should be near.",
    sources=(
        "llama.cpp#13373",
        "github.com/lhl/strix-halo-testing",
        "github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference",
    ),
    thresholds={
        "r2": Threshold(LEAST_R2, "share of the variance of ms per token that context explains"),
        "context_part": Threshold(LEAST_PART, "ms for the context over ms without, at the deepest tenth"),
        "rho": Threshold(2.5, "slope over plain reading of the KV cache from which attention is to blame"),
        "rho_low": Threshold(1.6, "what the lower end of rho's interval must exceed"),
        "rho_flash": Threshold(1.4, "rho with flash attention: 1.26 to 1.43, 2.3 with rocWMMA"),
    },
)

_SAID = {
    False: "Flash attention is off.",
    None: "The log does not say whether flash attention is on.",
    True: "Flash attention is on, so its kernel falls back here, or the KV cache is in main memory.",
}


def check(m: Measures) -> Answer:
    """Ask whether attention itself is what slows deep contexts down."""
    t = m.thresholds(RULE)
    found = steep(m, t)
    if not isinstance(found, tuple):
        return found
    slope, rho = found
    if rho.value <= t["rho"] or rho.low <= t["rho_low"]:
        return NotApplicable(f"context costs {rho.value:.1f} times what reading the KV cache explains")
    if m.finds(kv_type_fallback):
        return NotApplicable("kv-type-fallback names the cause")
    shares = context_shares(m, slope)
    context_ms = float((shares * m.ledger.decode_ms).sum())
    rows = m.generations.drop_nulls("decode_ms")
    if not m.worth(context_ms * (1 - t["rho_flash"] / rho.value), rows.height):
        return NotApplicable("too little time to matter")
    flash = True if m.engine in ALWAYS_FLASH else m.setup.flash_attention
    change = None if flash else decode_scaled(1 - shares * (1 - t["rho_flash"] / rho.value))
    saving = m.saving(change, bound="at_most" if flash is None else "estimate") if change else None
    return RULE.finding(
        confidence=Confidence.LIKELY if flash is False else Confidence.POSSIBLE,
        why=f"A token takes {slope.alpha_ms.value:.1f} ms without context and "
        f"{slope.ms_per_token(deep_tokens(m)):.1f} ms at {count(deep_tokens(m))} tokens. That is "
        f"{rho.value:.1f} times what reading the KV cache takes, "
        f"{duration(context_ms)} in all. {_SAID[flash]}",
        evidence=(
            *slope_evidence(m, slope, rho.value),
            *([m.stated("flash_attention", "flash attention", "off")] if flash is False else []),
        ),
        requests=rows.height,
        saving=saving,
        change=change,
        fixes=(m.fix("measure-decode"),) if flash else (m.fix("flash-attention"), m.fix("measure-decode")),
        wont_help=(
            "An 8-bit KV cache first: it halves bytes, and the time does not go into bytes.",
            "A smaller quantization of the weights: it leaves the context's part as it is.",
        ),
    )
