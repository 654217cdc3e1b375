"""A batch job sends one request at a time, where several at once would share each read of the weights.

What it looks at:
    Thirty requests or more, none beside another, nine of ten of them sent at once when the one before was
    done: a program's loop, not a person. Prompts that don't build on each other. And whether the machine has
    arithmetic to spare: prompts must be read at least eight times as fast as answers are generated, since the
    prefill rate is what a large batch reaches.

Why it matters:
    Generating one answer reads all weights for each token and leaves most of the arithmetic idle. Four
    answers at once need the same reads.

When not to worry:
    Loops in which each request needs the answer before it: agents, chats, chains. Mixtures of experts, whose
    answers wake different experts, so that a batch reads more. CPUs, which have no arithmetic to spare.
    Speculation, which uses it already.

What to change:
    Four workers in the client and room for four requests in the engine. The job's time falls; each answer by
    itself takes a little longer. The saving is the decode time of the job at four at once: a step costs the
    token now plus three at the prefill rate. An upper bound, since long contexts and kernels cost more.

Sources:
    Pope et al. 2022, arXiv:2211.05102; lhl/strix-halo-testing (3.8 times the tokens with four sequences);
    ik_llama.cpp#1630 (mixtures of experts lose).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.clocks import unplaced
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import decode_scaled
from rules.sessions import growing, may_grow
from rules.words import duration

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="batching-pays",
    phase=Phase.DECODE,
    title="A batch job sends one request at a time",
    needs=("decode_ms", "clock"),
    remedies=("client-concurrency",),
    verify="Run a part of the job with four workers: it should take about half the time or less.",
    sources=("arXiv:2211.05102", "lhl/strix-halo-testing", "ik_llama.cpp#1630"),
    thresholds={
        "requests": Threshold(30, "requests one after the other; fewer may be anything; first guess"),
        "pause_ms": Threshold(50.0, "milliseconds from an answer to the next request of a program's loop"),
        "headroom": Threshold(8.0, "prefill over decode rate; GPUs 11 to 178, CPUs 2 to 3"),
    },
    fault=False,
)

AT_ONCE = 4
LOOPED = 0.9


def check(m: Measures) -> Answer:
    """Ask whether a program's loop leaves the machine's arithmetic idle."""
    t, o = m.thresholds(RULE), m.overlap
    if not o.known:
        return CannotTell(unplaced(m))
    if o.most != 1:
        return NotApplicable("requests already run beside each other")
    rows = o.requests
    if rows.height < t["requests"]:
        return NotApplicable("too few requests to be a batch job")
    pause_ms = max(t["pause_ms"], o.resolution_ms)
    looped = rows.filter(pl.col("idle_ms") <= pause_ms)
    if looped.height < LOOPED * rows["idle_ms"].count():
        return NotApplicable("there are pauses between the requests")
    if may_grow(m.turns) or growing(m.turns).height > rows.height / 2:
        return NotApplicable("each prompt builds on the one before, so they can't be sent at once")
    if m.decoding.mixture:
        return NotApplicable("several answers of a mixture of experts read more than one does")
    if m.decoding.speculative or m.hardware.on_cpu:
        return NotApplicable("the machine has no arithmetic to spare")
    prefill, decode = m.prefill_tok_s, m.decode_tok_s
    if prefill is None or decode is None:
        return CannotTell("too few long prompts and answers to tell what a batch would gain")
    if prefill < t["headroom"] * decode:
        return NotApplicable("prompts are read too slowly: the machine has no arithmetic to spare")
    factor = (1 + (AT_ONCE - 1) * decode / prefill) / AT_ONCE
    change = decode_scaled(factor)
    saving = m.saving(change, bound="at_most")
    if not m.worth(saving.ms, rows.height):
        return NotApplicable("too little time to matter")
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"{rows.height:,} requests were sent one at a time, each as soon as the one before was done: "
        f"{duration(m.wall_ms)} in a row. If they don't need each other's answers, {AT_ONCE} at once share "
        "each read of the weights.",
        evidence=(
            m.evidence("sent at once after the one before", looped.height, "requests", rows=looped),
            m.evidence("most at once", 1, "requests"),
            m.evidence("prefill rate, median", round(prefill, 1), "tok/s", rows=m.valid_prefill),
            m.evidence("decode rate of one answer, median", round(decode, 1), "tok/s", rows=m.valid_decode),
        ),
        requests=rows.height,
        saving=saving,
        change=change,
        fixes=(m.fix("client-concurrency", requests=AT_ONCE),),
    )
