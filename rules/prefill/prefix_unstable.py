"""A conversation's prompts change near the start, so nothing after that comes from the cache.

What it looks at:
    Requests that follow each other on one slot with growing prompts, as turns of a conversation do: at
    least five such pairs, four of five steps upwards. The cache should give a turn nearly all of the one
    before; here the median turn gets less than 30 % of what it could.

Why it matters:
    Caches reuse a prompt up to the first token that differs. One changing word at the top makes the engine
    read the whole history again, on every turn, and the history only grows.

When not to worry:
    Independent questions share no more than their instructions: their prompts don't grow turn by turn, and
    the rule doesn't fire. Neither does it where different users take turns on a slot, in the first turn
    after a start, or on turns for which the log says that the model's memory forced the reprocessing
    (`swa-hybrid-full-reprocess`).

What to change:
    Put what changes (date, ids, retrieved text) behind what stays. If prompts part within the first 100
    tokens, look at the first lines of the system prompt: Claude Code 2.1.36 and newer put a billing header
    there that changes with every request. The saving is this log's own prefill if each turn had reused 95 %
    of what the slot held.

Sources:
    ollama#14918, llama.cpp#20623, vllm#36829 (the header); claude-code-router#1220; kon#4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.measures import median
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule
from rules.savings import prefix_reused
from rules.sessions import REQUEST, STEPS, growing, in_place, reprocessed
from rules.words import duration, percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="prefix-unstable",
    phase=Phase.PREFILL,
    title="Each turn reads the whole conversation again",
    needs=("prompt_tokens", "cached_tokens", "prefill_ms"),
    remedies=("stable-prefix", "claude-code-header"),
    verify="Send two turns of one conversation: the second should evaluate little more than its new text.",
    sources=("ollama#14918", "llama.cpp#20623", "vllm#36829", "claude-code-router#1220", "kon#4"),
)

REUSED_SHARE = 0.3
"""A working cache gives more than 0.9, a broken one under 0.1; between lies a date behind long fixed text."""

REUSABLE = 0.95
"""Templates and stripped reasoning change the tail of the last turn a little."""

TOP_TOKENS = 100

_CACHE_REUSE = (
    "--cache-reuse: it bridges text that was taken out, not text that was changed; measured with a time "
    "stamp at the top of the prompt, it saved nothing."
)
_LOST = (REUSABLE * pl.col("reusable") - pl.col("cached_tokens")).clip(lower_bound=0)


def check(m: Measures) -> Answer:
    """Ask whether conversations miss the cache near their start."""
    turns = growing(m.turns.join(reprocessed(m.events), on=REQUEST, how="anti"))
    if not turns.height:
        return NotApplicable("no slot carries a conversation of growing prompts")
    turns = turns.drop_nulls(["cached_tokens", "prefill_ms"])
    if turns.height < STEPS:
        return CannotTell("cached tokens are not logged")
    missed = turns.filter(pl.col("cached_tokens") < REUSED_SHARE * pl.col("reusable"))
    reused = median(turns.select(pl.col("cached_tokens") / pl.col("reusable"))) or 0.0
    if reused >= REUSED_SHARE:
        return NotApplicable(f"{percent(reused)} of what a turn could reuse comes from the cache")
    prefill_ms = float(missed["prefill_ms"].sum())
    if not m.worth(prefill_ms, missed.height):
        return NotApplicable("too little time to matter")

    parts = median(missed.select("cached_tokens")) or 0.0
    reusable = median(missed.select("reusable")) or 0.0
    change = prefix_reused(in_place(m.turns, missed, _LOST))
    never = not missed["cached_tokens"].sum()
    at_top = parts < TOP_TOKENS
    return RULE.finding(
        confidence=Confidence.POSSIBLE if never else Confidence.LIKELY,
        why=f"{missed.height} turns of a growing conversation found {parts:,.0f} tokens in the cache where "
        f"{reusable:,.0f} could have been, and spent {duration(prefill_ms)} reading the history again. "
        + _where(parts, never=never),
        evidence=(
            m.evidence("from the cache, median turn", parts, "tokens", rows=missed),
            m.evidence("held from the turn before, median", reusable, "tokens", rows=missed),
            m.evidence("prefill of these turns", round(prefill_ms, 1), "ms"),
        ),
        requests=missed.height,
        saving=m.saving(change),
        change=change,
        fixes=(m.fix("stable-prefix"), *([m.fix("claude-code-header")] if at_top else [])),
        wont_help=(_CACHE_REUSE,) if m.engine in ("llama-server", "ollama") else (),
    )


def _where(parts: float, *, never: bool) -> str:
    if never:
        return "Not one token was reused: either the very first words change, or the prompt cache is off."
    if parts < TOP_TOKENS:
        return "Something in the first lines of the system prompt changes each time: a time stamp, an id."
    return f"Something about {parts:,.0f} tokens into the prompt changes each time."
