"""Small fixed pieces of work whose speed is the machine's: reading memory, and multiplying.

Memory is read by an OR over 64-bit integers. It only reads, it runs in as many threads as it is told to
(NumPy's products bring their own), it releases the interpreter, and of NumPy's kernels it reads fastest: on a
two-core EPYC with other work on it 45 GB/s with two threads, where a maximum had 29, a sum of 32-bit floats
24, a copy 26 (read and written) and `np.dot` 30, which runs with threads of its own.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

_LEAST_PASSES = 3
_UNCACHED_BYTES, _UNCACHED_PER_CORE, _FREE_SHARE = 256 << 20, 32 << 20, 0.125
"""Several times the last cache of most processors, and of no more than is free to spare."""


def uncached_bytes(cores: int = 1) -> int:
    """How much to read, so that it is memory that is read and not a cache of so many cores."""
    import psutil

    wanted = max(_UNCACHED_BYTES, _UNCACHED_PER_CORE * cores)
    return min(wanted, int(psutil.virtual_memory().available * _FREE_SHARE))


class Memory:
    """Memory that several threads read, each its own part.

    Args:
        n_bytes: in all; several times the last cache, or the cache is what is measured.
        threads: that read.
    """

    def __init__(self, n_bytes: int, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads)
        words = max(n_bytes // 8 // threads, 1)
        # Whoever writes a page first decides which socket's memory it is in.
        self._parts = list(self._pool.map(lambda _: np.ones(words, np.int64), range(threads)))
        self._bytes = 8 * words * threads

    def rates(self, seconds: float) -> list[float]:
        """GB/s of each pass over all of it, for about so long."""
        return _repeated(self._read, self._bytes, seconds)

    def _read(self) -> None:
        list(self._pool.map(np.bitwise_or.reduce, self._parts))

    def close(self) -> None:
        """End the threads and give the memory back."""
        self._pool.shutdown()
        self._parts.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Product:
    """A product of two square matrices in 32-bit floats, in as many threads as NumPy's library takes.

    Args:
        side: rows and columns.
    """

    def __init__(self, side: int) -> None:
        self._one = np.ones((side, side), np.float32)
        self._out = np.empty_like(self._one)

    def rates(self, seconds: float) -> list[float]:
        """GFLOP/s of each product, two operations a multiplication, for about so long."""
        return _repeated(self._multiply, 2 * len(self._one) ** 3, seconds)

    def _multiply(self) -> None:
        np.matmul(self._one, self._one, out=self._out)


def _repeated(work: Callable[[], None], amount: float, seconds: float) -> list[float]:
    rates: list[float] = []
    begin = time.perf_counter()
    while len(rates) < _LEAST_PASSES or time.perf_counter() - begin < seconds:
        started = time.perf_counter()
        work()
        rates.append(amount / 1e9 / max(time.perf_counter() - started, 1e-9))
    return rates
