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
from advisor.parts import Ending, Part, parts
from advisor.redact import printable

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
        look: how the file looks where the command runs; ``None`` for an object in a store.
    """

    task: Task
    folder: str
    look: Look | None


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


def read_stretch(stretch: Stretch, formats: bytes) -> tuple[list[Part], tuple[int, tuple[int, bytes] | None]]:
    """Read it.

    Returns:
        The parts; how many bytes were taken for them, and, unless the source has ended, where it goes on and
        the reader as it is there.

    Raises:
        InputError: a user's pattern takes too long.
    """
    task, taken = replace(stretch.task, formats=unpacked(formats)), 0

    def took(size: int) -> None:
        nonlocal taken
        taken += size

    with chdir(stretch.folder) if Path(stretch.folder).is_dir() else nullcontext():
        if stretch.look is not None and seen(task.source.name, stretch.look.size) != stretch.look:
            return [_unseen(task)], (0, None)
        found = list(parts(task, took=took))
    last = found[-1]
    if last.ending is not None or last.state is None:
        return found, (taken, None)
    state, last.state = last.state, None
    return found, (taken, (last.read, state))


def _unseen(task: Task) -> Part:
    name = printable(task.source.name)
    problem = InputError(
        f"{name}: Ray's worker on {socket.gethostname()} doesn't see this file; keep logs where every node "
        "does (a shared folder, or an object store)."
    )
    return Part(read=task.begin, ending=Ending(problem=problem))
