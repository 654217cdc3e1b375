"""Whether a file is still the one that was read, with nothing or something appended.

The system's word is enough for one that was not touched. For every other plain file whoever reads on requires
the checksum of all that was read before, from the file as it was opened.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from pydantic import Field

from advisor.section import Section
from advisor.sources.packed import kind_of

if TYPE_CHECKING:
    import os
    from pathlib import Path

_MAGIC = 6


class FilePrint(Section):
    """A file as it was when it was read.

    Attributes:
        size: of what was read, in bytes of the file.
        device: the file system it is on.
        inode: its number there.
        modified_ns: when it was last written; ``None`` if something changed while it was read.
        changed_ns: when that or its name or rights last changed; on Windows, when it was made.
        packed: it is compressed, so nothing that is appended can be read by itself.
        checksum: of what was read, where it is not packed.
    """

    size: int = Field(ge=0)
    device: int
    inode: int
    modified_ns: int | None
    changed_ns: int
    packed: bool
    checksum: int

    def is_untouched(self, state: os.stat_result) -> bool:
        """Whether this is the file, and nothing happened to it since."""
        return (self.size, self.device, self.inode, self.modified_ns, self.changed_ns) == _touched(state)

    def may_go_on(self, state: os.stat_result) -> bool:
        """Whether this may be the file, with something appended."""
        same = (self.device, self.inode) == (state.st_dev, state.st_ino)
        return same and not self.packed and self.size <= state.st_size


def regular(path: Path) -> os.stat_result | None:
    """What the system says of a file that ends; ``None`` for everything else."""
    try:
        state = path.stat()
    except (OSError, ValueError):
        return None
    return state if stat.S_ISREG(state.st_mode) else None


def print_of(path: Path, before: os.stat_result, read: int, checksum: int) -> FilePrint | None:
    """What tells a file from others; ``None`` where that can't be told.

    Args:
        path: a regular file.
        before: what the system said of it before it was read.
        read: how many bytes were read; of a compressed file, unpacked ones.
        checksum: of them.
    """
    state = regular(path)
    try:
        with path.open("rb") as file:
            packed = kind_of(file.read(_MAGIC)) is not None
    except OSError:
        return None
    if state is None:
        return None
    still = _touched(before) == _touched(state)
    size = state.st_size if packed else read
    if size > state.st_size or (packed and not still):
        return None
    return FilePrint(
        size=size,
        device=state.st_dev,
        inode=state.st_ino,
        modified_ns=state.st_mtime_ns if still else None,
        changed_ns=state.st_ctime_ns,
        packed=packed,
        checksum=checksum,
    )


def _touched(state: os.stat_result) -> tuple[int, ...]:
    return state.st_size, state.st_dev, state.st_ino, state.st_mtime_ns, state.st_ctime_ns
