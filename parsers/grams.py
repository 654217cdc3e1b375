"""Which of many literals a block of a log may hold, in one pass over the block however many they are.

A Bloom filter with one hash: the block's runs of four bytes are marked in a table, and a literal can only be
there if all of its own runs are marked. It never misses one; now and then it says maybe where there is none.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BITS = 18
_RUN = 4
_MULTIPLIER = 2_654_435_761
"""The golden ratio's 32 bits (Knuth's multiplicative hash)."""


class Grams:
    """The runs of four bytes in a block."""

    def __init__(self, block: bytes) -> None:
        import numpy as np

        self._seen = np.zeros(1 << _BITS, bool)
        for shift in range(_RUN):
            count = max(len(block) - shift, 0) // _RUN
            self._seen[_hashes(np.frombuffer(block, "<u4", count, shift if count else 0))] = True

    def may_hold(self, literal: bytes) -> bool:
        """False only if the literal is not in the block."""
        return bool(self._seen[_runs(literal)].all())


def _hashes(runs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    import numpy as np

    hashes: NDArray[np.uint32] = (runs * np.uint32(_MULTIPLIER)) >> np.uint32(32 - _BITS)
    return hashes


@lru_cache(maxsize=1024)
def _runs(literal: bytes) -> NDArray[Any]:
    """The hashes of a literal's runs; none for one that is shorter than a run."""
    import numpy as np

    places = range(len(literal) - _RUN + 1)
    runs = [int.from_bytes(literal[at : at + _RUN], "little") for at in places]
    return _hashes(np.array(runs, np.uint32))
