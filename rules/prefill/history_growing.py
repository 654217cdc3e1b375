"""A conversation is on its way to the end of its context.

What it looks at:
    Conversations whose prompts grow turn by turn, to at least twice their first length and 60 % of the
    context, while the cache works: each turn gets at least 70 % of the prompt before from it.

Why it matters:
    As long as the cache works, a long history costs little. When the context is full, the engine cuts the
    prompt, refuses it, or the client drops old messages; then every turn reads all of it again.

When not to worry:
    Conversations that end before that. Where the cache does not work, that comes first
    (`prefix-unstable`). Where text has been cut already, `prompt-truncated` speaks.

What to change:
    Summarise old turns once, at about 75 % of the context. A summary changes the prompt from its place on,
    so it costs one full read; that is why it should be rare. No time is claimed: until the context is full
    there is none to win.

Sources:
    llama.cpp tools/server (context size, prompt cache).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.contexts import doubled_context
from rules.frames import known
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.words import percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="history-growing",
    phase=Phase.PREFILL,
    title="A conversation is about to fill its context",
    needs=("prompt_tokens", "cached_tokens", "context"),
    remedies=("summarise-history", "raise-context"),
    verify="After a summary the prompt is short again, and the turn after it comes from the cache.",
    thresholds={
        "used": Threshold(0.6, "of the context, from which it is time to act (first guess)"),
        "growth": Threshold(2.0, "longest prompt over the first one of its conversation (first guess)"),
        "reused": Threshold(0.7, "of the prompt before, from the cache; a working one gives more than 0.9"),
        "summarise_at": Threshold(0.75, "of the context, where the advice puts the summary (first guess)"),
    },
    fault=False,
)

CUT = ("prompt_truncated", "context_exceeded", "context_shift")


def check(m: Measures) -> Answer:
    """Ask whether a conversation that the cache serves well is about to outgrow its context."""
    t = m.thresholds(RULE)
    turns = m.grown
    if not turns.height:
        return NotApplicable("no slot carries a conversation of growing prompts")
    told = known(turns, ["cached_tokens"])
    if not told.height:
        return CannotTell("cached tokens are not logged")
    if m.setup.context is None:
        return CannotTell("the log does not say how large the context is")
    reused = median(told.select(pl.col("cached_tokens") / pl.col("previous"))) or 0.0
    if reused < t["reused"]:
        return NotApplicable("the cache does not serve these turns, and that comes first")
    if m.events.filter(pl.col("kind").is_in(CUT)).height or m.generations["truncated"].any():
        return NotApplicable("text was cut already: prompt-truncated says it")
    longest = told.filter(pl.col("prompt") == pl.col("prompt").max())[:1]
    last, talk = int(longest["prompt"].item()), longest["talk"].item()
    same = told.filter(pl.col("talk") == talk)
    first = int(same.select(pl.col("previous").min()).item())
    context = m.setup.context
    if last < t["used"] * context or last < t["growth"] * first:
        return NotApplicable(f"the longest prompt takes {percent(last / context)} of the context")
    step = median(same.select(pl.col("prompt") - pl.col("previous"))) or 1.0
    left = max(int((context - last) / max(step, 1.0)), 0)
    return RULE.finding(
        confidence=Confidence.LIKELY,
        why=f"A conversation grew from {first:,} to {last:,} tokens, {percent(last / context)} of its "
        f"context, by {step:,.0f} a turn. The cache serves it well, but after about {left} more turns the "
        "context is full: then text is cut, or each turn reads all of it again.",
        evidence=(
            m.evidence("longest prompt", last, "tokens", rows=longest),
            m.evidence("a turn adds, median", step, "tokens", rows=same),
            m.evidence("from the cache, median of the prompt before", round(reused, 4), "share"),
            m.stated("context", "context of a request", unit="tokens"),
        ),
        requests=same.height,
        fixes=(m.fix("summarise-history", at=f"{t['summarise_at'] * context:,.0f}"), *doubled_context(m)),
        wont_help=("Summarising at every turn: each summary makes the engine read the prompt again.",),
    )
