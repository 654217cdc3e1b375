"""Prefills of a few tokens give no rate.

What it looks at:
    Requests that evaluated fewer than 64 prompt tokens, mostly because the rest came from the cache.

Why it matters:
    Such a prefill costs about one decode step, whatever its length. Beside a long one its tokens per second
    look like a slowdown, and are none.

When not to worry:
    Times are right; only the rate means nothing.

What to change:
    Nothing: it is what a cache hit looks like.

Sources:
    ik_llama.cpp#455 (11 tok/s for 13 tokens, 84 tok/s for 536 on the same machine).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.rule import Caveat

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "cached-prefill-noise"

SHORT_TOKENS = 64
WORTH_SAYING = 0.2


def check(m: Measures) -> Caveat | None:
    """Say how many, where they are more than the odd one."""
    timed = m.generations.drop_nulls(["prefill_tokens", "prefill_ms"])
    short = timed.filter(pl.col("prefill_tokens") < SHORT_TOKENS)
    if not short.height or short.height < WORTH_SAYING * timed.height:
        return None
    return Caveat(
        ID,
        f"{short.height:,} of {timed.height:,} requests evaluated fewer than {SHORT_TOKENS} prompt tokens: "
        "their prefill rate means nothing and is not shown or used.",
    )
