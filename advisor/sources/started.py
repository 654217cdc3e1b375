"""Logs that another program hands out: of a systemd unit, a container, a pod."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import weakref
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.children import APART, end
from advisor.errors import InputError
from advisor.redact import clean
from advisor.sources.pipe import Piped

if TYPE_CHECKING:
    from collections.abc import Sequence

_ASK_S, _END_S = 3.0, 1.0
_KEPT, _LONG = 4096, 300
_BY_SIGNAL = 128
_STAMPED = re.compile(r"\d{4}-\d\d-\d\dT")
"""A line of the log, not of the program."""
_SUFFIX = ".exe" if sys.platform == "win32" else ""
"""A batch file would be run by a shell."""
_SEES_LITTLE = ("not seeing messages from other users", "insufficient permissions")


@dataclass(frozen=True, slots=True)
class Command:
    """A program that prints a log and goes on.

    Attributes:
        name: of what it prints the log of, as the user gave it.
        words: program and arguments; no shell reads them.
        is_merged: the log comes on both of its streams, and what is wrong too.
        notes: sentences for the user.
    """

    name: str
    words: tuple[str, ...]
    is_merged: bool = False
    notes: tuple[str, ...] = ()


def unit(name: str) -> Command:
    """``--unit``: since the machine was started, each line with the journal's clock to the microsecond.

    A service of the user's own is found too. ``--all`` keeps lines with colours in them from being left out.

    Raises:
        InputError: no name, or no journal on this system.
    """
    program = _program(
        ("journalctl",), "--unit", name, "this system has no systemd; name the log file instead"
    )
    kind = "unit"
    notes: tuple[str, ...] = ()
    if (asker := shutil.which("systemctl" + _SUFFIX)) and not _has_unit(asker, name):
        if _has_unit(asker, name, "--user"):
            kind = "user-unit"
        else:
            notes = (f"{clean(name)}: systemd knows no unit of this name; waiting for its lines.",)
    layout = ("--follow", "--lines=all", "--boot", "--all", "--no-pager", "--output=short-iso-precise")
    return Command(name, (program, *layout, f"--{kind}={name}"), notes=notes)


def container(name: str) -> Command:
    """``--container``: what docker, or else podman, kept of it, each line with its clock.

    Raises:
        InputError: no name, or neither program is there.
    """
    missing = "neither docker nor podman is installed, or not on PATH"
    program = _program(("docker", "podman"), "--container", name, missing)
    return Command(name, (program, "logs", "--follow", "--timestamps", "--", name), is_merged=True)


def pod(name: str) -> Command:
    """``--pod``: ``name`` or ``namespace/name``; what kubectl gives, each line with its clock.

    Raises:
        InputError: no name, or no kubectl.
    """
    program = _program(("kubectl",), "--pod", name, "kubectl is not installed, or not on PATH")
    namespace, _, own = name.rpartition("/")
    where = (f"--namespace={namespace}",) if namespace else ()
    return Command(name, (program, "logs", "--follow", "--timestamps", *where, "--", own))


class Started:
    """A program whose output is read until it ends.

    Args:
        command: what to start.

    Raises:
        InputError: it can't be started.
    """

    def __init__(self, command: Command) -> None:
        self.name = clean(command.name)
        self._command = command
        self._notes = deque(command.notes)
        self._last = b""
        self._has_ended = False
        try:
            self._process = subprocess.Popen(
                command.words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if command.is_merged else subprocess.PIPE,
                bufsize=0,
                **APART,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"{self._program} can't be started ({reason}).") from None
        self._pipes = [pipe for pipe in (self._process.stdout, self._process.stderr) if pipe]
        self._out, *others = [Piped(pipe, self.name) for pipe in self._pipes]
        self._err = others[0] if others else None
        self._end = weakref.finalize(self, end, self._process, _END_S)

    @property
    def _program(self) -> str:
        return clean(self._command.words[0].replace("\\", "/").rpartition("/")[2])

    @property
    def _has_failed(self) -> bool:
        return 0 < (self._process.returncode or 0) < _BY_SIGNAL

    @property
    def has_caught_up(self) -> bool:
        """Whether what it had to tell of earlier has been read."""
        return self._out.has_caught_up

    def read(self, wait_s: float) -> bytes | None:
        """What it printed, at most 1 MiB; waits up to ``wait_s`` for a byte. ``None`` after its end.

        Raises:
            InputError: it failed.
        """
        data = self._out.read(wait_s)
        if data and self._command.is_merged:
            self._last = (self._last + data[-_KEPT:])[-_KEPT:]
        if data is None and not self._has_ended:
            self._has_ended = True
            words = self._last_words()
            if self._has_failed:
                raise InputError(words)
            self._notes.append(words)
        return data

    def notes(self) -> list[str]:
        """What the program said of itself since last asked, and how it ended."""
        if not self._has_ended and (text := self._said()):
            self._last = (self._last + text)[-_KEPT:]
            if any(sign in _text(text) for sign in _SEES_LITTLE):
                self._notes.append(
                    f"{self.name}: {self._program} shows only what this user may see; "
                    "join the group systemd-journal, or run this as root."
                )
            else:
                self._notes.append(f"{self.name}: {self._program} says: {_last_line(text)}")
        self._notes.extend(self._out.notes())
        return [self._notes.popleft() for _ in range(len(self._notes))]

    def close(self) -> None:
        """End the program, also if it does not want to."""
        self._has_ended = True
        self._end()
        for stream, pipe in zip((self._out, self._err), self._pipes, strict=False):
            if stream is not None:
                stream.close()
                if stream.join(_END_S):
                    pipe.close()

    def _said(self) -> bytes:
        """What came on its other stream."""
        return (self._err.read(0) or b"") if self._err else b""

    def _last_words(self) -> str:
        """How it ended, and the last it said if that was an error."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        if self._err is not None:
            self._err.join(_END_S)
        kept = self._last
        if len(kept) >= _KEPT:  # its first line is a part of one, and may have lost its stamp
            kept = kept.partition(b"\n")[2]
        last = _last_line(kept + self._said())
        if last and _STAMPED.match(last) is None and self._has_failed:
            return f"{self.name}: {self._program} ended: {last}"
        return f"{self.name}: {self._program} ended."


def _program(names: Sequence[str], option: str, name: str, missing: str) -> str:
    """The path of the first program that is there.

    Raises:
        InputError: none is; or the user gave no name.
    """
    if not name.strip("/ \t") or "\0" in name:
        raise InputError(f"{option} needs a name.")
    path = next((path for one in names if (path := shutil.which(one + _SUFFIX))), None)
    if path is None:
        raise InputError(f"{option} {clean(name)}: {missing}.")
    return path


def _has_unit(systemctl: str, name: str, *options: str) -> bool:
    """Whether systemd knows a unit, or can't be asked."""
    words = (systemctl, *options, "show", "--property=LoadState", "--value", "--", name)
    try:
        asked = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return not options
    if asked.returncode:
        return not options
    return asked.stdout.strip() != b"not-found"


def _last_line(text: bytes) -> str:
    """The last line in which something stands, ended as a sentence is."""
    lines = [line for line in text.split(b"\n") if line.strip()]
    last = clean(_text(lines[-1])).strip().rstrip(".")[:_LONG] if lines else ""
    return f"{last}." if last else ""


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
