"""Long prompts make people wait for the first token.

What it looks at:
    The share of all request time that goes into reading prompts (at least 35 %), the median prompt (at
    least 1,000 tokens), how much of it came from the cache (under 30 %, or not logged), and whether prompts
    are read as fast as this kind of machine can.

Why it matters:
    Nothing can be shown before the whole prompt has been read. That time grows at least in step with the
    prompt, so a prompt of a third costs a third or less.

When not to worry:
    Prompts that must be long, such as one-off jobs that read a whole document: where long prompts differ in
    length and are read at the usual rate, this is advice and no fault. Requests that the engine
    says it had to read from the start are `swa-hybrid-full-reprocess`, and not counted here. A prompt that
    grows turn by turn is a matter of the cache and not of chunks: `prefix-unstable` speaks of it, else this
    rule does, as possible. Where a GPU reads prompts far slower than its decode promises, the prompts are
    not to blame.

What to change:
    Where all long prompts have about one length, as retrieval makes them, put fewer retrieved chunks into
    them; else leave out what the answer does not need. Keep the beginning of the prompt unchanged so that it
    is read once, and trim the history. That prompts are long is in the log; what they are made of is not.
    For prompts of one length the saving is this log's own prefill with a quarter of the chunks, if each is
    20 equal chunks behind a fixed part: the cached prefix, or a ninth of the prompt. It is an estimate and no
    bound: a prompt that holds something else can't be cut so far, and time is scaled in proportion, which
    misses what attention adds. A pair of logs said 92 s and saved 114 s. For prompts of many lengths nobody
    can say how much may go, so no saving is stated.

Sources:
    Prefill cost in prompt length: Kaplan et al. 2020, arXiv:2001.08361; Pope et al. 2022, arXiv:2211.05102.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.frames import known, without
from rules.measures import FEW
from rules.prefill import context_shift_invalidates, prefix_unstable
from rules.prefilling import plausible_rate
from rules.prompts import (
    CHUNKS,
    KEPT_CHUNKS,
    LONG_TOKENS,
    cached_share,
    equally_long,
    fewer_chunks,
    lengths,
    long_prompts,
    with_fewer_chunks,
)
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.savings import prefix_reused
from rules.sessions import may_grow
from rules.words import duration, percent, rate

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer, Evidence

RULE = Rule(
    id="prefill-dominates-long-prompt",
    phase=Phase.PREFILL,
    title="Most of the wait for the first token is reading the prompt",
    needs=("prompt_tokens", "prefill_ms"),
    remedies=("fewer-chunks", "shorter-prompts", "stable-prefix", "trim-history"),
    verify="Run the same questions again: prompt tokens and time to first token should fall together.",
    sources=("arXiv:2001.08361", "arXiv:2211.05102"),
    fault=False,
    thresholds={
        "prefill_share": Threshold(0.35, "least share of all time that reading prompts takes"),
        "long_tokens": Threshold(LONG_TOKENS, "tokens of the median prompt from which prompts are long"),
        "cached_share": Threshold(0.3, "share of a prompt from the cache from which reuse works"),
    },
)

REUSED = 0.95

_WONT_HELP = ("A smaller quant or speculative decoding: they speed up decode, not the reading.",)


def check(m: Measures) -> Answer:
    """Ask whether long, uncached prompts are where the time goes."""
    t = m.thresholds(RULE)
    told = known(m.turns, ["prompt", "prefill_ms"])
    if not told.height:
        return CannotTell("prompt tokens and prefill time of the same request are not logged")
    whole, told = told, without(told.select("row", "prompt", "cached_tokens", "prefill_ms"), m.reprocessed)
    share = float(told["prefill_ms"].sum()) / m.wall_ms if m.wall_ms else 0.0
    if share < t["prefill_share"]:
        return NotApplicable(f"reading prompts takes {percent(share)} of the time")
    if _median(told, "prompt") < t["long_tokens"]:
        return NotApplicable("most prompts are short")
    cached = cached_share(told)
    if cached is not None and cached >= t["cached_share"]:
        return NotApplicable(f"{percent(cached)} of a prompt comes from the cache")
    rows = without(long_prompts(whole), m.reprocessed)
    prefill_ms = float(rows["prefill_ms"].sum())
    if not m.worth(prefill_ms, rows.height):
        return NotApplicable("too little time to matter")
    if m.finds(context_shift_invalidates):
        return NotApplicable("context-shift-invalidates says it")
    if m.finds(prefix_unstable):
        return NotApplicable("prefix-unstable says it")
    plausible = plausible_rate(m)
    if plausible is False:
        return NotApplicable(f"{rate(m.prefill_tok_s)} is too slow for this GPU, and that comes first")
    if may_grow(m.turns):
        return _conversation(m, rows, cached)
    likely = plausible is True and rows["prefill_tokens"].count() > 0 and rows.height >= FEW
    confidence = Confidence.LIKELY if likely else Confidence.POSSIBLE
    takes = (
        f"{duration(prefill_ms)} of {duration(m.wall_ms)} go into reading prompts: "
        f"{_median(rows, 'prompt'):,.0f} tokens and {duration(_median(rows, 'prefill_ms'))} before the first "
        "token of a typical one."
    )
    evidence = _evidence(m, rows, cached)
    if equally_long(rows):
        return _chunks(m, rows, confidence, takes, evidence)
    return RULE.finding(
        confidence=confidence,
        why=f"{takes} The log does not say what they hold: where all of it must be read, nothing is wrong.",
        evidence=(*evidence, m.evidence("lengths", f"mixed, {lengths(rows)}", "tokens")),
        requests=rows.height,
        fixes=(m.fix("shorter-prompts"), m.fix("stable-prefix"), m.fix("trim-history")),
        wont_help=_WONT_HELP,
    )


def _chunks(
    m: Measures, rows: pl.DataFrame, confidence: Confidence, takes: str, evidence: tuple[Evidence, ...]
) -> Answer:
    """Prompts of one length: what a retriever with a fixed number of chunks makes."""
    left = float(np.median(with_fewer_chunks(rows)))
    change = fewer_chunks(m.turns, rows)
    return RULE.finding(
        confidence=confidence,
        why=f"{takes} The log does not say what they hold: if it is {CHUNKS} retrieved chunks behind a fixed "
        f"part, {KEPT_CHUNKS} of them make {left:,.0f} tokens.",
        evidence=(
            *evidence,
            m.evidence("lengths", "about equal, as retrieval makes them"),
            m.evidence(
                f"{KEPT_CHUNKS} of {CHUNKS} equal chunks behind the cached prefix, or a ninth of the prompt",
                round(left),
                "tokens",
            ),
        ),
        requests=rows.height,
        saving=m.saving(change),
        fault=confidence is Confidence.LIKELY,
        change=change,
        fixes=(
            m.fix("fewer-chunks", keep=KEPT_CHUNKS, of=CHUNKS),
            m.fix("stable-prefix"),
            m.fix("trim-history"),
        ),
        wont_help=_WONT_HELP,
    )


def _conversation(m: Measures, rows: pl.DataFrame, cached: float | None) -> Answer:
    """Growing prompts that hardly come from the cache: reuse first, then a shorter history."""
    lost = pl.col("reusable") * REUSED - pl.col("cached_tokens").fill_null(0)
    reused = m.turns.select(lost.cast(pl.Float64).fill_null(0)).to_series().to_numpy()
    change = prefix_reused(reused)
    if cached is None:
        known = (
            "The log does not say what came from the cache; if nothing did, each turn reads the whole history"
        )
        known += " again."
    else:
        known = (
            f"{percent(cached)} of a typical one came from the cache. If they are turns of a conversation, "
        )
        known += "each reads the history again."
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"{duration(float(rows['prefill_ms'].sum()))} of {duration(m.wall_ms)} go into reading "
        f"prompts that grow from request to request. {known}",
        evidence=_evidence(m, rows, cached),
        requests=rows.height,
        saving=m.saving(change, bound="at_most"),
        change=change,
        fixes=(m.fix("stable-prefix"), m.fix("trim-history")),
    )


def _evidence(m: Measures, rows: pl.DataFrame, cached: float | None) -> tuple[Evidence, ...]:
    return (
        m.evidence("of all request time", round(m.share(Phase.PREFILL), 4), "share"),
        m.evidence("prompt, median", _median(rows, "prompt"), "tokens", rows=rows),
        m.evidence("prefill, median", _median(rows, "prefill_ms"), "ms", rows=rows),
        m.evidence("prefill rate, median", m.prefill_tok_s, "tok/s"),
        m.evidence("from the cache, median", round(cached, 4), "share")
        if cached is not None
        else m.evidence("from the cache", "not logged"),
    )


def _median(rows: pl.DataFrame, column: str) -> float:
    return median(rows.select(column)) or 0.0
