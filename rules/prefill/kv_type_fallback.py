"""The types of the KV cache have no fast attention kernel, so attention runs slowly.

What it looks at:
    A CUDA device, and keys and values of the KV cache in different types, or in one of the types (q4_1,
    q5_0, q5_1, iq4_nl) for which llama.cpp's CUDA builds leave the attention kernels out; and whether prompts
    are read far slower than decode on this device promises.

Why it matters:
    Without a kernel for the pair of types, attention is computed on the CPU or by a detour. Prefill was
    measured 7 to 22 times slower, decode up to 7 times.

When not to worry:
    A build made with `GGML_CUDA_FA_ALL_QUANTS` has all kernels but those for iq4_nl: then prompts are read at
    the usual rate, and the rule doesn't fire. Vulkan and Metal take mixed types as they are.

What to change:
    One type for both, f16, q8_0 or q4_0; else a build with all kernels, which llama.cpp does not have for
    iq4_nl. The saving is this log at the largest factors that were measured, 21.6 for prefill and 6.7 for
    decode, no token faster than this GPU's memory lets it be; so it is an upper bound.

Sources:
    llama.cpp#28455, llama.cpp#28456, llama.cpp#27109; lmstudio-bug-tracker#2246; llama.cpp
    ggml/src/ggml-cuda/fattn.cu (the types that each build has).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.prefilling import plausible_rate
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule
from rules.savings import decode_scaled, prefill_scaled, together
from rules.words import duration, rate

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="kv-type-fallback",
    phase=Phase.PREFILL,
    title="Attention has no fast kernel for these KV cache types",
    needs=("kv_type_k", "kv_type_v"),
    remedies=("same-kv-type", "attention-all-types"),
    verify="Send the same prompt with one type for keys and values: its prefill should take a fraction.",
    sources=("llama.cpp#28455", "llama.cpp#28456", "llama.cpp#27109", "lmstudio-bug-tracker#2246"),
)

LEFT_OUT = ("q4_1", "q5_0", "q5_1", "iq4_nl")

IN_NO_BUILD = "iq4_nl"
"""llama.cpp has no kernel for it; ik_llama.cpp has."""

PREFILL_FACTOR, DECODE_FACTOR = 21.6, 6.7
TARGET = "q8_0"


def check(m: Measures) -> Answer:
    """Ask whether the KV cache's types slow attention down."""
    keys, values = m.setup.kv_type_k, m.setup.kv_type_v
    if keys is None or values is None:
        return CannotTell("the log does not say how the KV cache is stored")
    if keys == values and keys not in LEFT_OUT:
        return NotApplicable(f"{keys} has its attention kernels")
    if not any(d.backend == "CUDA" for d in m.setup.devices):
        return NotApplicable("only CUDA builds leave kernels out")
    plausible = plausible_rate(m)
    if plausible is True:
        return NotApplicable("prompts are read at the usual rate")
    rows = m.generations.drop_nulls("prefill_ms")
    change = together((prefill_scaled(1 / PREFILL_FACTOR), decode_scaled(_decode_factor(m))))
    saving = m.saving(change, bound="at_most")
    if not m.worth(saving.ms, rows.height):
        return NotApplicable("too little time to matter")
    slow = "" if plausible is None else ", far below what its decode promises,"
    return RULE.finding(
        confidence=Confidence.POSSIBLE if plausible is None else Confidence.LIKELY,
        why=f"Keys are stored as {keys} and values as {values}, a pair for which CUDA builds usually have no "
        f"attention kernel. Prompts are read at {rate(m.prefill_tok_s)}{slow} in "
        f"{duration(float(rows['prefill_ms'].sum()))} of {duration(m.wall_ms)}.",
        evidence=(
            m.stated("kv_type_k", "keys of the KV cache"),
            m.stated("kv_type_v", "values of the KV cache"),
            m.evidence("prefill rate, median", m.prefill_tok_s, "tok/s", rows=m.valid_prefill),
            m.evidence("decode rate, median", m.decode_tok_s, "tok/s", rows=m.valid_decode),
        ),
        requests=rows.height,
        saving=saving,
        change=change,
        fixes=(
            m.fix("same-kv-type", kv_type=TARGET),
            *([m.fix("attention-all-types")] if _some_build_has(m, keys, values) else []),
        ),
        wont_help=("Shorter prompts or fewer chunks first: the same prompts can be read many times faster.",),
    )


def _decode_factor(m: Measures) -> float:
    """Time of a token after over before: by what was measured, but no faster than the memory allows."""
    predicted, measured = m.decoding.predicted_ms(), m.decoding.ms_per_token
    least = 1 / DECODE_FACTOR
    return least if predicted is None or measured is None else max(least, predicted / measured)


def _some_build_has(m: Measures, *types: str) -> bool:
    return m.engine == "ik-llama" or IN_NO_BUILD not in types
