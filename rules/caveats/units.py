"""GB and GiB are seven percent apart, which matters when something nearly fits.

What it looks at:
    Weights and KV cache that come within that difference of the GPU's memory.

Why it matters:
    Download pages count in GB (10^9 bytes), engines and drivers in GiB (2^30), often written GB or MB. A
    file of 24 GB is one of 22.4 GiB.

When not to worry:
    When there is room to spare.

What to change:
    Compare bytes, or GiB with GiB. All sizes here are GiB.

Sources:
    llama.cpp prints MiB; ggml's MB are MiB too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.rule import Caveat

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "units"

GIB, GB = 2**30, 10**9


def check(m: Measures) -> Caveat | None:
    """Give both units, where one fits and the other seems not to."""
    memory = m.hardware.vram_bytes
    needed = (m.setup.weights_bytes or 0) + (m.setup.kv_bytes or 0)
    if not memory or not m.setup.weights_bytes or not GB / GIB <= needed / memory <= GIB / GB:
        return None
    what = "Weights and KV cache" if m.setup.kv_bytes else "The weights"
    return Caveat(
        ID,
        f"{what} are {needed / GIB:.1f} GiB or {needed / GB:.1f} GB, the GPU's memory is "
        f"{memory / GIB:.1f} GiB or {memory / GB:.1f} GB: compare like with like, since it is close.",
    )
