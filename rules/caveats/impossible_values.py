"""Some printed times can't be true and were left out.

What it looks at:
    Values that contradict the same request's other lines, such as a prefill time far below its total less
    its decode.

Why it matters:
    llama-cpp-python reads the prompt's time before the work is done: it printed 0.24 ms for 457 tokens that
    took 5.8 s. Shown as a speed, that would be millions of tokens a second.

When not to worry:
    Everything else of these requests is used.

What to change:
    Total less decode is a fair guess at the prefill; the text gives it, and no number on the page contains
    it.

Sources:
    llama-cpp-python 0.3.36 beside its client's own clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.rule import Caveat
from rules.words import duration

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "impossible-values"


def check(m: Measures) -> Caveat | None:
    """Say how many, and what the prefill may have been."""
    count = m.counts.impossible_values
    if not count:
        return None
    said = f"{count} printed {'time is' if count == 1 else 'times are'} impossible and left out as unknown."
    unknown = m.generations.filter(pl.col("prefill_ms").is_null() & (pl.col("prefill_tokens") > 1))
    guessed = unknown.drop_nulls(["total_ms", "decode_ms"])
    rest_ms = float((guessed["total_ms"] - guessed["decode_ms"]).clip(0).sum())
    if guessed.height and rest_ms:
        said += (
            f" Total less decode suggests about {duration(rest_ms)} of prefill in {guessed.height:,} "
            f"{'request' if guessed.height == 1 else 'requests'}, which no number here contains."
        )
    return Caveat(ID, said, of_all=True)
