"""The context is several times larger than any request needed, and its KV cache takes memory for nothing.

What it looks at:
    The KV cache that the log states, beside the one that the requests needed: a context four times the
    length of 99 of 100 requests or more, and at least 1 GiB that nothing was ever stored in. Twenty requests
    at least, so that their lengths mean something.

Why it matters:
    The cache is reserved when the model is loaded, for all of the context. Its memory could hold a better
    quantization, more slots, a draft model, or another model.

When not to worry:
    Contexts that will grow: agents, long documents. Where a quarter of the GPU's memory or more is free
    anyway, or the cache is in main memory, the rule is silent. Nothing is slower for it while all layers are
    on the GPU; where some are not, `ctx-steals-layers` speaks. Engines that share a pool of pages (vLLM,
    SGLang) reserve nothing for a long context.

What to change:
    A context of the size that is used, or use the memory for something else. No time is claimed.

Sources:
    llama.cpp tools/server/README.md (`-c`); Ollama docs/faq.mdx (context length).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.words import count, size

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="ctx-oversized",
    phase=Phase.MEMORY,
    title="The context is far larger than what is used",
    needs=("context", "kv_bytes", "kv_bytes_per_token"),
    remedies=("smaller-context",),
    verify="The header should state the smaller KV cache, and no line say that a prompt was cut.",
    sources=("llama.cpp tools/server/README.md", "Ollama docs/faq.mdx"),
    fault=False,
    thresholds={
        "requests": Threshold(20, "requests from which their length says how much context is used"),
        "ratio": Threshold(4, "context over the tokens of 99 of 100 requests: a first guess"),
        "wasted_gib": Threshold(1, "GiB of KV cache that nothing was stored in: less is not worth a reload"),
    },
)


def check(m: Measures) -> Answer:
    """Ask whether a large part of the KV cache is never used."""
    t, room, context = m.thresholds(RULE), m.room, m.setup.context
    if m.decoding.split:
        return NotApplicable("part of the model is on the CPU, and that comes first")
    if room.cut:
        return NotApplicable("prompts were cut or refused: the context is too small, not too large")
    if context is None or m.setup.kv_bytes is None:
        return CannotTell("the log does not say what the context takes")
    if room.needed_tokens is None or m.generations.height < t["requests"]:
        return CannotTell("too few requests tell how much context is used")
    if room.plenty or room.kv_in_main_memory:
        return NotApplicable("the GPU's memory is not short")
    wasted = room.kv_bytes - room.used_kv_bytes
    if context < t["ratio"] * room.needed_tokens or wasted < t["wasted_gib"] * 2**30:
        return NotApplicable("the context is not far from what is used")
    fixes = tuple(room.smaller_context())
    if not fixes:
        return NotApplicable("no smaller context holds what is used")
    longest = m.generations.sort("prompt_tokens", descending=True, nulls_last=True)
    return RULE.finding(
        confidence=Confidence.LIKELY,
        why=f"99 of 100 requests stayed within {count(room.longest_tokens)} of {count(context)} tokens. The "
        f"KV cache takes {size(room.kv_bytes)}; {size(wasted)} of it would be free for a larger "
        "quantization, more slots or a draft model.",
        evidence=(
            m.stated("context", "context of a request", unit="tokens"),
            m.evidence("prompt and answer, 99th percentile", room.longest_tokens, "tokens", rows=longest),
            m.stated("kv_bytes", "KV cache", unit="bytes"),
            m.evidence("KV cache that this load needs", round(room.used_kv_bytes), "bytes"),
        ),
        requests=m.generations.height,
        fixes=fixes,
        wont_help=("A smaller context for speed: attention reads only what is in the cache.",),
    )
