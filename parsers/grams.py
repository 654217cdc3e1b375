"""Which of many literals a block of a log may hold, in one pass over the block however many they are.

Both ways hash runs of four bytes and mark them in a table: a Bloom filter with one hash. None ever misses a
literal.

In a large block its own runs are marked, those that begin at even places. A literal begins at an even or at
an odd place, and can only be there if all of its runs that would then be at even ones are marked. A small
block costs less than that table: one run of each literal is marked beforehand, the block's are looked up, and
what may be there is looked for.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from parsers.finding import find

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

_LARGE = 1 << 14
"""From this size on it is the block's runs that are marked."""

_BITS = 18
_RUN = 4
_STEP = 2
_SHORTEST = _RUN + _STEP - 1
"""A literal of this size holds a marked run wherever it begins."""

_AT_ONCE = 1 << 15
"""So many runs are hashed at once. Memory for more would be taken from the system each time, and fresh pages
cost more than the hashes."""

_MULTIPLIER = 2_654_435_761
"""The golden ratio's 32 bits (Knuth's multiplicative hash)."""


class Literals:
    """Literals that blocks are asked for, all at once."""

    def __init__(self, literals: Iterable[bytes]) -> None:
        import numpy as np

        distinct = list(dict.fromkeys(literals))
        self._multiplier, self._shift = np.uint32(_MULTIPLIER), np.uint32(32 - _BITS)
        self._short = [literal for literal in distinct if len(literal) < _SHORTEST]
        self._long = [literal for literal in distinct if len(literal) >= _SHORTEST]
        aligned = [_runs(literal)[begin::_STEP] for literal in self._long for begin in range(_STEP)]
        self._hashes = self._hash_of(run for runs in aligned for run in runs)
        self._starts = np.cumsum([0, *map(len, aligned)])[:-1]
        self._tiny = [literal for literal in distinct if len(literal) < _RUN]
        others = [literal for literal in distinct if len(literal) >= _RUN]
        common = Counter(run for literal in others for run in _runs(literal))
        rarest = (min(_runs(literal), key=lambda run: (common[run], _letters(run))) for literal in others)
        self._by_hash: dict[int, list[bytes]] = {}
        for literal, one in zip(others, self._hash_of(rarest).tolist(), strict=True):
            self._by_hash.setdefault(one, []).append(literal)
        self._marked = np.zeros(1 << _BITS, bool)
        self._marked[list(self._by_hash)] = True

    def maybe_in(self, block: bytes) -> frozenset[bytes]:
        """Those that the block holds; if it is large, those that it may hold."""
        return frozenset(self._of_large(block) if len(block) >= _LARGE else self._of_small(block))

    def _of_large(self, block: bytes) -> list[bytes]:
        import numpy as np

        if not self._long:
            return self._short
        seen = np.zeros(1 << _BITS, bool)
        for at in range(0, _RUN, _STEP):
            runs = np.frombuffer(block, "<u4", (len(block) - at) // _RUN, at)
            for some in range(0, len(runs), _AT_ONCE):
                seen[self._hash(runs[some : some + _AT_ONCE])] = True
        whole = np.logical_and.reduceat(seen[self._hashes], self._starts)
        maybe = whole.reshape(-1, _STEP).any(axis=1)
        return self._short + [self._long[at] for at in np.flatnonzero(maybe)]

    def _of_small(self, block: bytes) -> list[bytes]:
        import numpy as np

        found = [literal for literal in self._tiny if find(block, literal) >= 0]
        if len(block) >= _RUN:
            runs = np.ndarray((len(block) - _RUN + 1,), "<u4", block, strides=(1,))
            hashes = (runs * self._multiplier) >> self._shift
            for one in {*hashes[self._marked.take(hashes)].tolist()}:
                found += [literal for literal in self._by_hash[one] if find(block, literal) >= 0]
        return found

    def _hash(self, runs: NDArray[np.uint32]) -> NDArray[np.intp]:
        """Hashes as what numpy takes for indexes as they are."""
        import numpy as np

        return ((runs * self._multiplier) >> self._shift).astype(np.intp)

    def _hash_of(self, runs: Iterable[bytes]) -> NDArray[np.intp]:
        import numpy as np

        return self._hash(np.frombuffer(b"".join(runs), "<u4"))


def _runs(literal: bytes) -> list[bytes]:
    return [literal[at : at + _RUN] for at in range(len(literal) - _RUN + 1)]


def _letters(run: bytes) -> int:
    """How many small letters and spaces it has: lines are full of these."""
    return _RUN - len(run.translate(None, b"abcdefghijklmnopqrstuvwxyz "))
