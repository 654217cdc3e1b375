"""A model that thinks first spends most of the wait on thoughts that may not be needed.

What it looks at:
    A model with a thinking template, as the log says, or with a name that is known for it (DeepSeek R1,
    gpt-oss; Qwen3 and GLM 4.5 think unless they are told not to), whose median answer has a thousand tokens
    or more, in a log that generates for half of the time or more. Engines count thoughts and answer in one,
    so the log doesn't tell how many were thoughts.

Why it matters:
    Each thought costs the time of a token of the answer, and nobody reads it. A thousand of them are 25
    seconds at 40 tok/s before the first word of the answer.

When not to worry:
    Hard questions: mathematics, planning, difficult code, for which the model was chosen. Long answers that
    were asked for.

What to change:
    A budget for thoughts, or no thoughts for easy work. Don't cap the answer instead: the cap may fall into
    the thoughts, and there is no answer at all. The saving is this log if thoughts and answer together had
    the budget's length, an upper bound.

Sources:
    llama.cpp#20297 (--reasoning-budget), Ollama docs/capabilities/thinking.mdx, TabbyAPI config_sample.yml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.savings import output_capped
from rules.thinking import thinks
from rules.words import duration, percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="thinking-tokens",
    phase=Phase.DECODE,
    title="Thoughts may be most of what is generated",
    needs=("output_tokens", "decode_ms", "thinking"),
    remedies=("reasoning-budget",),
    verify="Ask the same questions with the budget, compare the answers, and see the decode time fall.",
    sources=("llama.cpp#20297", "Ollama docs/capabilities/thinking.mdx", "TabbyAPI config_sample.yml"),
    thresholds={
        "share": Threshold(0.5, "of all time, in generating; first guess"),
        "long_tokens": Threshold(1_000, "tokens of the median answer, thoughts included; first guess"),
        "budget_tokens": Threshold(512, "tokens of thought that the advised budget allows; first guess"),
    },
    fault=False,
)


def check(m: Measures) -> Answer:
    """Ask whether a thinking model's long answers are most of the wait."""
    t = m.thresholds(RULE)
    rows = m.generations.drop_nulls(["output_tokens", "decode_ms"])
    answer = median(rows.select("output_tokens"))
    if answer is None:
        return CannotTell("output tokens and decode time of the same request are not logged")
    known = thinks(m.setup)
    if known is None:
        if m.setup.thinking is None and m.setup.model is None:
            return CannotTell("the log doesn't say whether the model thinks")
        return NotApplicable("nothing says that this model thinks first")
    share = m.share(Phase.DECODE)
    if share < t["share"]:
        return NotApplicable(f"generating takes {percent(share)} of the time")
    if answer < t["long_tokens"]:
        return NotApplicable(f"the median answer has {answer:,.0f} tokens, thoughts included")
    budget = int(t["budget_tokens"])
    long = rows.filter(pl.col("output_tokens") > budget).sort("output_tokens", descending=True)
    change = output_capped(budget)
    saving = m.saving(change, bound="at_most")
    if not m.worth(saving.ms, long.height):
        return NotApplicable("too little time to matter")
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"{known} The median answer has {answer:,.0f} tokens, thoughts included, and generating takes "
        f"{duration(float(rows['decode_ms'].sum()))} of {duration(m.wall_ms)}.",
        evidence=(
            m.evidence("tokens generated, median, thoughts included", answer, "tokens", rows=long),
            m.evidence("share of all request time", round(share, 4), "share"),
            m.stated("thinking", "the template thinks") if m.setup.thinking else m.stated("model", "model"),
        ),
        requests=long.height,
        saving=saving,
        change=change,
        fixes=(m.fix("reasoning-budget", tokens=budget),),
        wont_help=(
            "A cap on the answer: it may fall into the thoughts, and then there is no answer at all.",
        ),
    )
