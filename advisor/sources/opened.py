"""A log file that is held open while it grows, and what is remembered of it to know it again.

Every read begins a little before the place where the last one ended and compares what stands there with what
was read, so a file that was cut and grew past that place between two looks is told from one that only grew.
Where this leaves a doubt, what was read is not read again: a request lost is better than one counted twice.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

_LARGEST = (1 << 20) - 8
"""With a newline before it, no more than 1 MiB."""
_HEAD, _TAIL = 4096, 256
_TELLING = 64
"""The least that two files must have in common to be taken for one."""
_DOUBT_S = 1.0
"""How long a file may look too small: network shares say old sizes, editors write the same text again."""
_HOLE = b"\0" * 8
"""No text in any encoding holds so many in a row."""

Identity: TypeAlias = tuple[int, int]


def identity(status: os.stat_result) -> Identity | None:
    """Device and inode; ``None`` where the file system gives no number."""
    return (status.st_dev, status.st_ino) if status.st_ino else None


class Opened:
    """A file at the place up to which it was read.

    Windows lets nobody rename or delete the file meanwhile: Python opens files there without sharing that.

    Args:
        path: an existing file.

    Attributes:
        identities: by which of its names it is known: those of the handle, and of the path it was opened by.
        offset: how many of its bytes were read.
        seen_size: its size when it was last read.
        is_new: nothing was read of it yet.
        is_cut: its writer cut it, and nothing was read since.
        left_s: since when something stands in a later file; ``None`` for the last one.
        limit: read no further than this.

    Raises:
        OSError: it can't be opened.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        status = os.fstat(self._file.fileno())
        self.identities = {identity(status)}
        self.offset = self.seen_size = 0
        self.is_new = True
        self.is_cut = False
        self.left_s: float | None = None
        self.limit: int | None = None
        self._head = self._tail = b""
        self._judged: tuple[int, int] | None = None
        self._too_small_s: float | None = None

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def begins(self, size: int) -> bytes:
        """The first bytes that it holds now."""
        self._file.seek(0)
        return self._file.read(size) or b""

    def read(self, *, is_away: bool = False) -> bytes:
        """The next bytes, less than 1 MiB; ``b""`` if there are none now. Holes are left out.

        Args:
            is_away: its path leads elsewhere; who cuts it now does away with it.

        Raises:
            OSError: it can't be read.
        """
        is_finished = is_away and self._too_small_s is None
        status = os.fstat(self._file.fileno())
        self.seen_size = status.st_size
        seen = status.st_size, status.st_mtime_ns
        if seen == self._judged:
            return b""
        self._judged = None
        size = status.st_size if self.limit is None else min(status.st_size, self.limit)
        if size < self.offset:
            if is_finished or not self._was_cut(size):
                return b""
            self._restart()
        self._file.seek(self.offset - len(self._tail))
        wanted = min(size - self.offset, _LARGEST)
        data = self._file.read(len(self._tail) + wanted) or b""
        known, data = data[: len(self._tail)], data[len(self._tail) :]
        if len(known) < len(self._tail):
            return b""
        if known != self._tail:
            if is_finished:
                return b""
            if self._too_small_s is not None or self.begins(len(self._head)) != self._head:
                self._restart()
                return self.read()
        self._too_small_s = None
        return self._taken(data, whole=len(data) == _LARGEST, seen=seen)

    def goes_on_in(self, other: Opened) -> bool:
        """Whether the other file, of which nothing was read, holds what was read of this one, at its place.

        Inode numbers of network shares may change; and a copy may be brought up to date by a longer one.

        Raises:
            OSError: the other can't be read.
        """
        if self.offset < _TELLING or other.size < self.offset or other.begins(len(self._head)) != self._head:
            return False
        other._file.seek(self.offset - len(self._tail))
        if other._file.read(len(self._tail)) != self._tail:
            return False
        other.offset, other._head, other._tail = self.offset, self._head, self._tail
        other.is_new, other.is_cut = self.is_new, self.is_cut
        return True

    def _was_cut(self, size: int) -> bool:
        """Whether a file smaller than what was read of it begins anew; in doubt, only after a while."""
        now_s = time.monotonic()
        if self._too_small_s is None:
            self._too_small_s = now_s
        if self.offset < _TELLING or now_s - self._too_small_s >= _DOUBT_S:
            return True
        begins = self.begins(min(size, len(self._head)))
        return begins != self._head[: len(begins)]

    def _restart(self) -> None:
        self.offset = 0
        self.is_cut = True
        self._head = self._tail = b""
        self._too_small_s = None

    def _taken(self, data: bytes, *, whole: bool, seen: tuple[int, int]) -> bytes:
        """Go on behind what was read, but not into a hole at its end: a network share may fill it yet.

        A writer that doesn't append leaves one before its next line when its file is cut.
        """
        if data.endswith(_HOLE):
            text = data.rstrip(b"\0")
            if not text and whole:
                return self._over_hole(len(data))
            data = text
        if not data:
            self._judged = seen
            return b""
        if self.offset == len(self._head):
            self._head += data[: _HEAD - self.offset]
        self._tail = (self._tail + data[-_TAIL:])[-_TAIL:]
        self.offset += len(data)
        if data.startswith(_HOLE):
            data = data.lstrip(b"\0")
        return data

    def _over_hole(self, size: int) -> bytes:
        """Skip a big one at once where the system knows its end."""
        end = self.offset + size
        if hasattr(os, "SEEK_DATA"):
            try:
                end = max(end, self._file.seek(end, os.SEEK_DATA))
            except OSError:  # nothing but a hole follows, or this file system does not tell
                end = self.offset + size
        self.offset, self._tail = end, b""
        return b""
