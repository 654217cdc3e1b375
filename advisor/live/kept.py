"""The last bytes of a source, to show the lines that a row was read from: a pipe can't be read again."""

from __future__ import annotations

from collections import deque
from threading import Lock

LIMIT = 16 << 20
_TELLING = 4096


class Kept:
    """Keeps the last ``limit`` bytes; one thread may add while others get.

    Args:
        limit: in bytes; up to one block more is kept.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._blocks: deque[bytes] = deque()
        self._size = self._end = 0
        self._lock = Lock()

    def add(self, data: bytes) -> None:
        """Keep the next bytes."""
        with self._lock:
            self._blocks.append(data)
            self._size += len(data)
            self._end += len(data)
            while self._size - len(self._blocks[0]) >= self._limit:
                self._size -= len(self._blocks.popleft())

    def first(self) -> tuple[int, bytes]:
        """The offset of the oldest bytes that are kept, and some of them."""
        with self._lock:
            return self._end - self._size, self._blocks[0][:_TELLING] if self._blocks else b""

    def get(self, offset: int, size: int) -> bytes | None:
        """Up to ``size`` bytes from this offset of the source; ``None`` where they are no longer kept."""
        with self._lock:
            first, end, blocks = self._end - self._size, self._end, tuple(self._blocks)
        if not first <= offset <= end:
            return None
        parts: list[bytes] = []
        for block in blocks:
            if size > 0 and first + len(block) > offset:
                parts.append(block[max(offset - first, 0) :][:size])
                size -= len(parts[-1])
            first += len(block)
        return b"".join(parts)
