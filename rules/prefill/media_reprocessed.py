"""Turns of a conversation with images are read whole again, though their text only grew.

What it looks at:
    The engine's lines about encoded images or sounds, and the growing conversations that they belong to:
    what came from the cache of the prompt before.

Why it matters:
    An image is a thousand tokens or so, and it stands before the text that follows it. If it is not found
    again, neither is anything behind it, and it is encoded anew each turn.

When not to worry:
    Single questions, each with an image of its own: there is nothing to reuse but the text before it. Where
    most turns come from the cache, images are found again by their bytes.

What to change:
    Fixed text first and images behind it, and the same bytes each time: a client that scales or compresses
    an image again makes it another one. llama-server has no `--cache-reuse` and no context shift with
    images, and keeps them in its prompt cache only since February 2026. The saving is this log's own
    prefill with 95 % of the prompt before reused: an upper bound.

Sources:
    llama.cpp#19877 (prompt cache with images), llama.cpp#21133.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.samples import median
from rules.savings import prefix_reused
from rules.sessions import BRIEF_STEPS, REUSABLE, growing, in_place, placed
from rules.words import duration

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="media-reprocessed",
    phase=Phase.PREFILL,
    title="Turns with images are read whole again",
    needs=("prompt_tokens", "cached_tokens", "prefill_ms"),
    remedies=("media-last",),
    verify="Continue the conversation without a new image: no line about encoding, and little to evaluate.",
    sources=("llama.cpp#19877", "llama.cpp#21133"),
    thresholds={
        "turns": Threshold(3, "turns with images that missed the cache (first guess)"),
        "reused": Threshold(0.3, "of the prompt before, from the cache; a working one gives more than 0.9"),
    },
)

_LOST = (REUSABLE * pl.col("reusable") - pl.col("cached_tokens")).clip(lower_bound=0)


def check(m: Measures) -> Answer:
    """Ask whether conversations with images miss the cache."""
    t = m.thresholds(RULE)
    media = m.events.filter(pl.col("kind") == "media")
    if not media.height:
        return NotApplicable("no line tells of images or sounds")
    seen = placed(media, m.turns).drop_nulls("row").select("row").unique()
    turns = growing(m.turns, BRIEF_STEPS, but=m.reprocessed).join(seen, on="row", how="semi")
    if not turns.height:
        return NotApplicable("the requests with images do not continue a conversation")
    turns = turns.filter(pl.col("previous") > 0).drop_nulls(["cached_tokens", "prefill_ms"])
    if not turns.height:
        return CannotTell("cached tokens are not logged")
    missed = turns.filter(pl.col("cached_tokens") < t["reused"] * pl.col("previous"))
    if missed.height < max(t["turns"], turns.height / 2):
        return NotApplicable("most turns with images come from the cache")
    change = prefix_reused(in_place(m.turns, missed, _LOST))
    saving = m.saving(change, bound="at_most")
    if not m.worth(saving.ms, missed.height):
        return NotApplicable("too little time to matter")
    came, held = median(missed.select("cached_tokens")) or 0.0, median(missed.select("reusable")) or 0.0
    encoding_ms = float(media["value"].sum()) if media["value"].count() else None
    encoded = f", {duration(encoding_ms)} of it encoding" if encoding_ms else ""
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"{missed.height:,} turns with images found {came:,.0f} tokens in the cache where {held:,.0f} "
        f"could have been, and spent {duration(float(missed['prefill_ms'].sum()))} reading{encoded}.",
        evidence=(
            m.evidence("from the cache, median turn with images", came, "tokens", rows=missed),
            m.evidence("held from the turn before, median", held, "tokens", rows=missed),
            m.evidence("images or sounds encoded", media.height, rows=media),
        ),
        requests=missed.height,
        saving=saving,
        change=change,
        fixes=(m.fix("media-last"),),
    )
