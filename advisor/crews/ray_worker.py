"""What a Ray worker does: one stretch of one source."""

from __future__ import annotations

import os
import socket
import zlib
from contextlib import chdir, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from advisor.crews.packing import unpacked
from advisor.errors import InputError
from advisor.parts import Ending, Part, ended, parts
from advisor.redact import printable
from advisor.sources import stores
from advisor.sources.checksum import EMPTY
from advisor.sources.files import MAGIC
from advisor.sources.packed import kind_of

if TYPE_CHECKING:
    from advisor.parts import Task

_LOOK = 4096


class Look(NamedTuple):
    """By what a file is known again: its size, and its first and last bytes at that size."""

    size: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a worker is given.

    Attributes:
        task: without formats.
        folder: what relative paths begin at.
        look: how the file looked where the command runs, before its first stretch; ``None`` for an object in
            a store, which is known by its version.
    """

    task: Task
    folder: str
    look: Look | None


class After(NamedTuple):
    """Where a source goes on: the byte, the reader, the version of an object, and the checksum so far."""

    begin: int
    state: bytes
    version: str | None
    checksum: int = EMPTY


def seen(name: str, size: int | None = None) -> Look | None:
    """How a file looks here; ``None`` if it can't be seen.

    Args:
        name: the file.
        size: as if it held only so many bytes.
    """
    try:
        with Path(name).open("rb") as file:
            whole = os.fstat(file.fileno()).st_size
            if size is not None and whole < size:
                return None
            size = whole if size is None else size
            first = file.read(min(_LOOK, size))
            file.seek(max(0, size - _LOOK))
            return Look(size, zlib.crc32(first), zlib.crc32(file.read(min(_LOOK, size))))
    except OSError:
        return None


def read_stretch(stretch: Stretch, formats: bytes) -> tuple[list[Part], tuple[int, After | None]]:
    """Read it.

    Returns:
        The parts; how many bytes were taken for them, and where the source goes on, unless it has ended.

    Raises:
        InputError: a user's pattern takes too long.
    """
    task, taken = replace(stretch.task, formats=unpacked(formats)), 0

    def took(size: int) -> None:
        nonlocal taken
        taken += size

    with chdir(stretch.folder) if Path(stretch.folder).is_dir() else nullcontext():
        if stretch.look is not None and seen(task.source.name, stretch.look.size) != stretch.look:
            return [left_off(task, _unseen(task))], (0, None)
        task = _settled(task)
        found = list(parts(task, took=took))
    last = found[-1]
    if last.ending is not None or last.state is None:
        return found, (taken, None)
    state, last.state = last.state, None
    return found, (taken, After(last.read, state, task.source.version, last.checksum))


def left_off(task: Task, problem: InputError | None = None) -> Part:
    """The last part of a source that is read no further than to where this task begins."""
    part = Part(ending=Ending()) if task.state is None else ended(task)
    assert part.ending is not None
    if problem is not None or part.ending.found is None:
        part.ending.problem = problem
    return part


def _settled(task: Task) -> Task:
    """It, to the end of what is packed, and of the version that an object has now."""
    source = task.source
    try:
        if not stores.is_store(source.name):
            with Path(source.name).open("rb") as file:
                first = file.read(MAGIC)
        elif source.version is None:
            first, version = stores.begins(source.name, MAGIC)
            source = replace(source, version=version)
        else:
            return task
    except (InputError, OSError):
        return task  # reading it says why
    return replace(task, source=source, size=None if kind_of(first) else task.size)


def _unseen(task: Task) -> InputError:
    name, host = printable(task.source.name), socket.gethostname()
    changed = "it changed while it was read, or " if task.begin else ""
    return InputError(
        f"{name}: {changed}Ray's worker on {host} doesn't see this file; keep logs where every node does "
        "(a shared folder, or an object store)."
    )
