"""Prompts of a few tokens take far longer than their tokens explain.

What it looks at:
    Requests that evaluated fewer than 64 tokens, ran alone and were not the first after a load: those whose
    prefill took more than 300 ms, and more than twice what one generated token and the usual time per prompt
    token come to. Of a mixture of experts, or a model that may be one, each token is given the time of a
    generated token, since a few tokens already use many experts.

Why it matters:
    A chat whose history comes from the cache evaluates only a few new tokens a turn. If each turn starts with
    a fixed cost, that cost is the whole wait for the first token.

When not to worry:
    Rates of such short prompts mean nothing: 13 tokens in 1.2 s are no slow prefill where a token takes that
    long to generate. Look at the time, not at tokens per second.

What to change:
    Compare a prompt after a pause with the same prompt right after another one. If only the first is slow,
    the machine went to sleep between them: clocks, or memory that was given away. If both are, look for what
    is done anew for each request: a grammar, an adapter, an image.

Sources:
    ik_llama.cpp#455 (13 tokens in 1.17 s, no fault); llama.cpp#10119 (memory given away between requests).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.fits import alone
from rules.frames import known
from rules.keep_warm import keep_warm
from rules.loads import LOAD_MS
from rules.prefilling import shorter_prefill
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.words import duration

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="tiny-prompt-overhead",
    phase=Phase.PREFILL,
    title="Even the shortest prompts wait for a fixed cost",
    needs=("prefill_tokens", "prefill_ms", "decode_ms"),
    remedies=("keep-warm",),
    verify="Send one short prompt twice within a second, then again after a minute, and compare prefill_ms.",
    sources=("ik_llama.cpp#455", "llama.cpp#10119"),
    thresholds={
        "tiny_tokens": Threshold(64, "evaluated tokens below which a prefill runs like decode"),
        "slow_ms": Threshold(300, "ms from which a tiny prompt counts as slow"),
        "share": Threshold(0.2, "share of all requests that must be such"),
        "factor": Threshold(2.0, "times what the tokens explain"),
        "load_ms": Threshold(LOAD_MS, "ms of loading from which a request is the first after a load"),
    },
    fault=False,
)

EVERY_S = 60


def check(m: Measures) -> Answer:
    """Ask whether something other than tokens makes short prompts slow."""
    t = m.thresholds(RULE)
    told = known(m.generations, ["prefill_tokens", "prefill_ms"])
    first = pl.col("line") == pl.col("line").min().over("source", "run")
    loaded = (pl.col("load_ms") >= t["load_ms"]).fill_null(value=False)
    tiny = alone(m, told.filter(~first & ~loaded & (pl.col("prefill_tokens") < t["tiny_tokens"])))
    slow = tiny.filter(pl.col("prefill_ms") > t["slow_ms"])
    if slow.height < t["share"] * m.generations.height or not slow.height:
        return NotApplicable("few short prompts are slow")
    token_ms = m.decoding.ms_per_token
    if token_ms is None:
        return CannotTell("no answer is long enough to say how long one token takes")
    rows = slow.with_columns(needed_ms=_needed_ms(m, token_ms))
    rows = rows.filter(pl.col("prefill_ms") > t["factor"] * pl.col("needed_ms"))
    if rows.height < t["share"] * m.generations.height:
        return NotApplicable("their tokens explain the time")
    change = shorter_prefill(m, rows, 1 - pl.col("needed_ms") / pl.col("prefill_ms"))
    saving = m.saving(change, bound="at_most")
    if not m.worth(saving.ms, rows.height):
        return NotApplicable("too little time to matter")
    took_ms, needed_ms = median(rows.select("prefill_ms")), median(rows.select("needed_ms"))
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"{rows.height:,} of {m.generations.height:,} requests evaluated fewer than "
        f"{t['tiny_tokens']:.0f} tokens, yet waited {duration(took_ms)} for it, where about "
        f"{duration(needed_ms)} would do.",
        evidence=(
            m.evidence("prefill of these, median", took_ms, "ms", rows=rows),
            m.evidence("evaluated by these, median", median(rows.select("prefill_tokens")), "tokens"),
            m.evidence("what the tokens explain, median", round(needed_ms or 0.0, 1), "ms"),
            m.evidence("time per generated token, median", round(token_ms, 2), "ms", rows=m.decoding.alone),
        ),
        requests=rows.height,
        saving=saving,
        change=change,
        fixes=(keep_warm(m, EVERY_S),),
        wont_help=("A shorter prompt: these are as short as prompts get.",),
    )


def _needed_ms(m: Measures, token_ms: float) -> pl.Expr:
    """Time that the tokens of a short prompt explain, ms."""
    tokens = pl.col("prefill_tokens")
    if m.setup.experts != 0 or m.prefill_tok_s is None:
        return tokens * token_ms
    return token_ms + 1000 * tokens / m.prefill_tok_s
