"""The prompt cache is full, so conversations are gone from it when they come back.

What it looks at:
    llama-server's warning that it removed a prompt from its prompt cache, or its line about the cache (at
    verbosity 4) once another prompt no longer fits; and turns that found little of their history after that.
    For engines with one pool for all (vLLM, SGLang, TabbyAPI, MLX): whether turns miss just when others
    wrote much in between; in windows, whether the hit rate falls by half when the KV cache is full.

Why it matters:
    What was pushed out is read again. A cache that is a little too small for the conversations going on
    loses nearly all of them, since the one that comes back next is the one that waited longest.

When not to worry:
    Conversations that never come back may be pushed out. A full cache alone proves nothing: prompts that
    change near their start fill it with text that nobody will ask for again. There `prefix-unstable` comes
    first, and this is possible at most; not even that where they part in their first 100 tokens.

What to change:
    More of the machine's memory for the cache; else fewer conversations at a time. The saving is this log's
    own prefill with 95 % of the turn before reused; an upper bound where it is only possible.

Sources:
    llama.cpp#16391; kon#4 (4 prompts in 7582 of 8192 MiB); SGLang docs/advanced_features/hicache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.attribution import busy_windows
from rules.conversations import LOST_SHARE, PROVEN, later_turns
from rules.frames import known, without
from rules.measures import FEW
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.savings import prefix_reused
from rules.sessions import REUSABLE, TOP_TOKENS, in_place
from rules.words import duration, percent, plural

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.rule import Answer, Evidence

RULE = Rule(
    id="cache-evicted",
    phase=Phase.PREFILL,
    title="The prompt cache is full, and conversations are gone when they come back",
    remedies=("more-host-cache", "larger-kv-pool"),
    verify="With more room, the same turns should evaluate little more than their new text.",
    sources=("llama.cpp#16391", "kon#4"),
    thresholds={
        "full": Threshold(
            0.9, "of the limit, for the prompts in the cache and one more of their size (real log: 0.93)"
        ),
        "full_pool": Threshold(0.9, "of the KV cache in use, above which shared text is pushed out"),
        "roomy": Threshold(
            0.5, "of the KV cache in use, below which nothing need be pushed out (first guess)"
        ),
        "windows": Threshold(3, "windows of each kind (first guess)"),
        "fall": Threshold(0.2, "by which the hit rate must fall, besides by half (first guess)"),
    },
)

DEFAULT_MIB = 8_192
"""llama-server's limit where nothing else is said."""

_LOST = (REUSABLE * pl.min_horizontal("kept", "prompt") - pl.col("cached_tokens")).clip(lower_bound=0)


_EVICTED, _STATE = pl.col("kind") == "cache_evicted", pl.col("kind") == "cache_state"


def host_cache_on(m: Measures) -> bool:
    """Whether the engine says that it keeps prompts in the machine's memory."""
    limit = m.setup.host_cache_bytes
    return limit != 0 and bool(limit or m.events.filter(_EVICTED | _STATE).height)


def host_cache_full(m: Measures) -> pl.DataFrame:
    """The engine's lines that its prompt cache lost a prompt, or has no room for another like those in it."""
    prompts = pl.col("detail").str.extract(r"^(\d+) prompts").cast(pl.Float64)
    with_one_more = pl.col("value") * (1 + 1 / prompts)
    return m.events.filter(_EVICTED | (_STATE & (with_one_more >= m.thresholds(RULE)["full"])))


def larger_cache(m: Measures) -> Fix:
    """Twice the limit of the prompt cache in the machine's memory; the usual one where it is off."""
    limit = m.setup.host_cache_bytes
    mib = DEFAULT_MIB if limit == 0 else 2 * (limit // (1 << 20) if limit else DEFAULT_MIB)
    return m.fix("more-host-cache", mib=mib, gib=mib // 1024)


def check(m: Measures) -> Answer:
    """Ask whether turns miss a cache that is full."""
    full = host_cache_full(m)
    if full.height:
        return _host_cache(m, full)
    if m.events.filter(_STATE).height:
        return NotApplicable("the prompt cache has room")
    if not m.generations.height and m.intervals["prefix_hit_rate"].count():
        return _windows(m)
    told = known(m.turns, ["prompt", "cached_tokens", "prefill_ms"])
    if not told.height:
        return CannotTell("cached tokens are not logged")
    missed = told.filter(2 * pl.col("cached_tokens") < pl.col("prompt"))
    if not m.worth(float(missed["prefill_ms"].sum()), missed.height):
        return NotApplicable("most of what is read comes from the cache, or takes little time")
    if m.generations["slot"].count():
        return CannotTell("the log does not say how full the prompt cache is")
    return _pool(m)


def _later_turns(m: Measures) -> pl.DataFrame:
    return without(later_turns(m.followed), m.reprocessed)


def _host_cache(m: Measures, full: pl.DataFrame) -> Answer:
    since = full.group_by("source", "run").agg(since=pl.col("line").min())

    def late(turns: pl.DataFrame) -> pl.DataFrame:
        return turns.join(since, on=["source", "run"]).filter(pl.col("line") > pl.col("since"))

    turns = _later_turns(m)
    lost = late(turns.filter("lost", "taken", "proven"))
    served = turns.filter("found", "taken").height
    evicted, states = full.filter(_EVICTED), full.filter(_STATE)
    likely = lost.height >= (PROVEN if evicted.height else FEW) and served >= PROVEN
    if min(lost.height, served) < PROVEN:
        lost = late(_grown(m))
        if (median(lost.select("cached_tokens")) or 0.0) < TOP_TOKENS:
            return NotApplicable("prompts part in their first lines, so no earlier one would serve them")
    said = _said(states) if states.height else None
    full_by = f" ({said})" if said else ""
    why = f"The prompt cache is full{full_by}: another prompt pushes one out."
    if evicted.height:
        removed = plural(evicted.height, "prompt")
        why = f"The prompt cache is full{full_by}, and the engine removed {removed} from it."
    where = (
        *([m.evidence("prompt cache", said, rows=states.tail(1))] if said else []),
        *([m.evidence("prompts removed", evicted.height, rows=evicted)] if evicted.height else []),
    )
    return _finding(m, lost, likely=likely, why=why, where=where, fixes=(larger_cache(m),))


def _said(states: pl.DataFrame) -> str:
    """The engine's last word on its cache."""
    state = states.tail(1)
    return str(state["detail"].item() or f"{percent(state['value'].item())} of its limit")


def _grown(m: Measures) -> pl.DataFrame:
    """Turns that go on with the request before them on their slot, and missed the cache."""
    missed = m.grown.filter(pl.col("cached_tokens") < LOST_SHARE * pl.col("previous"))
    return missed.drop_nulls("prefill_ms").with_columns(kept="held")


def _pool(m: Measures) -> Answer:
    """One pool: turns that miss after others wrote much, beside turns that hit after little."""
    turns = _later_turns(m)
    lost, found = turns.filter("lost", "proven"), turns.filter("found")
    if min(lost.height, found.height) < PROVEN:
        return NotApplicable("no turns are seen that come back to a cache that has lost them")
    near, far = found["others"].quantile(0.75), lost["others"].quantile(0.25)
    if near is None or far is None or far <= max(near, 0.0):
        return NotApplicable("turns miss the cache no matter how much was written in between")
    why = (
        f"Turns find their history when others wrote up to {near:,.0f} tokens in between, and lose it from "
        f"{far:,.0f} on: the cache holds about as much."
    )
    where = (m.evidence("written in between, turns that lost theirs", far, "tokens", rows=lost),)
    fixes = (larger_cache(m), m.fix("larger-kv-pool"))
    return _finding(m, lost, likely=lost.height >= FEW, why=why, where=where, fixes=fixes)


def _finding(
    m: Measures,
    lost: pl.DataFrame,
    *,
    likely: bool,
    why: str,
    where: tuple[Evidence, ...],
    fixes: tuple[Fix, ...],
) -> Answer:
    change = prefix_reused(in_place(m.turns, lost, _LOST))
    saving = m.saving(change, bound="estimate" if likely else "at_most")
    if not m.worth(saving.ms, lost.height):
        return NotApplicable("too little time to matter")
    kept, came = median(lost.select("kept")) or 0.0, median(lost.select("cached_tokens")) or 0.0
    return RULE.finding(
        confidence=Confidence.LIKELY if likely else Confidence.POSSIBLE,
        why=f"{why} {lost.height:,} turns found {came:,.0f} tokens where {kept:,.0f} had been, and spent "
        f"{duration(float(lost['prefill_ms'].sum()))} reading.",
        evidence=(
            *where,
            m.evidence("tokens they had left, median", kept, "tokens"),
            m.evidence("tokens they found, median", came, "tokens", rows=lost),
        ),
        requests=lost.height,
        saving=saving,
        change=change,
        fixes=fixes,
    )


def _windows(m: Measures) -> Answer:
    """The hit rate of windows with a full KV cache, beside that of windows with room."""
    t = m.thresholds(RULE)
    read = busy_windows(m.intervals).filter(pl.col("prefill_tok_s") > 0)
    told = read.drop_nulls(["prefix_hit_rate", "kv_usage"])
    full, roomy = (
        told.filter(pl.col("kv_usage") >= t["full_pool"]),
        told.filter(pl.col("kv_usage") < t["roomy"]),
    )
    hits, before = median(full.select("prefix_hit_rate")), median(roomy.select("prefix_hit_rate"))
    if hits is None or before is None or min(full.height, roomy.height) < t["windows"]:
        return NotApplicable("the KV cache is never full, or never has room to compare with")
    if hits > before / 2 or before - hits < t["fall"]:
        return NotApplicable("the hit rate does not fall when the KV cache is full")
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"{percent(before)} of the prompt tokens came from the cache while it had room, and "
        f"{percent(hits)} in the {full.height:,} windows in which it was full: what could be shared may have "
        "been pushed out.",
        evidence=(
            m.evidence("hit rate with room, median", before, "share", rows=roomy),
            m.evidence("hit rate when full, median", hits, "share", rows=full),
        ),
        requests=0,
        fixes=(m.fix("larger-kv-pool"), larger_cache(m)),
        verify="With a larger KV cache, or half the requests at once, the hit rate should stay where it was.",
    )
