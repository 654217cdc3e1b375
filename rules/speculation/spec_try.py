"""Decode is as fast as its bytes allow, and a draft could get several tokens out of each read.

What it looks at:
    Logs in which generating takes half of the time or more, one request at a time, of a dense model whose
    weights lie in one memory and whose decode runs at what that memory allows. No speculation is in use, and
    either text comes slower than people read or the answers are long.

Why it matters:
    At that point a token costs one read of all weights, and nothing makes the read cheaper. A check of
    several drafted tokens costs about one read too, so each accepted one is nearly free.

When not to worry:
    This is no fault. Nothing in a log says how much would be accepted: code, rewriting and answers that quote
    the prompt gain, free text at high temperature may lose. Mixtures of experts, busy servers and CPUs gain
    little, and the rule is silent there.

What to change:
    Try n-grams first, which need no second model; draft layers that come with the model (MTP, EAGLE) or a
    small model of the same vocabulary next. Published runs with well matched drafts were 1.5 to 2.4 times as
    fast. No saving is claimed; the evidence says what 1.5 times would be worth here.

Sources:
    Leviathan et al., arXiv:2211.17192; SGLang docs (Llama 3.1 8B on an H100: 158 tok/s, 244 with EAGLE-2,
    373 with EAGLE-3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.decode import at_bandwidth_ceiling, output_long
from rules.physics.reading import outruns_reading
from rules.rule import CannotTell, Confidence, Finding, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.savings import decode_scaled
from rules.words import duration, percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="spec-try",
    phase=Phase.DECODE,
    title="Speculative decoding might get more tokens out of each read",
    needs=("weights_bytes", "decode_ms"),
    remedies=("speculate",),
    verify="Run the same prompts with and without, and compare the tokens per second; the log's share of "
    "accepted drafts should be above 60 %.",
    sources=("arXiv:2211.17192", "SGLang docs/advanced_features/speculative_decoding"),
    thresholds={
        "share": Threshold(0.5, "of all time, in generating; first guess"),
        "speedup": Threshold(
            1.5, "what a well matched draft gives at least; SGLang's table has 1.54 to 2.36"
        ),
    },
    fault=False,
)


def check(m: Measures) -> Answer:
    """Ask whether a draft is the next thing to try."""
    t, share = m.thresholds(RULE), m.share(Phase.DECODE)
    if m.decoding.speculative:
        return NotApplicable("speculation is in use")
    if m.decoding.mixture:
        return NotApplicable("checking several tokens of a mixture of experts reads more experts")
    if m.hardware.on_cpu:
        return NotApplicable("a CPU has no arithmetic to spare for checking drafts")
    if share < t["share"]:
        return NotApplicable(f"generating takes {percent(share)} of the time")
    if m.decoding.alone.height < m.decode_samples / 2:
        return NotApplicable("requests that run beside each other use the spare arithmetic already")
    long_tokens = m.thresholds(output_long.RULE)["long_tokens"]
    answer, tok_s = median(m.generations.select("output_tokens")) or 0.0, m.decode_tok_s
    if tok_s is None or (outruns_reading(tok_s) and answer < long_tokens):
        return NotApplicable("answers are short, and stream faster than people read")
    ceiling = m.asked(at_bandwidth_ceiling.check)
    if isinstance(ceiling, CannotTell):
        return ceiling
    if not isinstance(ceiling, Finding):
        return NotApplicable("decode is not at what the memory allows")
    worth_ms = m.saving(decode_scaled(1 / t["speedup"])).ms
    if not m.worth(worth_ms, m.decode_samples):
        return NotApplicable("too little time to matter")
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"Generating takes {percent(share)} of the time at what the memory allows, one answer at a time. "
        f"If a draft is accepted often enough to make it {t['speedup']:.1f} times as fast, that is "
        f"{duration(worth_ms)} of {duration(m.wall_ms)}; the log can't tell whether it is.",
        evidence=(
            m.evidence("share of all request time", round(share, 4), "share"),
            m.evidence("decode rate, median", round(tok_s, 1), "tok/s", rows=m.valid_decode),
            m.evidence("answer, median", answer, "tokens"),
            m.evidence(f"{t['speedup']:.1f} times as fast would save", worth_ms, "ms"),
        ),
        requests=m.decode_samples,
        fixes=(m.fix("speculate"),),
    )
