"""Long prompts make people wait for the first token.

What it looks at:
    The share of all request time that goes into reading prompts (at least 35 %), the median prompt (at
    least 1,000 tokens), and how much of it came from the cache (under 30 %, or not logged).

Why it matters:
    Nothing can be shown before the whole prompt has been read. That time grows at least in step with the
    prompt, so a prompt of a third costs a third or less.

When not to worry:
    One-off jobs that must read a whole document. Requests that the engine says it had to read from the
    start are `swa-hybrid-full-reprocess`, and not counted here. A prompt that grows turn by turn is a
    matter of the cache (`prefix-unstable`, `swa-hybrid-full-reprocess`), not of chunks, and is left to
    those rules when the log says what was cached.

What to change:
    Put fewer retrieved chunks into the prompt, keep the beginning of the prompt unchanged so that it is
    read once, and trim the history. The saving is this log's own prefill with a quarter of the chunks, if
    each long prompt is 20 equal chunks behind a fixed part: the cached prefix, or a ninth of the prompt.
    Where all prompts are about equally long it is counted in proportion, which is rather too low.

Sources:
    Prefill cost in prompt length: Kaplan et al. 2020, arXiv:2001.08361; Pope et al. 2022, arXiv:2211.05102.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.measures import FEW, median
from rules.prompts import (
    CHUNKS,
    KEPT_CHUNKS,
    LONG_TOKENS,
    cached_share,
    equally_long,
    fewer_chunks,
    long_prompts,
    with_fewer_chunks,
)
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule
from rules.savings import prefix_reused
from rules.sessions import REQUEST, growing, reprocessed
from rules.words import duration, percent

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer, Evidence

RULE = Rule(
    id="prefill-dominates-long-prompt",
    phase=Phase.PREFILL,
    title="Most of the wait for the first token is reading the prompt",
    needs=("prompt_tokens", "prefill_ms"),
    remedies=("fewer-chunks", "stable-prefix", "trim-history"),
    verify="Run the same questions again: prompt tokens and time to first token should fall together.",
    sources=("arXiv:2001.08361", "arXiv:2211.05102"),
)

SHARE = 0.35
CACHED_SHARE = 0.3
REUSED = 0.95


def check(m: Measures) -> Answer:
    """Ask whether long, uncached prompts are where the time goes."""
    told = m.turns.drop_nulls(["prompt", "prefill_ms"])
    if not told.height:
        return CannotTell("prompt tokens and prefill time of the same request are not logged")
    told = told.join(reprocessed(m.events), on=REQUEST, how="anti")
    share = float(told["prefill_ms"].sum()) / m.wall_ms if m.wall_ms else 0.0
    if share < SHARE:
        return NotApplicable(f"reading prompts takes {percent(share)} of the time")
    if _median(told, "prompt") < LONG_TOKENS:
        return NotApplicable("most prompts are short")
    cached = cached_share(told)
    if cached is not None and cached >= CACHED_SHARE:
        return NotApplicable(f"{percent(cached)} of a prompt comes from the cache")
    rows = long_prompts(told)
    prefill_ms = float(rows["prefill_ms"].sum())
    if not m.worth(prefill_ms, rows.height):
        return NotApplicable("too little time to matter")
    if growing(m.turns).height:
        return _conversation(m, rows) if cached is None else NotApplicable("the prompts grow turn by turn")
    prompt, each_ms = _median(rows, "prompt"), _median(rows, "prefill_ms")
    left = float(np.median(with_fewer_chunks(rows)))
    likely = rows["prefill_tokens"].count() > 0 and rows.height >= FEW
    change = fewer_chunks(m.turns, rows)
    return RULE.finding(
        confidence=Confidence.LIKELY if likely else Confidence.POSSIBLE,
        why=f"{duration(prefill_ms)} of {duration(m.wall_ms)} go into reading prompts: "
        f"{prompt:,.0f} tokens and {duration(each_ms)} before the first token of a typical one. If that "
        f"is {CHUNKS} retrieved chunks behind a fixed part, {KEPT_CHUNKS} of them make {left:,.0f} tokens.",
        evidence=(
            *_evidence(m, rows, cached),
            m.evidence("lengths", "about equal, as retrieval makes them" if equally_long(rows) else "mixed"),
            m.evidence(
                f"{KEPT_CHUNKS} of {CHUNKS} equal chunks behind the cached prefix, or a ninth of the prompt",
                round(left),
                "tokens",
            ),
        ),
        requests=rows.height,
        saving=m.saving(change),
        change=change,
        fixes=(
            m.fix("fewer-chunks", keep=KEPT_CHUNKS, of=CHUNKS),
            m.fix("stable-prefix"),
            m.fix("trim-history"),
        ),
        wont_help=("A smaller quant or speculative decoding: they speed up decode, not the reading.",),
    )


def _conversation(m: Measures, rows: pl.DataFrame) -> Answer:
    """Growing prompts in a log that doesn't say what was cached: reuse first, then a shorter history."""
    reusable = m.turns["reusable"].cast(pl.Float64).fill_null(0).to_numpy()
    change = prefix_reused(reusable * REUSED)
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"{duration(float(rows['prefill_ms'].sum()))} of {duration(m.wall_ms)} go into reading "
        "prompts that grow turn by turn. The log does not say what came from the cache; if nothing did, each "
        "turn reads the whole history again.",
        evidence=_evidence(m, rows, None),
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
