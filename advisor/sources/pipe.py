"""Standard input, or the output of a program that was started, read while the other side still writes."""

from __future__ import annotations

import os
import select
import stat
import sys
import threading
import time
from io import BufferedReader
from typing import IO

from advisor.redact import clean

_BLOCK = 1 << 20
_MOST = 4 * _BLOCK
"""When so much waits for a slow reader, the writer has to wait too."""
_QUIET_S, _LITTLE = 1.0, 1 << 16
"""What was written earlier comes in one burst; it is over once so little came while we waited so long."""

WAIT_S = 2.0
"""Long enough for the program before the pipe to start; a pipe that only was inherited stays silent."""


def log_is_piped(wait_s: float = WAIT_S) -> bool:
    """Whether standard input is a file or a pipe with something in it; nothing of it is taken.

    Never waits for a terminal or a device, nor longer than ``wait_s`` for a pipe. Pipes of Windows can't be
    asked without taking from them, and count as empty.
    """
    try:
        number = sys.stdin.fileno() if sys.stdin else -1
        kind = os.fstat(number)
        if stat.S_ISREG(kind.st_mode):
            return kind.st_size > os.lseek(number, 0, os.SEEK_CUR)
        if sys.platform == "win32" or not (stat.S_ISFIFO(kind.st_mode) or stat.S_ISSOCK(kind.st_mode)):
            return False
        given = sys.stdin.buffer
        if not isinstance(given, BufferedReader) or not select.select([number], [], [], wait_s)[0]:
            return False
        return bool(given.peek(1))
    except (OSError, ValueError):
        return False


class Piped:
    """A stream of bytes, read by a thread of its own, since a wait for a pipe can't be ended everywhere.

    Args:
        stream: one that blocks, and keeps nothing that was read ahead.
        name: what rows call their source.

    Attributes:
        has_caught_up: once all was read and the writer was quiet: what comes since was just written.
    """

    def __init__(self, stream: IO[bytes], name: str = "-") -> None:
        self.name = clean(name)
        self.has_caught_up = False
        self._stream = stream
        self._kept = bytearray()
        self._ended = self._closed = False
        self._waited_s, self._came = 0.0, 0
        self._since_s: float | None = None
        self._notes: list[str] = []
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"read {self.name}", daemon=True)
        self._thread.start()

    def read(self, wait_s: float) -> bytes | None:
        """The next bytes, at most 1 MiB; waits up to ``wait_s`` for one. ``None`` after the last."""
        with self._changed:
            self._see_whether_caught_up()
            self._changed.wait_for(lambda: self._kept or self._ended or self._closed, max(wait_s, 0))
            self._see_whether_caught_up()
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
            while block := _next(self._stream):
                if not self._keep(block):
                    return
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
            self._waited_s, self._since_s = self._silence_s(), None
            self._came += len(block)
            if self._came > _LITTLE:
                self._waited_s, self._came = 0.0, 0
            self._changed.wait_for(lambda: len(self._kept) < _MOST or self._closed)
            self._kept += block
            self._since_s = time.monotonic()
            self._changed.notify_all()
            return not self._closed

    def _silence_s(self) -> float:
        """How long the writer let us wait since much came at once; the wait for its first byte is none."""
        now_s = time.monotonic()
        return self._waited_s + (0.0 if self._since_s is None else now_s - self._since_s)

    def _see_whether_caught_up(self) -> None:
        if not self._kept and self._silence_s() >= _QUIET_S:
            self.has_caught_up = True


def _next(stream: IO[bytes]) -> bytes:
    """What is there, or the next that comes.

    Not by the stream itself where it is a file of the system: at the end of Python a thread that waits inside
    of it would abort the process.
    """
    try:
        number = stream.fileno()
    except (OSError, AttributeError):
        block: bytes = getattr(stream, "read1", stream.read)(_BLOCK)
        return block
    return os.read(number, _BLOCK)
