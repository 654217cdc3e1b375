"""Standard input, or the output of a program that was started, read while the other side still writes."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import IO

from advisor.redact import clean

_BLOCK = 1 << 20
_MOST = 4 * _BLOCK
"""When so much waits for a slow reader, the writer has to wait too."""


class Piped:
    """A stream of bytes, read by a thread of its own, since a wait for a pipe can't be ended everywhere.

    Args:
        stream: one that blocks; what was already looked at of it (`log_is_piped`) comes first.
        name: what rows call their source.
    """

    def __init__(self, stream: IO[bytes], name: str = "-") -> None:
        self.name = clean(name)
        self._stream = stream
        self._kept = bytearray()
        self._ended = self._closed = False
        self._notes: list[str] = []
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"read {self.name}", daemon=True)
        self._thread.start()

    def read(self, wait_s: float) -> bytes | None:
        """The next bytes, at most 1 MiB; waits up to ``wait_s`` for one. ``None`` after the last."""
        with self._changed:
            self._changed.wait_for(lambda: self._kept or self._ended or self._closed, max(wait_s, 0))
            if self._closed or (self._ended and not self._kept):
                return None
            data = bytes(self._kept[:_BLOCK])
            del self._kept[:_BLOCK]
            self._changed.notify_all()
        return data

    def notes(self) -> list[str]:
        """What went wrong since last asked."""
        with self._changed:
            notes, self._notes = self._notes, []
        return notes

    def close(self) -> None:
        """Take no more of it. The stream stays open: the thread may be waiting for its next byte."""
        with self._changed:
            self._closed = True
            self._kept.clear()
            self._changed.notify_all()

    def join(self, wait_s: float) -> bool:
        """Wait for the end of the stream; whether it came."""
        self._thread.join(wait_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            block = _looked_at(self._stream)
            while block is None or block:
                if block and not self._keep(block):
                    return
                block = _next(self._stream)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            with self._changed:
                self._notes.append(f"{self.name}: can't be read any more ({reason}).")
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _keep(self, block: bytes) -> bool:
        """Hand a block over, once there is room for it; ``False`` if nobody wants it any more."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._kept) < _MOST or self._closed)
            self._kept += block
            self._changed.notify_all()
            return not self._closed


def _number(stream: IO[bytes]) -> int | None:
    try:
        return stream.fileno()
    except (OSError, AttributeError):
        return None


def _next(stream: IO[bytes]) -> bytes:
    """What is there, or the next that comes.

    Not by the stream itself where it is a file of the system: at the end of Python a thread that waits inside
    of it would abort the process.
    """
    number = _number(stream)
    if number is not None:
        return os.read(number, _BLOCK)
    block: bytes = getattr(stream, "read1", stream.read)(_BLOCK)
    return block


def _looked_at(stream: IO[bytes]) -> bytes | None:
    """What the stream has taken from the system already; ``None`` if nothing. Never waits."""
    number, peek, take = _number(stream), getattr(stream, "peek", None), getattr(stream, "read1", None)
    if number is None or peek is None or take is None or sys.platform == "win32":
        return None
    was_blocking = os.get_blocking(number)
    with suppress(OSError):
        os.set_blocking(number, False)
        try:
            size = len(peek(1))
        finally:
            os.set_blocking(number, was_blocking)
        return take(size) if size else None
    return None
