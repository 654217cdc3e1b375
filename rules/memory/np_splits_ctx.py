"""The context is divided among slots, and what each gets is too small for a prompt that the whole would hold.

What it looks at:
    Several slots that do not share their context, prompts that were cut or refused, and whether the context
    of all slots together would have held them. Without such a line: requests that come within a tenth of a
    slot's context.

Why it matters:
    `-c` of llama-server is the context of all slots. With `-np 4`, each request gets a quarter of it, and a
    longer one is refused or cut although the memory for it is there.

When not to worry:
    Slots that share one context (`--kv-unified`, the default where `-np` is not given): there only the sum
    counts. Ollama gives each slot the whole `num_ctx`, so there the memory is multiplied instead.

What to change:
    Let the slots share the context, or keep fewer. A larger `-c` also helps, and takes more memory. No time
    is claimed.

Sources:
    llama.cpp#16736 (one cache for all slots); llama.cpp#23652; llama.cpp tools/server/README.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.remedies import has_switch
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.rule import Answer, Evidence, Finding

RULE = Rule(
    id="np-splits-ctx",
    phase=Phase.MEMORY,
    title="Each slot has only a part of the context, and that is too small",
    needs=("slots", "context", "context_total"),
    remedies=("unified-kv", "fewer-slots"),
    verify="Send the longest prompt again: it should be answered, and the header state a larger n_ctx_slot.",
    quality=True,
    sources=("llama.cpp#16736", "llama.cpp#23652"),
    thresholds={
        "near_share": Threshold(0.9, "of a slot's context that one request in twenty reaches"),
        "requests": Threshold(20, "requests from which their length says how much context is used"),
    },
)

_CUTS = ("prompt_truncated", "context_exceeded")


def check(m: Measures) -> Answer:
    """Ask whether slots had too little of a context that was large enough."""
    slots, context = m.setup.slots, m.setup.context
    if slots is None or context is None:
        return CannotTell("the log does not say how the context is divided")
    if slots < 2 or m.setup.kv_unified or m.engine == "ollama":
        return NotApplicable("no slot takes context from another")
    total = m.setup.context_total or slots * context
    if total <= context:
        return NotApplicable("each slot may use the whole context")
    cuts = m.events.filter(pl.col("kind").is_in(_CUTS))
    if cuts.height:
        return _cut(m, cuts, total, context)
    t = m.thresholds(RULE)
    held = (m.generations["prompt_tokens"] + m.generations["output_tokens"]).drop_nulls()
    longest = held.quantile(0.95)
    if longest is None or held.len() < t["requests"]:
        return CannotTell("too few requests tell how much context is used")
    if longest < t["near_share"] * context:
        return NotApplicable("a slot's context is large enough")
    rows = m.generations.filter(pl.col("prompt_tokens") + pl.col("output_tokens") >= longest)
    return RULE.finding(
        title="Each slot has only a part of the context, and requests nearly fill it",
        confidence=Confidence.POSSIBLE,
        why=f"{slots} slots divide {count(total)} tokens of context: {count(context)} each. One request in "
        f"twenty needs {count(longest)} or more, so a slightly longer one will not fit.",
        evidence=(
            m.evidence("prompt and answer, 95th percentile", longest, "tokens", rows=rows),
            *_stated(m),
        ),
        requests=rows.height,
        fixes=tuple(_fixes(m)),
        fault=False,
    )


def _cut(m: Measures, cuts: pl.DataFrame, total: int, context: int) -> Finding | NotApplicable:
    over = cuts["value"].max()
    needed = context + float(over) if isinstance(over, int | float) else None
    if needed is not None and needed > total:
        return NotApplicable("not even the whole context would hold these prompts")
    told = f"the longest of them needs {count(needed)}" if needed else "how long they were is not logged"
    return RULE.finding(
        confidence=Confidence.LIKELY if needed is None else Confidence.CERTAIN,
        why=f"{m.setup.slots} slots divide {count(total)} tokens of context: {count(context)} each. Prompts "
        f"cut or refused for their length: {cuts.height:,}; {told}. One context for all slots would hold "
        f"{'it' if needed else count(total)}.",
        evidence=(
            m.evidence("prompts cut or refused", cuts.height, rows=cuts),
            m.evidence("tokens that the longest needs", needed, "tokens"),
            *_stated(m),
        ),
        requests=cuts.height,
        fixes=tuple(_fixes(m)),
        wont_help=("A shorter answer: the prompt alone did not fit.",),
    )


def _stated(m: Measures) -> Iterator[Evidence]:
    yield m.stated("slots", "slots")
    yield m.stated("context", "context of a slot", unit="tokens")
    if m.setup.context_total:
        yield m.stated("context_total", "context of all slots", unit="tokens")


def _fixes(m: Measures) -> Iterator[Fix]:
    if has_switch("unified-kv", m.engine):
        yield m.fix("unified-kv")
    yield from m.room.fewer_slots()
