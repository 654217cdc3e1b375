"""A log file followed while it grows, through every way in which files are rotated.

Polling: file systems of networks and containers tell of no changes, and a look costs some microseconds.
"""

from __future__ import annotations

import codecs
import math
import re
import stat
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

from advisor.errors import InputError
from advisor.redact import clean
from advisor.sources.files import Input, blocks
from advisor.sources.opened import Opened, identity
from advisor.sources.packed import ENDINGS

POLL_S = 0.05
_LINGER_S = 0.5
"""How long a writer may take to change to the new file, once something stands in that."""
_PATIENCE_S = 10.0
"""How long an old file is read that grows on beside the new one."""
_GONE_S = 1.0
"""A file that is missing for less is being rotated."""
_AGAIN_S = 1.0
_MANY = 32
_SNIFFED = 6
_MARKS = {codecs.BOM_UTF8: b"\n", codecs.BOM_UTF16_LE: b"\n\0", codecs.BOM_UTF16_BE: b"\0\n"}
"""How a file may begin, and how a line ends in it."""
_NUMBER = re.compile(rb"\d+")
_LOOKED_AT, _ALIKE = 64, 12


class Followed:
    """A file that grows.

    What is still added to a file that was renamed is read before the new one. Of a file that is cut
    (`copytruncate`), what was added since the last look is lost; the line it was in goes on in what comes.
    Where the file system gives no inode numbers, a file is only known by what stands in it.

    Args:
        path: of a text file; it may not be there yet.

    Attributes:
        has_caught_up: once a look found no more to read: what comes since was just written.

    Raises:
        InputError: it can't be followed: a folder, a pipe, a compressed file, no text, no permission.
    """

    def __init__(self, path: str) -> None:
        self.name = clean(path)
        self.has_caught_up = False
        self._path = Path(path)
        self._files: list[Opened] = []
        self._notes: list[str] = []
        self._troubles: dict[str, str] = {}
        self._again_s = 0.0
        self._behind: tuple[int, float] | None = None
        self._missing_s: float | None = None
        self._begins = self._mark = self._last = b""
        self._closed = False
        self._lock = threading.Lock()
        if self._path.suffix.lower() in ENDINGS:
            raise self._is_compressed()
        try:
            self._open()
        except FileNotFoundError:
            self._say(f"{self.name}: no such file yet; waiting for it.")
            self._missing_s = math.inf
        except OSError as error:
            raise InputError(f"{self.name}: can't be opened ({error.strerror or error}).") from None

    def read(self, wait_s: float) -> bytes | None:
        """The next bytes, at most 1 MiB; waits up to ``wait_s`` for one. ``None`` only after `close`."""
        until_s = time.monotonic() + wait_s
        while True:
            with self._lock:
                if self._closed:
                    return None
                if data := self._poll():
                    return data
                self.has_caught_up = self.has_caught_up or not self._troubles
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return b""
            time.sleep(min(POLL_S, left_s))

    def notes(self) -> list[str]:
        """Sentences about what happened to the file since last asked."""
        with self._lock:
            notes, self._notes = self._notes, []
        return notes

    def close(self) -> None:
        """Let go of the files; any thread may call this."""
        with self._lock:
            self._closed = True
            while self._files:
                self._files.pop().close()

    def _poll(self) -> bytes:
        """One look at the path and at what is open."""
        self._look()
        while self._files:
            file = self._files[0]
            if data := self._read(file):
                return data
            if not self._is_over(file):
                break
            self._files.pop(0).close()
            self._say(f"{self.name}: replaced; going on with the new file.")
        return b""

    def _read(self, file: Opened) -> bytes:
        try:
            if len(self._files) > 1:
                self._leave()
            data = file.read(is_away=len(self._files) > 1 or self._missing_s is not None)
        except OSError as error:  # such as a stale handle of a network share
            self._is_in_trouble(
                "read", f"{self.name}: can't be read ({error.strerror or error}); trying again."
            )
            file.identities.clear()
            return b""
        self._troubles.pop("read", None)
        return self._joined(file, data) if data else b""

    def _look(self) -> None:
        """Open what the path leads to if that is another file than before."""
        if self._troubles and time.monotonic() < self._again_s:
            return
        try:
            status = self._path.stat()
            known = identity(status)
            names = self._files[-1].identities if self._files else set()
            if names and (known is None or known in names) and not self._is_stale(status.st_size):
                self._missing_s = None
            else:
                self._open()
            self._troubles.pop("open", None)
        except (FileNotFoundError, NotADirectoryError):
            self._is_missing()
        except InputError as error:
            self._is_in_trouble("open", f"{str(error).rstrip('.')}.")
        except OSError as error:
            self._is_in_trouble(
                "open", f"{self.name}: can't be opened ({error.strerror or error}); trying again."
            )

    def _is_stale(self, size: int) -> bool:
        """Whether the path has shown more than the handle for a while.

        A handle of a network share may be forgotten there; and in a container of an older system, one of a
        file of its image is left behind when that is first written to.
        """
        now_s, seen = time.monotonic(), self._files[-1].seen_size
        if size <= seen or self._behind is None or self._behind[0] != seen:
            self._behind = (seen, now_s) if size > seen else None
            return False
        return now_s - self._behind[1] >= _AGAIN_S and len(self._files) == 1

    def _open(self) -> None:
        """Open what the path leads to.

        Raises:
            InputError: it can't be followed.
            OSError: it can't be opened.
        """
        status = self._path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise InputError(f"{self.name}: this is a folder; name a log file in it.")
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{self.name}: no file that can be followed; pipe it into `phasewise tail -`.")
        if not self._files:
            self._check_text()
        file = Opened(self._path)
        file.identities.add(identity(status))
        if self._missing_s is not None and not self._files:
            self._say(f"{self.name}: there it is.")
        self._missing_s = self._behind = None
        with suppress(OSError):
            if len(self._files) == 1 and self._files[0].goes_on_in(file):
                self._files.pop().close()
        self._files.append(file)
        if len(self._files) > _MANY:
            self._forget_empty()

    def _check_text(self) -> None:
        with self._path.open("rb") as file, closing(blocks(Input(str(self._path)))) as text:
            begins = file.read(_SNIFFED)
            if not next(text, b"").startswith(begins):
                raise self._is_compressed()

    def _is_compressed(self) -> InputError:
        return InputError(f"{self.name}: a compressed file can't be followed; read it with `phasewise tui`.")

    def _is_missing(self) -> None:
        """Say so once, but not while it is only being rotated."""
        now_s = time.monotonic()
        if self._missing_s is None:
            self._missing_s = now_s
        elif now_s - self._missing_s >= _GONE_S:
            self._missing_s = math.inf
            self._say(f"{self.name}: gone; waiting for a new file of this name.")

    def _forget_empty(self) -> None:
        """Of files that were replaced in a row, keep those in which something stands."""
        first, *between, last = self._files
        kept = [file for file in between if file.size]
        for file in between:
            if file not in kept:
                file.close()
        self._files = [first, *kept, last]

    def _leave(self) -> None:
        """Begin to leave files after which something stands; set the first an end if it grows on and on."""
        now_s, stands = time.monotonic(), False
        for file in reversed(self._files):
            if stands and file.left_s is None:
                file.left_s = now_s
            stands = stands or file.size > 0
        first = self._files[0]
        if first.left_s is not None and first.limit is None and now_s - first.left_s > _PATIENCE_S:
            first.limit = first.size

    def _is_over(self, file: Opened) -> bool:
        """Whether a file that was read to its end is left: its writer has had time to change to another."""
        return file.left_s is not None and (
            not file.identities or time.monotonic() - file.left_s >= _LINGER_S
        )

    def _joined(self, file: Opened, data: bytes) -> bytes:
        """What was read, apart from a torn line that it does not go on with.

        A new file begins a new line. In one that was cut, the writer goes on with its line; but a program
        started anew with ``>`` begins the file as it did the first time.
        """
        if not self._last:
            self._mark = next((mark for mark in _MARKS if data.startswith(mark)), b"")
        elif file.is_new or file.is_cut:
            data = data.removeprefix(self._mark)
            newline = _MARKS.get(self._mark, b"\n")
            if not self._last.endswith(newline) and (file.is_new or _begin_alike(data, self._begins)):
                data = newline + data
        if file.is_new:
            self._begins = data[:_LOOKED_AT].lstrip(b"\r\n")
        elif file.is_cut:
            self._say(f"{self.name}: cut to nothing; going on from its start.")
        file.is_new = file.is_cut = False
        self._last = (self._last + data[-2:])[-2:]
        return data

    def _is_in_trouble(self, where: str, sentence: str) -> None:
        """Say once what is wrong, until something else is."""
        if self._troubles.get(where) != sentence:
            self._say(sentence)
        self._troubles[where] = sentence
        self._again_s = time.monotonic() + _AGAIN_S

    def _say(self, sentence: str) -> None:
        if sentence not in self._notes:
            self._notes.append(sentence)


def _begin_alike(one: bytes, other: bytes) -> bool:
    """Whether two texts begin with the same characters, numbers aside."""
    begins = [_NUMBER.sub(b"0", text[:_LOOKED_AT])[:_ALIKE] for text in (one, other)]
    return begins[0] == begins[1] and len(begins[0]) == _ALIKE
