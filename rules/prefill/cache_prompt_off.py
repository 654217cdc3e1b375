"""Prompts as long as the one before them are read whole: the prompt cache may be off.

What it looks at:
    Prompts that llama-server found whole in the slot it chose for them, else prompts of the same length one
    after the other on a slot, where nothing in the whole log ever came from a cache, though every request
    tells. vLLM and SGLang say themselves that prefix caching is off.

Why it matters:
    A prompt that was just read costs nothing to read again, if the engine may keep it. Retries, drafts of
    the same question and every turn of a conversation profit.

When not to worry:
    Two prompts of one length may hold other text, as a benchmark's do: its lengths repeat too, so where the
    engine does not say that the slot held the prompt, this is only possible. Where all prompts of such a log
    have one length, the rule is silent. Prompts that are shorter than two cache blocks can't be reused either
    (`prefix-shorter-than-block`). Where the engine says that the model's memory forced the reading,
    `swa-hybrid-full-reprocess` speaks. A vLLM or SGLang server whose prompts have nothing in common loses
    nothing.

What to change:
    Switch the cache on: a field of the request for llama.cpp's servers, a switch of the server for others.
    The saving is this log's own prefill with every repeated prompt taken from the cache; an upper bound where
    they may not be the same.

Sources:
    ik_llama.cpp#455 (536 tokens, three times 6.4 s); vLLM docs/features/automatic_prefix_caching.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.attribution import busy_windows, interval_verdict
from rules.frames import known, without
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import VALID_PREFILL_TOKENS, median
from rules.savings import prefix_reused
from rules.sessions import in_place, placed
from rules.words import duration

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="cache-prompt-off",
    phase=Phase.PREFILL,
    title="Prompts seem to be repeated, and are read whole each time",
    needs=("prompt_tokens", "cached_tokens", "prefill_ms"),
    remedies=("cache-prompt-on",),
    verify="Send one prompt twice in a row: the second should evaluate a token or two.",
    sources=("ik_llama.cpp#455",),
    thresholds={
        "repeats": Threshold(2, "prompts as long as the one before them; one may be chance (first guess)"),
        "repeats_share": Threshold(
            0.2, "of all requests: chance gives one in the number of lengths, a few percent (first guess)"
        ),
        "windows": Threshold(3, "busy windows in which prompts were read (first guess)"),
    },
)

BLOCKS = 2
"""A prompt that has one full block at most may have nothing to share."""

SWITCHED = ("vllm", "sglang")
"""Engines whose line about prefix caching is about all reuse; llama.cpp's is about its second cache."""


def check(m: Measures) -> Answer:
    """Ask whether prompts that were just read are read again."""
    if m.engine in SWITCHED and m.setup.prefix_caching is False and not m.generations.height:
        return _switched_off(m)
    told = known(m.turns, ["prompt", "cached_tokens", "prefill_ms"])
    if not told.height and m.setup.prefix_caching and m.engine in SWITCHED:
        return NotApplicable("prefix caching is on")
    if not told.height:
        return CannotTell("cached tokens are not logged")
    if told["cached_tokens"].sum():
        return NotApplicable("some prompts come from the cache")
    told = without(told, m.reprocessed)
    least = max(VALID_PREFILL_TOKENS, BLOCKS * (m.setup.block_tokens or 0))
    t = m.thresholds(RULE)
    held = _held(m, told).filter(pl.col("prompt") >= least)
    if held.height >= t["repeats"]:
        return _off(m, told, held, sure=True)
    repeats = told.filter((pl.col("prompt") == pl.col("previous")) & (pl.col("prompt") >= least))
    if repeats.height < max(t["repeats"], t["repeats_share"] * told.height):
        return NotApplicable("hardly any prompt is as long as the one before it")
    if told["prompt"].n_unique() == 1:
        return CannotTell("prompts that are all equally long may be a benchmark's, each with other text")
    return _off(m, told, repeats, sure=False)


def _held(m: Measures, told: pl.DataFrame) -> pl.DataFrame:
    """The turns whose whole prompt the engine found in the slot that it chose."""
    said = placed(m.events.filter(pl.col("kind") == "prompt_repeated"), m.turns)
    return told.join(said.select("row").drop_nulls().unique(), on="row", how="semi")


def _off(m: Measures, told: pl.DataFrame, repeats: pl.DataFrame, *, sure: bool) -> Answer:
    change = prefix_reused(in_place(m.turns, repeats, pl.col("prompt") - 1))
    saving = m.saving(change, bound="estimate" if sure else "at_most")
    if not m.worth(saving.ms, repeats.height):
        return NotApplicable("too little time to matter")
    tokens = median(repeats.select("prompt")) or 0.0
    each_ms = median(repeats.select("prefill_ms"))
    which = "are as long as the one right before them"
    then = "If these are the same text, it is off; a benchmark that sends new text each time looks the same."
    if sure:
        which, then = "were in their slot already, by the engine's own line", "It is off."
    label = "prompts that the slot held" if sure else "prompts as long as the one before"
    return RULE.finding(
        title="The same prompt is read whole again each time" if sure else None,
        confidence=Confidence.LIKELY if sure else Confidence.POSSIBLE,
        why=f"{repeats.height:,} prompts {which}, {tokens:,.0f} tokens, and each was read whole, "
        f"{duration(each_ms)} a time. In this log no prompt ever came from the cache. {then}",
        evidence=(
            m.evidence(label, repeats.height, "requests", rows=repeats),
            m.evidence("prefill of such a prompt, median", each_ms, "ms", rows=repeats),
            m.evidence("from the cache, all requests", 0, "tokens", rows=told),
        ),
        requests=repeats.height,
        saving=saving,
        change=change,
        fixes=(m.fix("cache-prompt-on"),),
    )


def _switched_off(m: Measures) -> Answer:
    read = busy_windows(m.intervals).filter(pl.col("prefill_tok_s") > 0)
    few = read.height < m.thresholds(RULE)["windows"]
    if few or interval_verdict(m.intervals).phase == "decode":
        return NotApplicable("reading prompts is not where the time goes, or too few windows tell")
    return RULE.finding(
        title="Prefix caching is off",
        confidence=Confidence.POSSIBLE,
        fault=False,
        why=f"The engine says that prefix caching is off, and prompts were read in {read.height:,} busy "
        "windows. Prompts that begin alike are each read whole; how much they share is not logged.",
        evidence=(
            m.stated("prefix_caching", "prefix caching"),
            m.evidence(
                "prompt tokens read, median of these windows",
                median(read.select("prefill_tok_s")),
                "tok/s",
                rows=read,
            ),
        ),
        requests=0,
        fixes=(m.fix("cache-prompt-on"),),
        verify="Switch it on and look at the prefix cache hit rate after a hundred requests: 0 is no loss.",
    )
