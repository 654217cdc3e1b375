"""Equal prompts start at the same moment, and each of them is read.

What it looks at:
    Three or more requests of one length that start within 200 ms of each other, of which two or more got
    hardly anything from the cache.

Why it matters:
    A prefix can be shared once it has been read. Requests that start together find nothing there yet, so
    the same text is read as many times as there are requests, and all of them wait for the machine. In
    llama-server each slot reads for itself, even while another slot holds the text.

When not to worry:
    Load tests send other text of the same length; the finding is then wrong, and possible is all it claims
    to be, unless a request of that length did find its prompt in the cache.

What to change:
    Ask for several answers in one request, where the engine can. Engines with one pool share what one
    request has read: send one, and the rest when its first token has come. The saving is the reading of all
    but one prompt of each burst, at the speed they had while they shared the machine: an upper bound.

Sources:
    llama.cpp#17775 (several answers of one prompt); vllm#2494 (the prefix cache).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.frames import known, numbered
from rules.prefill import cache_prompt_off
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import VALID_PREFILL_TOKENS, median
from rules.savings import prefix_reused
from rules.sessions import RUN, in_place
from rules.words import duration

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="parallel-fanout-no-share",
    phase=Phase.PREFILL,
    title="Equal prompts start together, and each is read whole",
    needs=("prompt_tokens", "cached_tokens", "prefill_ms"),
    remedies=("warm-then-fan-out",),
    verify="After the change, one prompt of each burst is evaluated, and of the rest a token or two.",
    sources=("llama.cpp#17775", "vllm#2494"),
    thresholds={
        "burst": Threshold(3, "equal prompts that start together (first guess)"),
        "within_ms": Threshold(200, "ms from one start to the next (first guess)"),
    },
)

FRESH_SHARE = 0.3
"""Of a prompt: what the template and a common system prompt leave of other prompts in a slot."""

SAME_SHARE = 0.9
"""Of a prompt: found in the cache by a later request of the same length, it was the same text."""


def check(m: Measures) -> Answer:
    """Ask whether bursts of equal prompts are each read whole."""
    models = pl.Enum(m.turns["model"].unique().drop_nulls().sort())
    told = known(m.turns, ["prompt", "cached_tokens", "prefill_ms"]).select(
        "run",
        pl.col("model").cast(models),
        *("source", "line", "row", "prompt", "cached_tokens", "prefill_ms", "total_ms"),
        begun=pl.coalesce("clock_start_ms", pl.col("started_at").dt.epoch("ms").cast(pl.Float64)),
    )
    timed = known(told, ["begun"])
    if not timed.height:
        return CannotTell("cached tokens or the times at which requests start are not logged")
    t = m.thresholds(RULE)
    bursts = _bursts(timed, t["within_ms"], t["burst"])
    again = bursts.filter(pl.col("fresh") & (pl.col("fresh").cum_sum().over("burst") > 1 - pl.col("had")))
    if not again.height:
        return NotApplicable("no equal, uncached prompts start together")
    if m.finds(cache_prompt_off):
        return NotApplicable("cache-prompt-off says it")
    change = prefix_reused(in_place(m.turns, again, pl.col("prompt") - 1))
    saving = m.saving(change, bound="at_most")
    if not m.worth(saving.ms, again.height):
        return NotApplicable("too little time to matter")
    hits = told.filter(pl.col("cached_tokens") >= SAME_SHARE * pl.col("prompt"))
    same = hits.join(again, on=[*RUN, "prompt"], how="semi", nulls_equal=True).height > 0
    size = int(bursts.select(pl.len().over("burst").max()).item())
    tokens = median(again.select("prompt")) or 0.0
    whose = "the same text" if same else "what may be the same text"
    return RULE.finding(
        confidence=Confidence.LIKELY if same else Confidence.POSSIBLE,
        why=f"{bursts.height:,} requests start in bursts of up to {size}, each burst with prompts of one "
        f"length, {tokens:,.0f} tokens in the median. {again.height:,} of them read {whose} once more, in "
        f"{duration(float(again['prefill_ms'].sum()))}, since hardly any of it was in the cache for them.",
        evidence=(
            m.evidence("requests in bursts of equal prompts", bursts.height, "requests", rows=bursts),
            m.evidence("read once more", again.height, "requests", rows=again),
            m.evidence("prefill of each, median", median(again.select("prefill_ms")), "ms", rows=again),
        ),
        requests=again.height,
        saving=saving,
        change=change,
        fixes=(m.fix("warm-then-fan-out", count=size),),
        wont_help=("More slots: each would read the same prompt.",),
    )


def _bursts(timed: pl.DataFrame, within_ms: float, fewest: float) -> pl.DataFrame:
    """Long prompts with the number of their burst, in which each starts while the one before it runs.

    ``fresh`` says that hardly anything came from the cache, ``had`` that one of the burst found all of it.
    """
    equal = (*RUN, "prompt")
    goes_on = pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift(1)) for name in equal)
    gap = pl.col("begun") - pl.col("begun").shift(1)
    joins = goes_on & (gap <= within_ms) & (gap < pl.col("total_ms").shift(1))
    alone = ~pl.col("joins") & ~pl.col("joins").shift(-1, fill_value=False)
    long = timed.filter(pl.col("prompt") >= VALID_PREFILL_TOKENS)
    return (
        (long if fewest <= 1 else _close(long, within_ms))
        .sort(*equal, "begun")
        .with_columns(joins=joins.fill_null(value=False))
        .filter(pl.lit(fewest <= 1) | ~alone)
        .with_columns(burst=(~pl.col("joins")).cum_sum())
        .filter(pl.len().over("burst") >= fewest)
        .with_columns(
            fresh=pl.col("cached_tokens") < FRESH_SHARE * pl.col("prompt"),
            had=(pl.col("cached_tokens") >= SAME_SHARE * pl.col("prompt")).any().over("burst").cast(pl.Int64),
        )
    )


def _close(timed: pl.DataFrame, within_ms: float) -> pl.DataFrame:
    """Those of which another one of the same process starts that close: of a long log, few are left to sort.

    Both those before it and those behind it count, and a little is added for what the sums round off.
    """
    begun = timed["begun"].to_numpy()
    if not begun.size:
        return timed
    apart_ms = begun.max() - begun.min() + 2 * within_ms + 2
    at = begun - begun.min() + numbered(timed, ("run",)).to_numpy() * apart_ms
    order = np.argsort(at, kind="stable")
    follows = np.diff(at[order]) <= within_ms + 1
    close = np.zeros(begun.size, dtype=bool)
    close[order[1:]] |= follows
    close[order[:-1]] |= follows
    return timed.filter(pl.Series(close))
