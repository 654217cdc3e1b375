"""Slots are kept for requests at once that never come.

What it looks at:
    Four slots or more, each with a context of its own, in a log whose clock shows that no two requests ever
    ran at once; and what the KV cache of the idle ones takes: at least half a GiB.

Why it matters:
    Each slot reserves the KV cache of a whole context. With fewer of them the memory is free, or each
    request may have a longer context for the same memory.

When not to worry:
    The log shows a quiet hour of a busier server. Where a quarter of the GPU's memory or more is free anyway,
    the rule is silent, as where requests nearly fill their slots (`np-splits-ctx`). Slots that share one
    cache (`--kv-unified`, the default of llama-server where `-np` is not given) reserve nothing each.

What to change:
    Fewer slots. One is kept to spare. No time is claimed.

Sources:
    llama.cpp tools/server/README.md (`-np`, `-kvu`); Ollama docs/faq.mdx (OLLAMA_NUM_PARALLEL); ollama#5737.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.memory import np_splits_ctx
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.words import size

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="slots-idle",
    phase=Phase.QUEUE,
    title="Slots are kept that nobody uses",
    needs=("slots", "kv_bytes", "kv_bytes_per_token"),
    remedies=("fewer-slots",),
    verify="Under the busiest load, no request should wait: the fewer slots still suffice.",
    sources=("llama.cpp tools/server/README.md", "Ollama docs/faq.mdx", "ollama#5737"),
    fault=False,
    thresholds={
        "slots": Threshold(4, "slots from which idle ones matter"),
        "requests": Threshold(20, "requests in which no two ran at once, before idle slots are called that"),
        "idle_gib": Threshold(0.5, "GiB of KV cache of the idle slots: less is not worth a restart"),
    },
)


def check(m: Measures) -> Answer:
    """Ask whether more slots are kept than ever ran at once."""
    t, room, slots = m.thresholds(RULE), m.room, m.setup.slots
    if slots is None:
        return CannotTell("the number of slots is not logged")
    if slots < t["slots"] or m.setup.kv_unified:
        return NotApplicable("the slots reserve nothing that others could use")
    if m.overlap.most is None or m.generations.height < t["requests"]:
        return CannotTell("too few requests with a clock tell how many run at once")
    if m.overlap.most > 1:
        return NotApplicable(f"up to {m.overlap.most} requests ran at once")
    if m.decoding.split or room.cut:
        return NotApplicable("layers or context are missing, and that comes first")
    if m.setup.kv_bytes is None or m.setup.kv_bytes_per_token is None:
        return CannotTell("the log does not say what the KV cache takes")
    if room.plenty or room.kv_in_main_memory:
        return NotApplicable("the GPU's memory is not short")
    if m.finds(np_splits_ctx):
        return NotApplicable("the slots' context is short; np-splits-ctx says it")
    idle_bytes = room.kv_bytes - room.used_slots_kv_bytes
    fixes = tuple(room.fewer_slots())
    if idle_bytes < t["idle_gib"] * 2**30 or not fixes:
        return NotApplicable("the idle slots take little memory")
    return RULE.finding(
        confidence=Confidence.LIKELY,
        why=f"{slots} slots are kept, and in {m.generations.height:,} requests no two ran at once. With "
        f"{room.used_slots} slots, {size(idle_bytes)} of the {size(room.kv_bytes)} of KV cache are free, or "
        "each request may have a longer context.",
        evidence=(
            m.stated("slots", "slots"),
            m.evidence("most requests at once", m.overlap.most, "requests", rows=m.generations),
            m.stated("kv_bytes", "KV cache of all slots", unit="bytes"),
            m.evidence("of it, for slots that nobody uses", round(idle_bytes), "bytes"),
        ),
        requests=m.generations.height,
        fixes=fixes,
        wont_help=("Fewer slots for speed: an idle slot costs memory, not time.",),
    )
