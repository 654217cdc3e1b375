"""Every prompt starts with thousands of tokens, for short answers, and they are read each time.

What it looks at:
    At least ten requests to one model of which none has a prompt under 3,000 tokens, several are about as
    long as the shortest, the lengths differ, and the answers are short; and how much of the shortest prompt
    comes from the cache.

Why it matters:
    What even the shortest prompt holds is the fixed part: instructions and descriptions of tools. An agent
    with many tools sends them with every step.

When not to worry:
    A fixed part that comes from the cache costs nothing after the first request. Prompts of one length look
    like retrieved text, and speak through `rag-chunks-too-many` and `prefill-dominates-long-prompt`. What
    prompts hold is not in the log, so this is never more than possible.

What to change:
    Send only the tools that a request may need, with short descriptions; and keep the fixed part unchanged,
    so that it is cached. The saving is half of the shortest prompt less to read for each request: an upper
    bound.

Sources:
    claude-code-router#1217.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.frames import known, without
from rules.prefill import cache_prompt_off, prefix_unstable, rag_chunks_too_many
from rules.prompts import spread
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.savings import prompts_cut
from rules.sessions import EVALUATED
from rules.words import duration

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="tool-schema-bloat",
    phase=Phase.PREFILL,
    title="Every prompt carries thousands of tokens for short answers",
    needs=("prompt_tokens", "cached_tokens", "prefill_ms", "output_tokens"),
    remedies=("trim-tools", "stable-prefix"),
    verify="Print one short request as it is sent: count the tokens of its system message and its tools.",
    sources=("claude-code-router#1217",),
    thresholds={
        "requests": Threshold(10, "to one model; fewer show no fixed part (first guess)"),
        "fixed": Threshold(3_000, "tokens of the shortest prompt (first guess)"),
        "answer": Threshold(300, "tokens of a short answer, median (first guess)"),
        "cached": Threshold(
            0.8, "of the shortest prompt, from the cache: then it costs nothing (first guess)"
        ),
        "removable": Threshold(0.5, "of the fixed part that may be left out (first guess)"),
    },
    fault=False,
)

VARIED = 0.25
"""Standard deviation over mean of the lengths; prompts that vary less may all be text of about one length."""

NEAR, NEAR_ENOUGH = 1.1, 3
"""Prompts about as short as the shortest: chance rarely leaves several there, a fixed part does."""

_NAMED = (prefix_unstable, cache_prompt_off, rag_chunks_too_many)


def check(m: Measures) -> Answer:
    """Ask whether a long fixed part is read with every request."""
    t = m.thresholds(RULE)
    rows = _one_model(known(m.turns, ["prompt_tokens", "output_tokens", "prefill_ms"]))
    if rows.height < t["requests"]:
        return NotApplicable("too few requests to show a fixed part")
    shortest = int(rows["prompt_tokens"].sort()[0])
    if shortest < t["fixed"]:
        return NotApplicable(f"the shortest prompt has {shortest:,} tokens")
    if (median(rows.select("output_tokens")) or 0.0) >= t["answer"]:
        return NotApplicable("the answers are long")
    near = rows.filter(pl.col("prompt_tokens") <= NEAR * shortest)
    if (spread(rows) or 0.0) < VARIED or near.height < NEAR_ENOUGH:
        return NotApplicable("the lengths show no fixed part")
    told = without(rows.drop_nulls("cached_tokens"), m.reprocessed)
    if not told.height:
        return CannotTell("cached tokens are not logged, and a fixed part may come from the cache")
    cached = median(told.select("cached_tokens")) or 0.0
    if cached >= t["cached"] * shortest:
        return NotApplicable("the fixed part comes from the cache")
    if any(m.finds(rule) for rule in _NAMED):
        return NotApplicable("a rule that knows more about these prompts says it")
    cut = t["removable"] * shortest
    whole = EVALUATED.cast(pl.Float64).fill_null(0)
    fewer = m.turns.select(whole).to_series().to_numpy().copy()
    fewer[told["row"].to_numpy()] = told.select((whole - cut).clip(lower_bound=1)).to_series().to_numpy()
    change = prompts_cut(fewer)
    saving = m.saving(change, bound="at_most")
    if not m.worth(saving.ms, told.height):
        return NotApplicable("too little time to matter")
    answer = median(rows.select("output_tokens")) or 0.0
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"None of {rows.height:,} prompts is under {shortest:,} tokens, for answers of {answer:,.0f}. "
        f"{cached:,.0f} of them come from the cache; the rest was read every time, "
        f"{duration(float(told['prefill_ms'].sum()))} in all. It may be instructions and tools.",
        evidence=(
            m.evidence("shortest prompt", shortest, "tokens", rows=near),
            m.evidence("about as short", near.height, "requests", rows=near),
            m.evidence("answer, median", answer, "tokens"),
            m.evidence("from the cache, median", cached, "tokens", rows=told),
        ),
        requests=told.height,
        saving=saving,
        change=change,
        fixes=(m.fix("trim-tools"), m.fix("stable-prefix")),
    )


def _one_model(rows: pl.DataFrame) -> pl.DataFrame:
    """The requests to the model that is asked most."""
    if not rows.height:
        return rows
    size = rows.select(pl.len().over("model")).to_series()
    return rows.filter(size == size.max()).filter(pl.col("model").eq_missing(pl.col("model").first()))
