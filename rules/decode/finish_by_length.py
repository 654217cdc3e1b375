"""Answers end because they reach a limit, not because they are done.

What it looks at:
    How many requests the engine ended for length, where it logs why a request ended: more than one in five of
    five or more. The lengths at which they end tell which limit it was: the context, or the cap of the
    request.

Why it matters:
    The reader gets half an answer, half a table, JSON that doesn't parse. Where the model simply does not
    stop, each such answer also costs the longest time there is.

When not to worry:
    Classifiers and probes that ask for a few tokens: answers of up to 16 tokens are left alone. Benchmarks
    that generate a fixed length: where all answers end at one cap, this is only possible.

What to change:
    Where the context is what ended them: a larger one. Where the cap is short: a longer one, and a request to
    be brief. Where the cap is already long, the model may not know where to stop: its own chat template, and
    stop sequences.

Sources:
    Ollama llm/llama_server.go (without num_predict it ends at ten times num_ctx); OpenAI API
    (finish_reason).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.contexts import larger_context, trained_for
from rules.measures import FEW
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.words import percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.rule import Answer

RULE = Rule(
    id="finish-by-length",
    phase=Phase.DECODE,
    title="Answers are cut off at a limit",
    needs=("finish_reason",),
    remedies=("raise-context", "raise-cap", "stop-sequences"),
    verify="The same prompts should end with finish_reason stop.",
    sources=("Ollama llm/llama_server.go",),
    thresholds={
        "share": Threshold(0.2, "of the requests, ended for length; first guess"),
        "short_tokens": Threshold(16, "tokens up to which a limit is meant: classifiers, probes"),
        "long_tokens": Threshold(2_000, "tokens from which a cap is not what is wrong; first guess"),
    },
    quality=True,
)

FULL = 0.98
"""Of the context: prompt and answer together filled it."""

ROOM = 2
"""Times the limit that was reached."""

SAME = 0.05
"""Standard deviation over mean of the cut answers' lengths: one cap ended them."""


def check(m: Measures) -> Answer:
    """Ask how many answers were cut, and by which limit."""
    t = m.thresholds(RULE)
    known = m.generations.drop_nulls(["finish_reason", "output_tokens"])
    if known.height < FEW:
        return CannotTell("the log doesn't say why requests ended")
    cut = known.filter((pl.col("finish_reason") == "length") & (pl.col("output_tokens") > t["short_tokens"]))
    share = cut.height / known.height
    if share <= t["share"]:
        return NotApplicable(f"{percent(share)} of the requests ended at a limit")
    limit = median(cut.select("output_tokens")) or 0.0
    full = _filled(m, cut)
    by_context = full.height > cut.height / 2
    where = (
        f"when the context of {m.setup.context:,} tokens was full"
        if by_context
        else f"at {limit:,.0f} tokens" + ("" if _one_cap(cut) else ", at the median")
    )
    fixed = cut.height == known.height and _one_cap(cut) and not by_context
    return RULE.finding(
        confidence=Confidence.POSSIBLE if fixed else Confidence.LIKELY,
        why=f"{cut.height:,} of {known.height:,} answers did not end by themselves but {where}: their "
        f"readers got a part of them{', unless a fixed length was asked for' if fixed else ''}.",
        evidence=(
            m.evidence("answers ended for length", cut.height, "requests", rows=cut),
            m.evidence("of those whose end is logged", round(share, 4), "share"),
            m.evidence("tokens when they were ended, median", limit, "tokens"),
            *([m.stated("context", "context of a slot", unit="tokens")] if by_context else []),
        ),
        requests=cut.height,
        fixes=tuple(_fixes(m, limit, by_context=by_context)),
        wont_help=trained_for(m) if by_context else (),
    )


def _filled(m: Measures, cut: pl.DataFrame) -> pl.DataFrame:
    """Those whose prompt and answer filled the context."""
    if m.setup.context is None:
        return cut.clear()
    held = pl.coalesce("context_tokens", pl.col("prompt_tokens") + pl.col("output_tokens"))
    return cut.filter(held >= FULL * m.setup.context)


def _one_cap(cut: pl.DataFrame) -> bool:
    mean, deviation = cut["output_tokens"].mean(), cut["output_tokens"].std()
    return isinstance(mean, float) and isinstance(deviation, float) and deviation <= SAME * mean


def _fixes(m: Measures, limit: float, *, by_context: bool) -> list[Fix]:
    stop, context = m.fix("stop-sequences"), m.setup.context
    if by_context and context is not None:
        larger = larger_context(m, ROOM * context)
        return [larger, stop] if larger else [stop]
    longer = m.fix("raise-cap", to=ROOM * round(limit))
    return [stop, longer] if limit >= m.thresholds(RULE)["long_tokens"] else [longer, stop]
