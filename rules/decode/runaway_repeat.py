"""A few answers run on until a limit stops them, and take the time of many.

What it looks at:
    The longest answers: at most one request in twenty, each eight times the median or longer, that did not
    end by themselves. The engine says that it ended them for length, the context was full, or
    several end at exactly the greatest length.

Why it matters:
    Such an answer is mostly one that repeats itself: no reader wants it, and it holds its slot all the
    while.

When not to worry:
    A report among chat answers is long too, but ends by itself.

What to change:
    Stop sequences, the model's own chat template, and a cap that no good answer reaches. The saving is this
    log with those answers as long as the longest of the others.

Sources:
    Holtzman et al. 2020, arXiv:1904.09751 (models that repeat themselves); Ollama llm/llama_server.go
    (without num_predict it ends at ten times num_ctx).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.savings import output_capped
from rules.words import duration

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="runaway-repeat",
    phase=Phase.DECODE,
    title="A few answers run on until a limit stops them",
    needs=("output_tokens", "decode_ms"),
    remedies=("stop-sequences", "cap-output"),
    verify="Read one of these answers: if it repeats itself, the stop is missing.",
    sources=("arXiv:1904.09751", "Ollama llm/llama_server.go"),
    thresholds={
        "times": Threshold(8.0, "tokens of such an answer over those of the median; first guess"),
        "share": Threshold(0.05, "of the requests, at most: more is no exception; first guess"),
        "requests": Threshold(20, "requests, fewer of which have no exceptions; first guess"),
    },
)

FULL = 0.98
"""Of the context."""

ONE_LENGTH = 2
"""Answers that are all exactly the longest: only a cap does that."""


def check(m: Measures) -> Answer:
    """Ask whether a few endless answers take much of the time."""
    t = m.thresholds(RULE)
    rows = m.generations.drop_nulls(["output_tokens", "decode_ms"])
    if rows.height < t["requests"]:
        return CannotTell("too few answers to tell an exception from the rule")
    usual = median(rows.select("output_tokens")) or 0.0
    far = rows.filter(pl.col("output_tokens") >= t["times"] * max(usual, 1.0))
    if not far.height or far.height > t["share"] * rows.height:
        return NotApplicable("no answers are far longer than the others, or too many to be exceptions")
    stopped = _stopped(m, far)
    if not stopped.height:
        return NotApplicable("the longest answers ended by themselves")
    others = rows.join(stopped, on=["source", "line"], how="anti").sort("output_tokens")
    longest = int(others["output_tokens"][-1])
    change = output_capped(longest)
    saving = m.saving(change)
    if not m.worth(saving.ms, stopped.height):
        return NotApplicable("too little time to matter")
    said = (stopped["finish_reason"] == "length").any() or stopped["truncated"].any()
    return RULE.finding(
        confidence=Confidence.LIKELY if said else Confidence.POSSIBLE,
        why=f"{stopped.height:,} of {rows.height:,} answers ran on to "
        f"{median(stopped.select('output_tokens')):,.0f} tokens until a limit stopped them, where the median "
        f"answer has {usual:,.0f}. They took {duration(float(stopped['decode_ms'].sum()))} of "
        f"{duration(m.wall_ms)}.",
        evidence=(
            m.evidence("answers stopped by a limit", stopped.height, "requests", rows=stopped),
            m.evidence("tokens of these, median", median(stopped.select("output_tokens")), "tokens"),
            m.evidence("tokens of all answers, median", usual, "tokens"),
            m.evidence("longest of the others", longest, "tokens"),
        ),
        requests=stopped.height,
        saving=saving,
        change=change,
        fixes=(m.fix("stop-sequences"), m.fix("cap-output", to=longest)),
    )


def _stopped(m: Measures, far: pl.DataFrame) -> pl.DataFrame:
    """Those that something other than the model ended."""
    held = pl.coalesce("context_tokens", pl.col("prompt_tokens") + pl.col("output_tokens"))
    full = held >= FULL * m.setup.context if m.setup.context else pl.lit(False)
    most = pl.col("output_tokens") == pl.col("output_tokens").max()
    by_cap = most & (most.sum() >= ONE_LENGTH)
    ended = pl.col("finish_reason")
    unknown = ended.is_null() & (pl.col("truncated").fill_null(False) | full.fill_null(False) | by_cap)
    return far.filter((ended == "length") | unknown)
