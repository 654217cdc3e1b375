"""Sums over requests know no single one.

An engine's metrics add up times and tokens, and so do the results of benchmarks. A mean and a share follow
from them, and from buckets a percentile; not which request was slow, nor when.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.rule import Caveat

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "sums-only"


def check(m: Measures) -> Caveat | None:
    """Say what sums can't give, and how to leave out what came before."""
    if m.generations.height or not m.sums.rows.height:
        return None
    text = "These are sums over requests: which of them were slow, and when, does not follow from them."
    if m.sums.kind == "since_start":
        text += (
            " They count from the engine's start, warm-up included; for a while of their own, save /metrics "
            "before and after it into one file, one after the other."
        )
    if m.engine == "llama-server" and m.sums.total("prefill_ms") is None:
        text += (
            " This build counts prompt time once for each batch and generation for each request: with "
            "several slots busy the two don't add up. Its log has both for each request."
        )
    return Caveat(ID, text)
