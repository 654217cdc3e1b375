"""Too few requests are long enough to give a rate.

What it looks at:
    How many requests give a valid sample of a phase: a prefill of at least 256 evaluated tokens and 50 ms,
    a decode of at least 32 tokens and 300 ms.

Why it matters:
    With fewer than five, a rate or a percentile is one request's luck.

When not to worry:
    Shares of time are sums over all requests and hold. Prefills that are short because the cache held the
    rest are the matter of `cached-prefill-noise`.

What to change:
    Log more requests, or longer ones.

Sources:
    Thresholds: below them a clock of milliseconds and the fixed cost of a batch dominate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.caveats import cached_prefill_noise
from rules.measures import FEW
from rules.rule import Caveat

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "few-samples"


def check(m: Measures) -> Caveat | None:
    """Say of which phase, and how many there are."""
    rows = m.generations.select("prefill_tokens", "prefill_ms", "decode_ms")
    prefills = rows.filter(pl.col("prefill_ms").is_not_null())
    decodes = rows.filter(pl.col("decode_ms").is_not_null())
    few = []
    longer = (prefills["prefill_tokens"] >= cached_prefill_noise.SHORT_TOKENS).any()
    if longer and m.prefill_samples < FEW and cached_prefill_noise.check(m) is None:
        few.append(f"prefill {m.prefill_samples} of {prefills.height:,} requests")
    if decodes.height and m.decode_samples < FEW:
        few.append(f"decode {m.decode_samples} of {decodes.height:,} requests")
    if not few:
        return None
    return Caveat(
        ID,
        f"Long enough to give a rate: {', '.join(few)}. What they give is rough; shares of time are sums "
        "over all requests and hold.",
    )
