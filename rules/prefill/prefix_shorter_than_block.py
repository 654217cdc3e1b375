"""What prompts have in common is shorter than the cache's block, so the cache never hits.

What it looks at:
    A cache that shares whole blocks of many tokens (256 or more), and never hits: a hit rate of 0 in every
    busy window that read prompts, or no cached token in any request while the shortest prompt is shorter
    than a block.

Why it matters:
    Only full blocks are shared. Models that mix attention with recurrent layers get blocks of 500 to 2,000
    tokens, and a system prompt of 240 tokens then never fills one.

When not to worry:
    Prompts that have nothing in common: then 0 is right, and nothing is lost. Where the common part is short,
    so is the time to win, and this finding ranks low.

What to change:
    A smaller block or match unit, or a common beginning longer than a block. Windows don't tell how long
    prompts are, so no time is claimed from them. From requests, the saving is that each prompt shares as
    much as the shortest prompt is long, which is more than it can be.

Sources:
    vllm#54607 (240 of 784 tokens), vllm#53749 (blocks of 1,920 and 2,096), vllm#40696; vLLM
    docs/features/automatic_prefix_caching.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.attribution import busy_windows
from rules.frames import known
from rules.measures import FEW
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import prefix_reused
from rules.sessions import in_place

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="prefix-shorter-than-block",
    phase=Phase.PREFILL,
    title="Prompts may share less than one block of the prefix cache",
    needs=("block_tokens",),
    engines=("vllm", "sglang"),
    remedies=("smaller-block",),
    verify="Count the tokens that all prompts begin with: less than a block can't be shared.",
    sources=("vllm#54607", "vllm#53749", "vllm#40696"),
    thresholds={
        "block": Threshold(
            256, "tokens of a block from which common beginnings are often shorter; engines default to 16"
        ),
        "windows": Threshold(3, "busy windows that read prompts without a hit (first guess)"),
    },
    fault=False,
)

BLOCKS = ("vllm", "sglang", "tensorrt-llm", "lmdeploy")
"""Engines whose cache shares whole blocks."""


def check(m: Measures) -> Answer:
    """Ask whether a coarse cache never hits."""
    block, t = m.setup.block_tokens, m.thresholds(RULE)
    if m.engine not in BLOCKS:
        return NotApplicable("this engine shares prefixes token by token, or does not say how")
    if block is None:
        return CannotTell("the log does not say how large the blocks of the prefix cache are")
    if block < t["block"]:
        return NotApplicable(f"blocks of {block} tokens are finer than what prompts share")
    if m.setup.prefix_caching is False:
        return NotApplicable("prefix caching is off")
    return _requests(m, block) if m.generations["cached_tokens"].count() else _windows(m, block, t["windows"])


def _requests(m: Measures, block: int) -> Answer:
    told = known(m.turns, ["prompt", "cached_tokens", "prefill_ms"])
    if told["cached_tokens"].sum():
        return NotApplicable("the prefix cache hits")
    shortest = told.select(pl.col("prompt").min()).item()
    if told.height < FEW or shortest >= block:
        return NotApplicable("every prompt fills a block, so its length is not why nothing is shared")
    change = prefix_reused(in_place(m.turns, told[1:], pl.lit(float(shortest))))
    saving = m.saving(change, bound="at_most")
    if not m.worth(saving.ms, told.height):
        return NotApplicable("too little time to matter")
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"The cache shares blocks of {block:,} tokens, the shortest of {told.height:,} prompts has "
        f"{shortest:,}, and not one token ever came from the cache. What all prompts begin with is shorter "
        "than a block, so it can't be shared.",
        evidence=(
            m.stated("block_tokens", "block of the prefix cache", unit="tokens"),
            m.evidence("shortest prompt", shortest, "tokens", rows=told.sort("prompt")),
            m.evidence("from the cache, all requests", 0, "tokens", rows=told),
        ),
        requests=told.height,
        saving=saving,
        change=change,
        fixes=(m.fix("smaller-block", block=block),),
    )


def _windows(m: Measures, block: int, least: float) -> Answer:
    read = busy_windows(m.intervals).filter(pl.col("prefill_tok_s") > 0).drop_nulls("prefix_hit_rate")
    if not read.height:
        return CannotTell("neither cached tokens nor a prefix cache hit rate are logged")
    if read["prefix_hit_rate"].max() != 0 or read.height < least:
        return NotApplicable("the prefix cache hits, or too few windows tell")
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"In {read.height:,} busy windows prompts were read and the prefix cache never hit. It shares "
        f"whole blocks of {block:,} tokens: if prompts have less than that in common, it can't.",
        evidence=(
            m.stated("block_tokens", "block of the prefix cache", unit="tokens"),
            m.evidence("hit rate, highest of these windows", 0.0, "share", rows=read),
        ),
        requests=0,
        fixes=(m.fix("smaller-block", block=block),),
        wont_help=("Moving text to the front of the prompt, unless the common part then fills a block.",),
    )
