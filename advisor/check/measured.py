"""What a log has of what a limit is about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from advisor.check.counted import ended, requests
from advisor.check.rates import rate_of
from advisor.check.shares import cached_share, phase_share
from advisor.check.times import time_of

if TYPE_CHECKING:
    from advisor.check.limits import Limit
    from advisor.check.log import Log, Measured

_DIGITS = {"share": 6}
"""Digits that a number has when it is held against a limit, and written; others have three."""


def measured(limit: Limit, log: Log) -> Measured:
    """The number that the limit is held against, in its unit."""
    found = _measured(limit, log)
    digits = _DIGITS.get(limit.unit, 3)
    value, most = (None if it is None else round(it, digits) for it in (found.value, found.most))
    return replace(found, value=value, most=most)


def _measured(limit: Limit, log: Log) -> Measured:
    quantity, stat = limit.kind.quantity, limit.kind.stat
    match quantity:
        case "ttft" | "tpot" | "total" | "queue":
            return time_of(log, quantity, stat)
        case "prefill-tok-s" | "decode-tok-s":
            return rate_of(log, quantity.removesuffix("-tok-s"), stat)
        case "phase-share":
            return phase_share(log, limit.of)
        case "cached-share":
            return cached_share(log)
        case "requests":
            return requests(log)
    return ended(log, quantity, as_share=limit.unit == "share")
