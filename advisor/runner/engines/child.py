"""A child process that runs an engine: started apart, read line by line, ended for sure.

Its standard input is a pipe that closes when this process ends, however it ends: a child ends with it. What
it prints on standard error is appended to the engine's log.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import IO, TYPE_CHECKING

from advisor.children import APART, end
from advisor.redact import clean
from advisor.runner.engine import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_END_S = 3.0
_LOOK_S = 0.2
_BLOCK, _TAIL, _LONG = 1 << 16, 1 << 15, 300

_BAD_INSTRUCTION = "it was built for another processor: this one lacks an instruction that it uses"
_KILLED = "it was killed, by another program or by the system, as it does when memory runs out"
_ENDS = {
    -4: _BAD_INSTRUCTION,
    -6: "it gave up on an error of its own",
    -7: "it touched memory that is not there (a model file that is cut off, or a full disk)",
    -9: _KILLED,
    -11: "it crashed (segmentation fault)",
    -15: "it was told to end",
    0xC000001D: _BAD_INSTRUCTION,
    0xC0000005: "it crashed (access violation)",
    0xC0000017: "it ran out of memory",
    0xC0000409: "it gave up on an error of its own",
}
"""What an exit status says: signals of POSIX are negative, exceptions of Windows are 32 bits."""
if sys.platform == "darwin":
    _ENDS[-10] = _ENDS.pop(-7)

_ERROR = re.compile(
    r"error|fail|unable|can(?:no|')t |invalid|corrupt|insufficient|not supported|out of memory|require"
    r"|ASSERT|not within|unknown (?:model|pre-tok|type)",
    re.IGNORECASE,
)
_GENERAL = re.compile(
    r"failed to (?:load|create|initialize|allocate)[ _](?:the )?"
    r"(?:model|context|llama_context|draft|buffer of)"
    r"|^exiting due|trying to fit params",
    re.IGNORECASE,
)
"""An error that only passes on another."""
_STAMP = re.compile(r"^(?:\d+\.)*\d+\.\d+\.\d+ (?P<level>[A-Z]) (?:\w{3} )? *|^\[[^\]]*\] *")
_CALLER = re.compile(r"^(?:[\w():~]+: +)+(?=\S)|^\w*(?:Error|Exception): ")


class Child:
    """One child process.

    Args:
        name: of the engine, as messages call it.
        words: program and arguments; no shell reads them.
        log: what its standard error is appended to.
        environment: on top of this process's.

    Raises:
        EngineError: it can't be started, or its log can't be written.
    """

    def __init__(
        self, name: str, words: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._log = log
        try:
            with log.open("ab") as errors:
                self._begin = errors.seek(0, os.SEEK_END)
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    bufsize=0,
                    env={**os.environ, **(environment or {})},
                    **APART,
                )
        except OSError as error:
            reason = error.strerror or error
            raise EngineError(f"{name} can't be started with its log in {log} ({reason}).") from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, out = self._process.stdin, self._process.stdout
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._reader = threading.Thread(
            target=_read, args=(out, self._lines), name=f"read {name}", daemon=True
        )
        self._reader.start()
        self._end = weakref.finalize(self, _end, self._process, self._in)

    @property
    def pid(self) -> int:
        """Its process number."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def write(self, line: str) -> None:
        """Send it a line; a child that has ended is noticed when its answer is read."""
        left = memoryview(line.encode() + b"\n")
        with suppress(OSError, ValueError):
            while left:
                left = left[self._in.write(left) :]

    def line(self, wait_s: float | None = None) -> bytes | None:
        """Its next line without the line's end; ``None`` if it has ended, or said nothing for so long.

        Args:
            wait_s: ``None`` waits as long as it runs.
        """
        left_s = wait_s
        while True:
            look_s = _LOOK_S if left_s is None else min(_LOOK_S, max(left_s, 0))
            with suppress(Empty):  # short waits, for Windows can't interrupt a long one
                line = self._lines.get(timeout=look_s)
                if line is None:
                    self._lines.put(None)
                return line
            if left_s is not None and (left_s := left_s - look_s) <= 0:
                return None

    def failure(self, what: str) -> EngineError:
        """Why it ended, in one sentence; ends it if it still runs.

        Args:
            what: what it did not do, such as ``can't load the model``.
        """
        was_running = False
        try:
            status: int | None = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            status, was_running = None, True
        self.close()
        how = None if was_running or status is None else ended(status)
        said = last_error(self.log_tail())
        reason = "; ".join(part for part in (how, said) if part) or (
            "it does not answer" if was_running else "it ended without a word"
        )
        return EngineError(f"{self.name} {what}: {reason}.")

    def log_tail(self) -> str:
        """The end of what it logged itself."""
        try:
            with self._log.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(self._begin, size - _TAIL))
                return log.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def close(self) -> None:
        """Close its input, and end it if that does not; its log is complete after that."""
        self._end()
        self._reader.join(_END_S)


def ended(status: int) -> str | None:
    """What an exit status says; ``None`` for one that only says that something failed."""
    if status in _ENDS:
        return _ENDS[status]
    if status < 0:
        return f"it was ended by signal {-status}"
    return f"it ended with status {status:#010x}" if status >= 1 << 31 else None


def last_error(log: str) -> str | None:
    """What a log of llama.cpp says went wrong last, as the end of a sentence; ``None`` if nothing.

    The first cause is preferred to the errors that only pass it on.
    """
    errors: list[str] = []
    for line in log.splitlines():
        stamp = _STAMP.match(line)
        level = stamp["level"] if stamp else None
        if level == "E" or (level is None and _ERROR.search(line)):
            errors.append(line[stamp.end() :] if stamp else line)
    return cause(errors)


def cause(errors: Sequence[str]) -> str | None:
    """The one of llama.cpp's error lines that tells most, as the end of a sentence; ``None`` if none does."""
    texts = [text for line in errors if (text := clean(_CALLER.sub("", line.strip())).strip().rstrip("."))]
    causes = [text for text in texts if not _GENERAL.search(text)]
    return (causes or texts or [""])[-1][:_LONG] or None


def python(script: Path) -> tuple[str, ...]:
    """The words that run a script of this folder; nothing in the folder hides a package of its name."""
    return sys.executable, "-P", str(script)


def _read(stream: IO[bytes], lines: SimpleQueue[bytes | None]) -> None:
    """Hand over each line, and ``None`` after the last."""
    kept = b""
    with suppress(OSError, ValueError), stream:
        while block := os.read(stream.fileno(), _BLOCK):  # not by the stream: its lines come byte by byte
            *whole, kept = (kept + block).split(b"\n")
            for line in whole:
                lines.put(line.rstrip(b"\r"))
    lines.put(None)


def _end(process: subprocess.Popen[bytes], stdin: IO[bytes]) -> None:
    """Close its input, then ask it, then don't."""
    with suppress(OSError, ValueError):
        stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)
    end(process, _END_S)
