"""What still makes room in the KV pool of engines that keep one for all requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.remedies import Fix

LARGEST_SHARE = {"sglang": 0.9}
USUAL_LARGEST_SHARE = 0.95
"""Of a device's memory in the engine's hands, as `larger-kv-pool` advises it."""

LEAST_GAIN = 0.02
"""Of a device's memory: less is not worth a restart."""

EIGHT_BITS = ("fp8", "int8", "q8")


def larger_pool(m: Measures) -> tuple[Fix, ...]:
    """More of the device's memory, then fewer bits; none where the log shows that both are used."""
    share, kv_type = m.setup.memory_share, (m.setup.kv_type_k or "").lower()
    most = LARGEST_SHARE.get(m.engine or "", USUAL_LARGEST_SHARE)
    more = () if share is not None and share > most - LEAST_GAIN else (m.fix("larger-kv-pool"),)
    return more + (() if kv_type.startswith(EIGHT_BITS) else (m.fix("quantise-kv"),))
