"""Prompts look like too many retrieved chunks for a short answer.

What it looks at:
    The shape of the long prompts: at least five of them over 1,500 tokens, all about equally long, hardly
    cached, and answered with less than a tenth of their length. That is what a retriever with a fixed
    number of chunks makes.

Why it matters:
    Every chunk is read for every question, needed or not, and each costs its share of the time to first
    token.

When not to worry:
    Prompts that grow turn by turn are a conversation, however short. Long fixed instructions look like
    chunks, so this is never more than possible; they cost little once they are cached. Where reading takes
    much of the time, `prefill-dominates-long-prompt` says the same with more certainty, and this rule is
    silent.

What to change:
    Retrieve fewer chunks. The saving is this log's own prefill with a quarter of the chunks, as in
    `prefill-dominates-long-prompt`: an estimate, since the log does not say what prompts hold.

Sources:
    Prefill cost in prompt length: Kaplan et al. 2020, arXiv:2001.08361.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.measures import FEW
from rules.prefill import context_shift_invalidates, prefill_dominates_long_prompt
from rules.prefilling import plausible_rate
from rules.prompts import (
    CHUNKS,
    KEPT_CHUNKS,
    cached_share,
    equally_long,
    fewer_chunks,
    lengths,
    long_prompts,
)
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.sessions import may_grow
from rules.words import duration, percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="rag-chunks-too-many",
    phase=Phase.PREFILL,
    title="Prompts look like many retrieved chunks for a short answer",
    needs=("prompt_tokens", "prefill_ms", "output_tokens"),
    remedies=("fewer-chunks",),
    verify="Print one prompt and count its chunks; lower top_k and compare answers and time to first token.",
    sources=("arXiv:2001.08361",),
    fault=False,
    thresholds={
        "long_tokens": Threshold(1_500, "tokens from which a prompt may hold many chunks"),
        "output_share": Threshold(0.1, "answer over prompt, in tokens, below which an answer is short"),
        "cached_share": Threshold(0.3, "share of a prompt from the cache from which it is no fresh text"),
    },
)


def check(m: Measures) -> Answer:
    """Ask whether the prompts have the shape of retrieval."""
    t = m.thresholds(RULE)
    rows = long_prompts(m.turns).filter(
        (pl.col("prompt") > t["long_tokens"]) & pl.col("truncated").fill_null(value=False).not_()
    )
    if not m.turns["prompt"].count() or not m.turns["prefill_ms"].count():
        return CannotTell("prompt tokens or prefill times are not logged")
    if rows.height < FEW:
        return NotApplicable("too few long prompts to have a shape")
    if may_grow(m.turns):
        return NotApplicable("the prompts grow turn by turn, as a conversation does")
    if not equally_long(rows):
        return NotApplicable("the long prompts differ in length")
    answer = median(rows.select(pl.col("output_tokens") / pl.col("prompt")))
    if answer is None or answer >= t["output_share"]:
        return NotApplicable("the answers are long for their prompts")
    cached = cached_share(rows)
    if cached is not None and cached >= t["cached_share"]:
        return NotApplicable(f"{percent(cached)} of a prompt comes from the cache")
    prefill_ms = float(rows["prefill_ms"].sum())
    if not m.worth(prefill_ms, rows.height):
        return NotApplicable("too little time to matter")
    if plausible_rate(m) is False:
        return NotApplicable("prompts are read too slowly for this GPU, and that comes first")
    if m.finds(context_shift_invalidates):
        return NotApplicable("context-shift-invalidates says it")
    if m.finds(prefill_dominates_long_prompt):
        return NotApplicable("prefill-dominates-long-prompt says it")
    change = fewer_chunks(m.turns, rows)
    prompt = median(rows.select("prompt")) or 0.0
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"{rows.height:,} prompts of about {prompt:,.0f} tokens ({lengths(rows)}) get answers of "
        f"{percent(answer)} of their length, and reading them takes {duration(prefill_ms)}. If each holds "
        f"{CHUNKS} retrieved chunks, {KEPT_CHUNKS} may do.",
        evidence=(
            m.evidence("prompt, median", prompt, "tokens", rows=rows),
            m.evidence("answer over prompt, median", round(answer, 4), "share"),
            m.evidence("reading these prompts", round(prefill_ms, 1), "ms"),
            m.evidence("assumed chunks in a prompt", CHUNKS),
        ),
        requests=rows.height,
        saving=m.saving(change),
        change=change,
        fixes=(m.fix("fewer-chunks", keep=KEPT_CHUNKS, of=CHUNKS),),
    )
