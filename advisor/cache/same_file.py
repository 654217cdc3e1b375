"""Whether a file is still the one that was read, with nothing or something appended."""

from __future__ import annotations

import os
import stat
from hashlib import blake2b
from typing import TYPE_CHECKING, BinaryIO

from pydantic import Field

from advisor.model import Section
from advisor.sources.packed import kind_of

if TYPE_CHECKING:
    from pathlib import Path

_EDGE = 1 << 16
_SAMPLE, _SAMPLES = 1 << 12, 64
_MAGIC = 6


class FilePrint(Section):
    """A file as it was when it was read.

    Attributes:
        size: of what was read, in bytes of the file.
        device: the file system it is on.
        inode: its number there.
        modified_ns: when it was last written.
        packed: it is compressed, so nothing that is appended can be read by itself.
        digest: of its first and last 64 KiB, as far as it was read, and of 64 pieces of 4 KiB between.
    """

    size: int = Field(ge=0)
    device: int
    inode: int
    modified_ns: int
    packed: bool
    digest: str


def regular(path: Path) -> os.stat_result | None:
    """What the system says of a file that ends; ``None`` for everything else."""
    try:
        state = path.stat()
    except (OSError, ValueError):
        return None
    return state if stat.S_ISREG(state.st_mode) else None


def print_of(path: Path, read: int) -> FilePrint | None:
    """What tells a file from others; ``None`` where that can't be told.

    Args:
        path: a regular file.
        read: how many of its bytes were read; of a compressed file all are meant.
    """
    try:
        with path.open("rb") as file:
            state = os.fstat(file.fileno())
            packed = kind_of(file.read(_MAGIC)) is not None
            size = state.st_size if packed else read
            if not stat.S_ISREG(state.st_mode) or size > state.st_size:
                return None
            return FilePrint(
                size=size,
                device=state.st_dev,
                inode=state.st_ino,
                modified_ns=state.st_mtime_ns,
                packed=packed,
                digest=_digest(file, size),
            )
    except OSError:
        return None


def is_whole(path: Path, known: FilePrint) -> bool | None:
    """Whether nothing was appended to a file; ``None`` where it is another, or may be."""
    state = regular(path)
    now = None if state is None else print_of(path, known.size)
    if state is None or now is None or now.model_copy(update={"modified_ns": known.modified_ns}) != known:
        return None
    if state.st_size > known.size:
        return False
    return True if now.modified_ns == known.modified_ns else None


def _digest(file: BinaryIO, size: int) -> str:
    found = blake2b(digest_size=16)
    between = max(size - _SAMPLE, 0)
    places = [0, *(between * place // _SAMPLES for place in range(1, _SAMPLES)), max(size - _EDGE, 0)]
    for place in places:
        length = _EDGE if place in (places[0], places[-1]) else _SAMPLE
        file.seek(place)
        found.update(file.read(min(length, size - place)))
    return found.hexdigest()
