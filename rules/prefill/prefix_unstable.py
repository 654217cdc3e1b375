"""A conversation's prompts change near the start, so nothing after that comes from the cache.

What it looks at:
    Requests that follow each other on one slot with growing prompts, as turns of a conversation do: at
    least five such pairs, four of five steps upwards, each with room for the answer before it. The cache
    should give a turn all of the prompt before; here the median turn gets less than 30 % of it, or less
    than 70 % and always up to the same place. Four pairs, steps that are too short for the answers, or steps
    that don't grow with them make it possible and no more. So do turns that come back to a slot that another
    conversation used, where a prompt cache in the machine's memory has room and would have brought them back.

Why it matters:
    Caches reuse a prompt up to the first token that differs. One changing word at the top makes the engine
    read the whole history again, on every turn, and the history only grows.

When not to worry:
    Independent questions share no more than their instructions: their prompts don't grow turn by turn, and
    the rule doesn't fire. Prompts of a batch that is sorted by length do grow, but have no room for the
    answers, or steps that have nothing to do with them. The rule is also silent where different users take
    turns on a slot, in the first turn after a start, and on turns for which the log says that the model's
    memory forced the reprocessing (`swa-hybrid-full-reprocess`).

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

from rules.conversations import pushed_out
from rules.frames import known, passing, without
from rules.prefill import media_reprocessed
from rules.prefill.cache_evicted import host_cache_full, host_cache_on
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.savings import prefix_reused
from rules.sessions import BRIEF_STEPS, REUSABLE, STEPS, TOP_TOKENS, answers_fit, carry, growing, in_place
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
    thresholds={
        "reused_share": Threshold(
            0.3,
            "share of the prompt before below which the median turn misses the cache; a change near the "
            "top leaves under 0.1",
        ),
        "deep_share": Threshold(
            0.7,
            "the same where all prompts part at one place behind long fixed text; a working cache gives "
            "more than 0.9",
        ),
    },
)

ONE_PLACE = 0.1
"""Standard deviation over mean below which prompts part at one place."""

NEARLY_ALL = 0.9

_CACHE_REUSE = (
    "--cache-reuse: it bridges text that was taken out, not text that was changed; measured with a time "
    "stamp at the top of the prompt, it saved nothing."
)


def _lost(reusable: pl.Expr) -> pl.Expr:
    return (REUSABLE * reusable - pl.col("cached_tokens")).clip(lower_bound=0)


def check(m: Measures) -> Answer:
    """Ask whether conversations miss the cache near their start."""
    t = m.thresholds(RULE)
    if m.finds(media_reprocessed):
        return NotApplicable("media-reprocessed says it")
    turns = m.grown
    steady = turns.height > 0
    if not steady:
        turns = growing(m.turns, BRIEF_STEPS, but=m.reprocessed)
        if not carry(turns):
            return _not_brought_back(m)
    turns = known(passing(turns, pl.col("previous") > 0), ["cached_tokens", "prefill_ms"])
    if turns.height < (STEPS if steady else BRIEF_STEPS):
        return CannotTell("cached tokens are not logged")
    reused = median(turns.select(pl.col("cached_tokens") / pl.col("previous"))) or 0.0
    missed = turns.filter(pl.col("cached_tokens") < t["deep_share"] * pl.col("previous"))
    if reused >= t["deep_share"] or (reused >= t["reused_share"] and not _part_at_one_place(missed)):
        return NotApplicable(f"{percent(reused)} of the prompt before comes from the cache")
    parts = median(missed.select("cached_tokens")) or 0.0
    at_top, reused_once = parts < TOP_TOKENS, _reused_once(m, turns, parts)
    one_talk = carry(turns) or reused_once
    never = not missed["cached_tokens"].sum()
    if (at_top and not one_talk) or (never and not steady):
        return CannotTell("prompts that share no beginning may be strangers sorted by length")
    change = prefix_reused(in_place(m.turns, missed, _lost(pl.col("reusable"))))
    likely = steady and not never and (reused_once or (one_talk and answers_fit(turns) is not False))
    saving = m.saving(change, bound="estimate" if likely else "at_most")
    if not m.worth(saving.ms, missed.height):
        return NotApplicable("too little time to matter")

    reusable = median(missed.select("reusable")) or 0.0
    prefill_ms = float(missed["prefill_ms"].sum())
    whose, rest = "turns of a growing conversation", "the history again"
    if not likely:
        whose, rest = "requests, each longer than the one before,", "the rest"
    return RULE.finding(
        confidence=Confidence.LIKELY if likely else Confidence.POSSIBLE,
        why=f"{missed.height:,} {whose} found {parts:,.0f} tokens in the cache where {reusable:,.0f} could "
        f"have been, and spent {duration(prefill_ms)} reading {rest}. "
        + _where(parts, never=never, likely=likely),
        evidence=(
            m.evidence("from the cache, median turn", parts, "tokens", rows=missed),
            m.evidence("held from the turn before, median", reusable, "tokens", rows=missed),
            m.evidence("prefill of these turns", round(prefill_ms, 1), "ms"),
        ),
        requests=missed.height,
        saving=saving,
        change=change,
        fixes=(m.fix("stable-prefix"), *([m.fix("claude-code-header")] if at_top else [])),
        wont_help=(_CACHE_REUSE,) if m.engine in ("llama-server", "ollama") else (),
    )


def _reused_once(m: Measures, turns: pl.DataFrame, parts: float) -> bool:
    """Whether one of these slots once had nearly a whole prompt, far beyond the place where they part now."""
    least = pl.max_horizontal(NEARLY_ALL * pl.col("prompt"), pl.lit(2 * parts))
    found = without(m.turns.filter(pl.col("cached_tokens") >= least), m.reprocessed)
    return found.join(turns, on="talk", how="semi").height > 0


def _part_at_one_place(missed: pl.DataFrame) -> bool:
    mean, deviation = missed["cached_tokens"].mean(), missed["cached_tokens"].std()
    return isinstance(mean, float) and isinstance(deviation, float) and deviation < ONE_PLACE * mean


def _where(parts: float, *, never: bool, likely: bool) -> str:
    if never:
        return "Not one token was reused: either the very first words change, or the prompt cache is off."
    where = f"about {parts:,.0f} tokens into the prompt changes each time."
    if parts < TOP_TOKENS:
        where = "in the first lines of the system prompt changes each time: a time stamp, an id."
    if likely:
        return f"Something {where}"
    return f"If they are turns of one conversation and no batch that is sorted by length, something {where}"


def _not_brought_back(m: Measures) -> Answer:
    """Turns that lost their slot to another conversation, though a cache with room keeps every prompt."""
    if not host_cache_on(m) or host_cache_full(m).height:
        return NotApplicable("no slot carries a conversation of growing prompts")
    out = pushed_out(m, STEPS)
    if out is None or out.shown:
        return NotApplicable("no slot carries a conversation of growing prompts")
    change = prefix_reused(in_place(m.turns, out.lost, _lost(pl.min_horizontal("kept", "prompt"))))
    saving = m.saving(change, bound="at_most")
    if not m.worth(saving.ms, out.lost.height):
        return NotApplicable("too little time to matter")
    kept, came = median(out.lost.select("kept")) or 0.0, median(out.lost.select("cached_tokens")) or 0.0
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"{out.lost.height:,} requests, each seemingly a turn of one of {out.sessions} conversations "
        f"that share a slot, found {came:,.0f} tokens in the cache where {kept:,.0f} could have been. The "
        "prompt cache in the machine's memory is on and has room: it would have brought them back, up to the "
        "first token that differs.",
        evidence=(
            m.evidence("from the cache, median turn", came, "tokens", rows=out.lost),
            m.evidence("left by the turn before, median", kept, "tokens"),
            *(
                [m.stated("host_cache_bytes", "prompt cache in the machine's memory", unit="bytes")]
                if m.setup.host_cache_bytes
                else []
            ),
        ),
        requests=out.lost.height,
        saving=saving,
        change=change,
        fixes=(m.fix("stable-prefix"),),
        wont_help=("A larger prompt cache: this one has room.",),
        verify="Send two turns of one conversation with nothing in between: if the second is cached, its "
        "text does not change, and a slot for each conversation is what they need.",
    )
