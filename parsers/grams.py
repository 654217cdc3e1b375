"""Which of many literals a block of a log may hold, in one pass over the block however many they are.

A Bloom filter with one hash: the block's runs of four bytes that begin at even places are marked in a table.
A literal begins at an even or at an odd place, and can only be there if all of its own runs that would then
be at even ones are marked. It never misses one; now and then it says maybe where there is none.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

_BITS = 18
_RUN = 4
_STEP = 2
_SHORTEST = _RUN + _STEP - 1
"""A literal of this size holds a marked run wherever it begins."""

_MULTIPLIER = 2_654_435_761
"""The golden ratio's 32 bits (Knuth's multiplicative hash)."""


class Literals:
    """Literals that blocks are asked for, all at once."""

    def __init__(self, literals: Iterable[bytes]) -> None:
        import numpy as np

        distinct = list(dict.fromkeys(literals))
        self._short = [literal for literal in distinct if len(literal) < _SHORTEST]
        self._long = [literal for literal in distinct if len(literal) >= _SHORTEST]
        aligned = [runs for literal in self._long for runs in _runs(literal)]
        self._hashes = np.concatenate(aligned) if aligned else np.zeros(0, np.uint32)
        self._starts = np.cumsum([0, *map(len, aligned)][:-1]) if aligned else np.zeros(0, np.int64)

    def maybe_in(self, block: bytes) -> set[bytes]:
        """Those that the block holds, and maybe a few more."""
        import numpy as np

        found = set(self._short)
        if self._long:
            seen = np.zeros(1 << _BITS, bool)
            for at in range(0, _RUN, _STEP):
                seen[_hashes(np.frombuffer(block[at:], "<u4", max(len(block) - at, 0) // _RUN))] = True
            whole = np.logical_and.reduceat(seen[self._hashes], self._starts)
            maybe = whole.reshape(-1, _STEP).any(axis=1)
            found.update(self._long[at] for at in np.flatnonzero(maybe))
        return found


def _hashes(runs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    import numpy as np

    hashes: NDArray[np.uint32] = (runs * np.uint32(_MULTIPLIER)) >> np.uint32(32 - _BITS)
    return hashes


@lru_cache(maxsize=4096)
def _runs(literal: bytes) -> list[NDArray[np.uint32]]:
    """The hashes of a literal's runs that are marked if it begins at an even place, and if at an odd one."""
    import numpy as np

    every = [literal[at : at + _RUN] for at in range(len(literal) - _RUN + 1)]
    return [_hashes(np.frombuffer(b"".join(every[begin::_STEP]), "<u4")) for begin in range(_STEP)]
