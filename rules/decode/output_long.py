"""Long answers make up most of the time, and decode itself is healthy.

What it looks at:
    The share of all request time that goes into generating (at least 60 %) and the median answer (at least
    400 tokens), where nothing shows that decode is slower than it should be, and no other rule finds time to
    save in that.

Why it matters:
    Each token costs the same time, so an answer of half the length takes half the time to generate. No
    setting of the engine is as cheap.

When not to worry:
    Jobs that are asked for length: code, reports, translations. The log doesn't say what was asked. Of models
    that think first a cap may leave no answer at all: `thinking-tokens` is about them.

What to change:
    Cap the answer, ask for brevity in the prompt, and set stop sequences. The saving is this log with every
    answer capped at 300 tokens, about 225 English words.

Sources:
    Decode takes output tokens times ms per token: Pope et al. 2022, arXiv:2211.05102.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.catalogue import all_rules
from rules.decode.decode_far_below import EXPLAINING
from rules.rule import CannotTell, Confidence, Finding, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.savings import output_capped
from rules.thinking import thinks
from rules.words import duration, percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="output-long",
    phase=Phase.DECODE,
    title="Long answers take most of the time",
    needs=("output_tokens", "decode_ms"),
    remedies=("cap-output",),
    verify="Run the same questions with the cap: decode time should fall in step with output tokens.",
    sources=("arXiv:2211.05102",),
    fault=False,
    thresholds={
        "decode_share": Threshold(0.6, "least share of all time that generating takes"),
        "long_tokens": Threshold(400, "tokens of the median answer from which answers are long"),
        "cap_tokens": Threshold(300, "tokens that the advised cap leaves an answer"),
    },
)

SLOWING = ("decode-far-below", "idle-clock-wake", "spec-unprofitable", *EXPLAINING)
"""Rules that say why a token takes longer than it need."""


def check(m: Measures) -> Answer:
    """Ask whether shorter answers are the cheapest way to less waiting."""
    t = m.thresholds(RULE)
    cap_tokens = int(t["cap_tokens"])
    rows = m.generations.drop_nulls(["output_tokens", "decode_ms"])
    answer = median(rows.select("output_tokens"))
    if answer is None:
        return CannotTell("output tokens and decode time of the same request are not logged")
    share = m.share(Phase.DECODE)
    if share < t["decode_share"]:
        return NotApplicable(f"generating takes {percent(share)} of the time")
    if answer < t["long_tokens"]:
        return NotApplicable(f"the median answer has {answer:,.0f} tokens")
    if thinks(m.setup):
        return NotApplicable("the model thinks first, and a cap may leave no answer")
    if reason := m.decoding.slowed_by or _slowed_by(m):
        return NotApplicable(f"{reason}, and that comes first")
    capped = rows.filter(pl.col("output_tokens") > cap_tokens).sort("output_tokens", descending=True)
    change = output_capped(cap_tokens)
    saving = m.saving(change)
    if not m.worth(saving.ms, capped.height):
        return NotApplicable("too little time to matter")
    return RULE.finding(
        confidence=Confidence.LIKELY,
        why=f"Generating takes {duration(float(rows['decode_ms'].sum()))} of {duration(m.wall_ms)}, because "
        f"the median answer has {answer:,.0f} tokens. At most {cap_tokens} tokens an answer would save "
        f"{duration(saving.ms)}, if nobody needs the rest.",
        evidence=(
            m.evidence("share of all request time", round(share, 4), "share"),
            m.evidence("answer, median", answer, "tokens", rows=capped),
            m.evidence("time per token, median", m.ms_per_token, "ms"),
            m.evidence(f"answers over {cap_tokens} tokens", capped.height, "requests", rows=capped),
        ),
        requests=capped.height,
        saving=saving,
        change=change,
        fixes=(m.fix("cap-output", to=cap_tokens),),
        wont_help=("A faster prefill or a bigger cache: they only touch the wait for the first token.",),
    )


def _slowed_by(m: Measures) -> str | None:
    """What makes each token slower than it need be, if another rule finds time to save in that."""
    for loaded in all_rules():
        if loaded.rule.id in SLOWING and m.asks(loaded.rule):
            answer = m.asked(loaded.check)
            if isinstance(answer, Finding) and answer.fault and answer.saving is not None:
                return f"{loaded.rule.id} says that tokens take too long"
    return None
