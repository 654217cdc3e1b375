"""Answers of one token have no decode time.

What it looks at:
    Requests with at most one generated token.

Why it matters:
    The first token is made by the prefill. Engines then print a decode of 0 ms, or an infinite rate.

When not to worry:
    Their prefill counts as any other.

What to change:
    Nothing; such requests are often a client's warm-up or a classifier.

Sources:
    llama.cpp prints `0.00 ms / 1 tokens`, or `inf tokens per second` until b10405.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.rule import Caveat

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "one-token-lines"

WORTH_SAYING = 0.05


def check(m: Measures) -> Caveat | None:
    """Say how many, where they are more than a few in a hundred."""
    timed = m.generations.drop_nulls(["output_tokens", "decode_ms"])
    single = timed.filter(pl.col("output_tokens") <= 1).height
    if not single or single < WORTH_SAYING * timed.height:
        return None
    made = "request generated" if single == 1 else "requests generated"
    return Caveat(ID, f"{single} {made} one token or none: no decode rate follows from that.")
