"""Time per token grows with the context, so rates at different depths are different rates.

What it looks at:
    This log's own line of time per token against context: what it says for the shallowest and the deepest
    context in the log.

Why it matters:
    Each token reads the whole KV cache. A conversation gets slower as it grows, and two logs with different
    conversations differ without any change of settings.

When not to worry:
    Where both sides of a comparison have the same contexts.

What to change:
    Compare rates at the same depth.

Sources:
    Pope et al. 2022, arXiv:2211.05102; llama-bench has `-d` for this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.rule import Caveat
from rules.words import count

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "context-confound"

WORTH_SAYING = 1.15


def check(m: Measures) -> Caveat | None:
    """Say what a token costs at both ends."""
    slope = m.decode_slope
    if slope is None or slope.beta_ms.low <= 0:
        return None
    ends = slope.shallowest_tokens, slope.deepest_tokens
    near, deep = (slope.ms_per_token(tokens) for tokens in ends)
    if deep < WORTH_SAYING * near:
        return None
    return Caveat(
        ID,
        f"A token takes {near:,.1f} ms with {count(ends[0])} tokens in the context and {deep:,.1f} ms with "
        f"{count(ends[1])}: compare rates only at the same depth.",
    )
