"""Conversations share too few slots and push each other's text out of them.

What it looks at:
    Requests that go on with an earlier one (see `rules.conversations`): what came from the cache where
    another conversation had used the slot in between, and where none had.

Why it matters:
    A slot holds one conversation. Where two take turns on it, every turn reads its whole history again,
    though nothing in it has changed.

When not to worry:
    One conversation alone can't be pushed out: there `prefix-unstable` speaks. Independent questions have
    nothing to lose, nor a batch that is sorted by length. A server that keeps prompts in the machine's memory
    (llama-server since October 2025) brings a conversation back to its slot: full, it is `cache-evicted`;
    with room, turns that find nothing have changed (`prefix-unstable`), unless single turns show that they
    have not.

What to change:
    A slot for each conversation, with its context; else a prompt cache in the machine's memory, from which
    llama-server restores a conversation in a fraction of a second. Where single turns show that the cache
    works when nobody interferes, the saving is this log's own prefill with 95 % of the turn before reused;
    without such turns it is an upper bound.

Sources:
    llama.cpp#16391 (prompt cache in host memory), llama.cpp#22921, llama.cpp#13194.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.conversations import pushed_out
from rules.frames import known
from rules.measures import FEW
from rules.prefill import prefix_unstable
from rules.prefill.cache_evicted import host_cache_full, host_cache_on, larger_cache
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.savings import prefix_reused
from rules.sessions import REUSABLE, in_place
from rules.words import duration, plural

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.rule import Answer

RULE = Rule(
    id="slot-thrash",
    phase=Phase.PREFILL,
    title="Conversations push each other out of their slots",
    needs=("slot", "prompt_tokens", "cached_tokens", "prefill_ms"),
    remedies=("slot-per-session", "more-host-cache"),
    verify="Send two turns of one conversation with nothing in between: the second should be cached.",
    sources=("llama.cpp#16391", "llama.cpp#22921", "llama.cpp#13194"),
    thresholds={
        "lost": Threshold(FEW, "turns that were pushed out; fewer show no pattern"),
        "most_slots": Threshold(
            8, "slots from which a prompt cache in RAM is the better advice (first guess)"
        ),
    },
)

_LOST = (REUSABLE * pl.min_horizontal("kept", "prompt") - pl.col("cached_tokens")).clip(lower_bound=0)


def check(m: Measures) -> Answer:
    """Ask whether turns miss the cache just where another conversation used their slot."""
    if not m.generations["slot"].count():
        return NotApplicable("no slots are logged")
    told = known(m.turns, ["slot", "prompt", "cached_tokens", "prefill_ms"])
    if not told.height:
        return CannotTell("cached tokens are not logged")
    missed = told.filter(2 * pl.col("cached_tokens") < pl.col("prompt"))
    if not m.worth(float(missed["prefill_ms"].sum()), missed.height):
        return NotApplicable("most of what is read comes from the cache, or takes little time")
    if host_cache_full(m).height:
        return NotApplicable("the prompt cache is full: cache-evicted says it")
    out = pushed_out(m, m.thresholds(RULE)["lost"])
    if out is None:
        return NotApplicable("no conversations are seen that push each other out")
    lost, alone, sessions, likely = out.lost, out.alone, out.sessions, out.shown
    if not likely and host_cache_on(m):
        return NotApplicable("the prompt cache in the machine's memory has room and would bring them back")
    if m.finds(prefix_unstable):
        return NotApplicable("prefix-unstable says it")
    change = prefix_reused(in_place(m.turns, lost, _LOST))
    saving = m.saving(change, bound="estimate" if likely else "at_most")
    if not m.worth(saving.ms, lost.height):
        return NotApplicable("too little time to matter")

    kept, came = median(lost.select("kept")) or 0.0, median(lost.select("cached_tokens")) or 0.0
    contrast = f" The {alone.height:,} turns with nothing in between found theirs." if likely else ""
    evicted = m.events.filter(pl.col("kind") == "cache_miss")
    return RULE.finding(
        confidence=Confidence.LIKELY if likely else Confidence.POSSIBLE,
        why=f"Up to {sessions} conversations take turns on {plural(told['slot'].n_unique(), 'slot')}. "
        f"{lost.height:,} turns came back to a slot that another had used: they found {came:,.0f} tokens "
        f"where {kept:,.0f} had been, and spent "
        f"{duration(float(lost['prefill_ms'].sum()))} reading their history again.{contrast}",
        evidence=(
            m.evidence("turns whose slot was taken", lost.height, "requests", rows=lost),
            m.evidence("tokens they had left there, median", kept, "tokens"),
            m.evidence("tokens they found, median", came, "tokens", rows=lost),
            *([m.evidence("turns with nothing in between", alone.height, rows=alone)] if likely else []),
            *(
                [m.evidence("slots chosen without a common prompt", evicted.height, rows=evicted)]
                if evicted.height
                else []
            ),
            *([m.stated("slots", "slots")] if m.setup.slots else []),
        ),
        requests=lost.height,
        saving=saving,
        change=change,
        fixes=_fixes(m, sessions),
        wont_help=("A stable prompt: it is stable already, only its slot is taken.",) if likely else (),
    )


def _fixes(m: Measures, sessions: int) -> tuple[Fix, ...]:
    """A slot for each, unless there are too many or enough already; and a cache in RAM, if it is not on."""
    on, now = host_cache_on(m), m.setup.slots or 1
    if sessions > m.thresholds(RULE)["most_slots"] or (now >= sessions and not on):
        return (larger_cache(m),)
    slots, context = max(now, sessions), m.setup.context
    own = m.fix("slot-per-session", slots=slots, total=slots * context if context else f"<{slots} contexts>")
    return (own,) if on else (own, larger_cache(m))
