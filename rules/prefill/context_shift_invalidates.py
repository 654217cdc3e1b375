"""The prompt is at its limit, and dropping old text makes each turn read all of it again.

What it looks at:
    Conversations that grew with a working cache and then stay at one length: three or more turns in a row
    that are no longer than the one before, though an answer was added, and of which most is evaluated.

Why it matters:
    A client that drops the oldest message at every turn changes the prompt right behind its beginning. All
    that follows is then new to the cache, and the prompt is at its longest.

When not to worry:
    KoboldCpp's ContextShift moves what is left and evaluates little; then the rule is silent. Retrieved text
    of equal length has no growing conversation before it. Where turns miss the cache while they still grow,
    `prefix-unstable` speaks.

What to change:
    Drop much at once and rarely: with 30 % taken out, the next turns are served from the cache until the
    prompt is full again. A larger context puts it off. The saving is this log's own prefill with one full
    read for each such step, at the growth that the conversation had.

Sources:
    koboldcpp#2469, koboldcpp#681, text-generation-webui#4588; llama.cpp tools/server (`--cache-reuse`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.contexts import doubled_context
from rules.frames import without
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.savings import prefix_reused
from rules.sessions import CARRIED_SHARE, REUSABLE, in_place
from rules.words import duration

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="context-shift-invalidates",
    phase=Phase.PREFILL,
    title="At the limit of the prompt, each turn drops old text and reads the rest again",
    needs=("prompt_tokens", "prefill_tokens", "prefill_ms"),
    remedies=("trim-in-steps", "raise-context"),
    verify="Drop a third of the history at once: the turns after that should evaluate only their new text.",
    sources=("koboldcpp#2469", "koboldcpp#681", "text-generation-webui#4588"),
    thresholds={
        "turns": Threshold(3, "turns in a row at one length that are read anew (first guess)"),
        "served": Threshold(3, "turns before them that the cache served (first guess)"),
        "dropped": Threshold(0.3, "of the prompt, to drop at once (first guess)"),
    },
)

FLAT = 0.15
"""A message that is dropped and another that is added leave the length about where it was."""

_NEEDED = ("source", "line", "row", "talk", "context_tokens", "output_tokens", "prefill_tokens", "prefill_ms")

WHOLE_SHARE, SERVED_SHARE = 0.5, 0.3
"""Of a prompt, evaluated: most of it, or little more than what is new."""


def check(m: Measures) -> Answer:
    """Ask whether a conversation that the cache served is read anew since it stopped growing."""
    t = m.thresholds(RULE)
    told = _sized(m.turns, m.reprocessed)
    if not told.height:
        return CannotTell("prompts and what of them was evaluated are not both logged")
    full = told.filter(
        "anew", pl.len().over("talk", "stretch") >= t["turns"], pl.col("served_before") >= t["served"]
    )
    if not full.height:
        return NotApplicable("no conversation stays at one length and is read anew each turn")
    served = told.filter("served").join(full, on="talk", how="semi")
    step = max(median(served.select(pl.col("size") - pl.col("size_before"))) or 1.0, 1.0)
    size = median(full.select("size")) or 0.0
    turns = max(t["dropped"] * size / step, 1.0)
    lost = REUSABLE * pl.min_horizontal("kept", "size") - (pl.col("size") - pl.col("prefill_tokens"))
    change = prefix_reused(in_place(m.turns, full, lost.clip(lower_bound=0) * (1 - 1 / turns)))
    saving = m.saving(change)
    if not m.worth(saving.ms, full.height):
        return NotApplicable("too little time to matter")
    evaluated = median(full.select("prefill_tokens")) or 0.0
    return RULE.finding(
        confidence=Confidence.LIKELY,
        why=f"The prompt stopped growing at about {size:,.0f} tokens, though a turn adds some {step:,.0f}: "
        f"old text is dropped every time. {full.height:,} such turns evaluated {evaluated:,.0f} tokens each, "
        f"{duration(float(full['prefill_ms'].sum()))} in all; the turns before had come from the cache.",
        evidence=(
            m.evidence("prompt since it stopped growing, median", size, "tokens", rows=full),
            m.evidence("evaluated of it, median", evaluated, "tokens", rows=full),
            m.evidence("a turn adds, median while it grew", step, "tokens", rows=served),
            *([m.stated("context", "context of a request", unit="tokens")] if m.setup.context else []),
        ),
        requests=full.height,
        saving=saving,
        change=change,
        fixes=(m.fix("trim-in-steps", percent=f"{100 * t['dropped']:.0f}"), *doubled_context(m)),
        wont_help=("A stable system prompt alone: it is what follows it that moves.",),
    )


def _sized(turns: pl.DataFrame, reprocessed: pl.Series) -> pl.DataFrame:
    """The turns in order, with what stood there before and whether they were read anew or served.

    Those that the engine says it reprocessed are left out.
    """
    size = pl.coalesce("prompt_tokens", pl.col("context_tokens") - pl.col("output_tokens"))
    before = pl.col("size", "output_tokens", "kept_after").shift(1).over("talk").name.suffix("_before")
    answer = CARRIED_SHARE * pl.col("output_tokens_before")
    flat = (pl.col("size") - pl.col("size_before")).abs() <= FLAT * pl.col("size_before")
    dropped = pl.col("size") < pl.col("size_before") + answer
    return (
        without(turns.select(*_NEEDED, size=size), reprocessed)
        .with_columns(kept_after=pl.coalesce("context_tokens", pl.col("size") + pl.col("output_tokens")))
        .drop_nulls(["size", "prefill_tokens", "prefill_ms"])
        .filter(pl.col("size") >= pl.col("prefill_tokens"))
        .sort("talk", maintain_order=True)
        .with_columns(before)
        .with_columns(
            kept=pl.col("kept_after_before"),
            anew=(flat & dropped & (pl.col("prefill_tokens") >= WHOLE_SHARE * pl.col("size"))).fill_null(
                value=False
            ),
            served=(
                (pl.col("size") > pl.col("size_before"))
                & (pl.col("prefill_tokens") <= SERVED_SHARE * pl.col("size"))
            ).fill_null(value=False),
        )
        .with_columns(
            stretch=pl.col("anew").rle_id().over("talk"),
            served_before=pl.col("served").cum_sum().over("talk"),
        )
    )
