"""More requests at once than the machine gains from: together they generate no faster than half of them.

What it looks at:
    What all requests together generate, by how many run: from requests while hardly a prompt was read beside
    them, or from the engine's own steps, batches and steady windows. The most crowded level with
    five samples or more, beside one at about half of it. The rule fires where twice the requests bring less
    than a tenth more tokens a second.

Why it matters:
    Up to a point, requests that run at once share each read of the weights, and the second one is almost
    free. Beyond it the arithmetic is what takes time, and each further request only slows the others down.
    All of them then finish late, where half of them could finish early and the rest no later.

When not to worry:
    When every client must see its first words soon, at whatever speed they then come. Fewer at once means
    that some wait before their first token.

What to change:
    Cap the requests at once at the knee of the curve. The saving takes the crowded requests in two halves,
    one after the other: the first half is done in half the time, so the mean falls by a quarter, or by more
    where the crowd is slower than half of it. An upper bound: it leaves out that requests come and go.

Sources:
    Pope et al. 2022, arXiv:2211.05102 (a step for B sequences); llama.cpp#22921; lhl/strix-halo-testing
    (704 tok/s at 32 sequences, 195 at 64).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.rule import CannotTell, Confidence, NotApplicable, Phase, Rule, Threshold
from rules.savings import decode_scaled
from rules.words import rate

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.rule import Answer
    from rules.savings import Array

RULE = Rule(
    id="concurrency-over-saturated",
    phase=Phase.DECODE,
    title="More requests run at once than the machine gains from",
    remedies=("fewer-sequences",),
    verify="With the lower limit, the tokens a second of all requests together should stay as they are, and "
    "each answer should come sooner.",
    sources=("arXiv:2211.05102", "llama.cpp#22921", "lhl/strix-halo-testing"),
    thresholds={
        "gain": Threshold(1.1, "tokens a second of all over those of half as many; 2 would be ideal"),
        "samples": Threshold(5, "requests, steps or windows at a level; first guess"),
        "fewest": Threshold(4, "requests at once, below which nobody need be kept waiting; first guess"),
    },
)

HALF = (0.35, 0.65)
"""What counts as half as many; nearer to half is better."""

CROWDED = 0.75
"""Of the crowded level: requests with that much company would gain."""

TWO_HALVES = 0.75
"""Mean time of requests in two halves, one after the other, over that of all at once, at equal speed."""


def check(m: Measures) -> Answer:
    """Ask whether half as many requests would generate as much."""
    t = m.thresholds(RULE)
    curve = m.overlap.curve.filter(pl.col("samples") >= t["samples"])
    if curve.height < 2:
        return CannotTell("requests ran at too few different levels of concurrency to compare them")
    crowd = int(curve["level"][-1])
    if crowd < t["fewest"]:
        return NotApplicable(f"at most {crowd} requests ran at once for any length of time")
    halves = curve.filter(pl.col("level").is_between(HALF[0] * crowd, HALF[1] * crowd))
    if not halves.height:
        return CannotTell(f"nothing tells how fast half of {crowd} requests are")
    knee, _, before = halves.sort((pl.col("level") - crowd / 2).abs()).row(0)
    together = float(curve["tok_s"][-1])
    gain = together / before if before else float("inf")
    if gain > t["gain"]:
        return NotApplicable(f"{crowd} requests generate {gain:.1f} times as much as {knee}")
    crowded = m.overlap.requests.filter(pl.col("level") >= CROWDED * crowd)
    change = decode_scaled(_in_two_halves(m, crowd, gain)) if crowded.height else None
    saving = m.saving(change, bound="at_most") if change else None
    if saving is not None and not m.worth(saving.ms, crowded.height):
        return NotApplicable("too little time to matter")
    where = (
        crowded if crowded.height else m.intervals.filter((pl.col("running") - crowd).abs() <= 0.1 * crowd)
    )
    return RULE.finding(
        confidence=Confidence.LIKELY,
        why=f"{crowd} requests at once generate {rate(together)} together, {knee} generate {rate(before)}: "
        "the others only slow them down.",
        evidence=tuple(
            m.evidence(
                f"{level} at once generate together, median of {samples}",
                round(tok_s, 1),
                "tok/s",
                rows=where if level == crowd else None,
            )
            for level, samples, tok_s in curve.iter_rows()
            if level in (1, knee, crowd)
        ),
        requests=crowded.height or crowd,
        saving=saving,
        change=change,
        fixes=(m.fix("fewer-sequences", slots=knee),),
        wont_help=("More requests at once: all of them together are no faster.",),
    )


def _in_two_halves(m: Measures, crowd: int, gain: float) -> Array:
    """Of each request's decode, what is left where those with much company run in two halves."""
    level = pl.col("level").fill_null(0)
    left = pl.when(level >= CROWDED * crowd).then(min(TWO_HALVES * gain, 1.0)).otherwise(1.0)
    array: Array = m.overlap.requests.select(left).to_series().to_numpy()
    return array
