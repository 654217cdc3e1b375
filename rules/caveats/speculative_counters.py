"""With speculative decoding, tokens and steps are not the same.

What it looks at:
    Requests with draft tokens.

Why it matters:
    Accepted draft tokens count as generated but cost no step of their own. Time per token is then a mix of
    drafting, checking and luck, and no measure of memory bandwidth.

When not to worry:
    For the wait itself: times and tokens per second are what the user gets.

What to change:
    To judge the machine, run once without speculation.

Sources:
    Leviathan et al. 2022, arXiv:2211.17192.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.rule import Caveat
from rules.words import percent

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "speculative-counters"


def check(m: Measures) -> Caveat | None:
    """Say how much was drafted and accepted."""
    drafted = m.generations.filter(pl.col("draft_tokens") > 0)
    if not drafted.height:
        return None
    known = drafted.drop_nulls("accepted_tokens")
    proposed, accepted = int(known["draft_tokens"].sum()), int(known["accepted_tokens"].sum())
    share = f" ({percent(accepted / proposed)} of {proposed:,} draft tokens accepted)" if proposed else ""
    return Caveat(
        ID,
        f"{drafted.height:,} of {m.generations.height:,} requests used speculation{share}: generated tokens "
        "include accepted drafts, so time per token does not measure the memory's speed.",
    )
