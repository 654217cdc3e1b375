"""Rates of requests that ran at once are shares of the machine.

What it looks at:
    How many requests were in flight together, by the process's own clock.

Why it matters:
    Requests that overlap share each read of the weights and wait for each other's prompts. A request alone
    is faster, and a change of load looks like a change of speed.

When not to worry:
    When the load is the same before and after a change.

What to change:
    To judge the machine, send one request at a time.

Sources:
    Continuous batching: a decoding stream gets one token for each step that it shares (arXiv:2403.02310).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.rule import Caveat

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "concurrent-rates"


def check(m: Measures) -> Caveat | None:
    """Say how many ran at once, and how many alone."""
    if m.overlap.most is None or m.overlap.most <= 1 or not m.decode_samples:
        return None
    alone, rates = m.decoding.alone.height, m.decode_samples
    if alone == rates:
        return None
    return Caveat(
        ID,
        f"Up to {m.overlap.most} requests ran at once, and {alone or 'none'} of {rates} decode rates are of "
        "requests that ran alone: the others share the machine and are slower than one request would be.",
    )
