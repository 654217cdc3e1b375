"""The first work after a pause is slow, because the GPU's memory had been let go or its clock lowered.

What it looks at:
    On a GPU: prefill of requests that began after a pause of a second or more, beside prefill of about as
    many evaluated tokens in about as long a prompt, right behind another request. The first computation after
    a pause is the prompt's, so that is where the time goes.

Why it matters:
    macOS releases the memory of a GPU that rests for about a second, and wiring it again takes time: 318 ms
    for a step that took 56 (M4 Pro, 7B F16). Each message of a chat comes after a pause.

When not to worry:
    llama.cpp keeps the memory wired since January 2025 (macOS 15), and for 180 s of rest since December 2025.
    Requests that had to load the model are left out. After a pause a cache may be gone; the rule compares
    equal work, so that alone does not make it speak.

What to change:
    A newer build; else a request now and then while nobody asks. The saving is what these requests took more.

Sources:
    llama.cpp#10119 (measured), llama.cpp#11427 (residency sets), llama.cpp#17766 (keep-alive).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.clocks import unplaced
from rules.keep_warm import keep_warm
from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import prefill_scaled
from rules.words import duration

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="idle-clock-wake",
    phase=Phase.PREFILL,
    title="The first work after a pause is slow",
    needs=("clock", "prefill_tokens", "prefill_ms"),
    remedies=("keep-warm",),
    verify="Send the same short prompt twice, without a pause and after ten seconds: the time to the first "
    "token should be the same.",
    sources=("llama.cpp#10119", "llama.cpp#11427", "llama.cpp#17766"),
    thresholds={
        "pause_ms": Threshold(
            1_000, "ms without work after which the memory is let go: between 1.0 and 1.2 s (llama.cpp#10119)"
        ),
        "wake_ms": Threshold(100, "ms that waking must take to be told from noise; 250 was measured"),
        "samples": Threshold(5, "requests needed after pauses, and without"),
    },
)

NEAR = 1.5
"""Evaluated tokens within this factor are compared with each other, and prompts within twice the length."""


def check(m: Measures) -> Answer:
    """Ask whether pauses cost the request that ends them."""
    t = m.thresholds(RULE)
    if m.hardware.on_cpu or not (m.hardware.gpus or m.hardware.gpu):
        return NotApplicable("no GPU is in use")
    if not m.overlap.known:
        return CannotTell(unplaced(m))
    if m.overlap.resolution_ms >= t["pause_ms"]:
        return CannotTell(
            "times are printed in whole seconds, so a request right behind another can't be told from one "
            f"after a pause of {duration(t['pause_ms'])}"
        )
    rows = (
        m.overlap.requests.with_row_index("row")
        .filter(pl.col("alone") & (pl.col("load_ms").fill_null(0) == 0) & (pl.col("prefill_tokens") > 0))
        .drop_nulls(["idle_ms", "prefill_ms"])
    )
    paused = rows.filter(pl.col("idle_ms") >= t["pause_ms"])
    busy = rows.filter(pl.col("idle_ms") < t["pause_ms"])
    if not paused.height:
        return NotApplicable("no request came after a pause")
    if min(paused.height, busy.height) < t["samples"]:
        return CannotTell("too few requests came after a pause, or too few without one")
    paused = _beside_busy(paused, busy)
    if paused.height < t["samples"]:
        return CannotTell("prompts after a pause are of other lengths than those without one")
    wake_ms = float(np.median(paused["more_ms"].to_numpy()))
    if wake_ms < t["wake_ms"] or float(np.quantile(paused["more_ms"].to_numpy(), 0.25)) < t["wake_ms"] / 2:
        return NotApplicable("prompts after a pause are read as fast as others")
    factors = np.ones(m.generations.height)
    factors[paused["row"].to_numpy()] = 1 - np.minimum(wake_ms / paused["prefill_ms"].to_numpy(), 1.0)
    change = prefill_scaled(factors)
    saving = m.saving(change)
    if not m.worth(saving.ms, paused.height):
        return NotApplicable("too little time to matter")
    return RULE.finding(
        confidence=Confidence.POSSIBLE,
        why=f"{paused.height:,} requests that came after a pause of {duration(t['pause_ms'])} or more took "
        f"{duration(wake_ms)} longer to read their prompt than requests with as many tokens and no pause "
        "before.",
        evidence=(
            m.evidence("longer prefill after a pause, median", round(wake_ms, 1), "ms", rows=paused),
            m.evidence("requests after a pause", paused.height, "requests"),
            m.evidence("requests without", busy.height, "requests", rows=busy),
        ),
        requests=paused.height,
        change=change,
        saving=saving,
        fixes=(keep_warm(m, every_s=max(round(0.9 * t["pause_ms"] / 1_000, 1), 0.5)),),
    )


def _beside_busy(paused: pl.DataFrame, busy: pl.DataFrame) -> pl.DataFrame:
    """Those with busy requests of about as many evaluated tokens and as long a prompt: what they took more.

    The median of those busy requests stands in, its time in proportion where it has fewer tokens.
    """
    alike = [
        (pl.col("prefill_tokens").log() / np.log(NEAR)).floor().alias("like"),
        (pl.col("prefill_tokens") + pl.col("cached_tokens").fill_null(0)).log(2).floor().alias("length"),
    ]
    near = busy.group_by(alike).agg(
        near_tokens=pl.col("prefill_tokens").median(), near_ms=pl.col("prefill_ms").median()
    )
    fewer = pl.max_horizontal(pl.col("prefill_tokens") / pl.col("near_tokens"), pl.lit(1.0))
    return (
        paused.with_columns(alike)
        .join(near, on=["like", "length"], how="inner")
        .with_columns(more_ms=pl.col("prefill_ms") - pl.col("near_ms") * fewer)
    )
