"""The model's kind of memory can't go back, so the engine reads the whole prompt again.

What it looks at:
    The engine's own line `forcing full prompt re-processing due to lack of cache data`, and for each
    request it is about, how many tokens the request before had left in that slot.

Why it matters:
    Sliding-window layers forget what lies outside their window, and recurrent layers keep only one state.
    To continue from an earlier point the engine needs a saved copy of it; without one it starts from the
    first token, however long the conversation is.

When not to worry:
    When the slot held another conversation there was little to reuse, and the line costs nothing: such
    requests are not counted. llama-server prints the line at verbosity 4 in 2026 builds, so its absence
    proves nothing.

What to change:
    Sliding window: keep the full cache (`--swa-full`), if the memory is there. Hybrid or recurrent models,
    and where memory is short: more frequent checkpoints, and prompts that are only added to at the end. The
    saving is this log's own prefill with all of the earlier prompt reused; the log does not say how much of
    it was the same, so it is an upper bound.

Sources:
    llama.cpp#13194, llama.cpp#14157, llama.cpp#15293, llama.cpp#20153, llama.cpp#21831.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.rule import Confidence, NotApplicable, Phase, Rule
from rules.samples import median
from rules.savings import prefix_reused
from rules.sessions import in_place
from rules.words import duration

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer

RULE = Rule(
    id="swa-hybrid-full-reprocess",
    phase=Phase.PREFILL,
    title="The whole prompt is read again because the model's memory can't go back",
    remedies=("swa-full", "context-checkpoints"),
    verify="Continue a long conversation: no such line, and a turn evaluates little more than its new text.",
    sources=("llama.cpp#13194", "llama.cpp#14157", "llama.cpp#15293", "llama.cpp#20153", "llama.cpp#21831"),
)


def check(m: Measures) -> Answer:
    """Ask whether the log says that prompts were processed from the start."""
    said = m.events.filter(pl.col("kind") == "full_reprocess")
    if not said.height:
        return NotApplicable("the log has no line about it")
    turns = m.turns.filter(pl.col("row").is_in(m.reprocessed.implode())).drop_nulls("prefill_ms")
    again = turns.filter(pl.col("prompt") >= pl.col("previous"))
    if not again.height:
        return NotApplicable("the requests it happened to continue nothing that their slot held")
    prefill_ms = float(again["prefill_ms"].sum())
    if not m.worth(prefill_ms, again.height):
        return NotApplicable("too little time to matter")
    change = prefix_reused(
        in_place(m.turns, again, pl.col("reusable") - pl.col("cached_tokens").fill_null(0))
    )
    reusable = median(again.select("reusable")) or 0.0
    window_first = m.setup.sliding_window != 0
    remedies = RULE.remedies if window_first else RULE.remedies[1:]
    return RULE.finding(
        confidence=Confidence.CERTAIN,
        why=f"The engine says so {said.height:,} times. {again.height:,} of these requests continued what "
        f"their slot held, {reusable:,.0f} tokens in the median, and read it again: {duration(prefill_ms)}.",
        evidence=(
            m.evidence("lines that say so", said.height, rows=said),
            m.evidence("tokens the slot held, median", reusable, "tokens", rows=again),
            m.evidence(
                "evaluated again, median", median(again.select("prefill_tokens")), "tokens", rows=again
            ),
            *(
                [m.stated("sliding_window", "sliding window", unit="tokens")]
                if m.setup.sliding_window
                else []
            ),
        ),
        requests=again.height,
        saving=m.saving(change, bound="at_most"),
        change=change,
        fixes=tuple(m.fix(remedy) for remedy in remedies),
        wont_help=(
            "A stable system prompt alone: the cache is thrown away although the prompt is the same.",
        ),
    )
