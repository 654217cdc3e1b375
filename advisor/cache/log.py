"""A log that may be in the cache: what is kept of it, and what is to be read of it still."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.cache import entries
from advisor.cache.same_file import is_whole, print_of, regular
from advisor.sources.files import STDIN, last_written
from parsers.saved import StateError, resumed, saved

if TYPE_CHECKING:
    from contextlib import ExitStack
    from typing import BinaryIO

    from advisor.cache.entries import Entry
    from advisor.cache.same_file import FilePrint
    from advisor.parts import Task

SMALLEST = 4 << 20
"""Smaller logs are read at once."""


class Log:
    """One to read.

    Args:
        root: the cache's folder.
        task: reads it as if nothing were known.

    Attributes:
        root: the cache's folder.
        path: of the log.
        place: its entry's folder; ``None`` for a log that is not kept.
        entry: what is kept; ``None`` if that is nothing, or not of this log as it is now.
        is_whole: nothing was appended.
        rest: reads what is not kept.
        anew: reads it as if nothing were known.
    """

    def __init__(self, root: Path, task: Task) -> None:
        self.root = root
        self.path = Path(task.source.name)
        state = None if task.source.name == STDIN else regular(self.path)
        kept = state is not None and state.st_size >= SMALLEST
        self._before = print_of(self.path, 0) if kept else None
        self.place = entries.place_of(root, task.source.name, task.engine, task.formats) if kept else None
        self.anew = self.rest = replace(task, keep=kept)
        self.is_whole = False
        self.entry = None if self.place is None else self._found(self.place)

    def _found(self, place: Path) -> Entry | None:
        entry = entries.load(place)
        whole = None if entry is None else is_whole(self.path, entry.file)
        if entry is None or whole is None or not entries.are_there(place, entry.rows):
            return None
        task = self.anew
        kept = entries.contents(place, entry.state)
        try:
            reader = resumed(kept or b"", task.formats, last_written(task.source))
        except StateError:
            return None
        self.is_whole = whole
        self.rest = replace(task, begin=entry.read, state=saved(reader, task.formats))
        return entry

    @property
    def file_bytes(self) -> int:
        """How many bytes of the file need not be read any more."""
        return 0 if self.entry is None else self.entry.file.size

    def is_still(self, file: FilePrint) -> bool:
        """Whether this is the file that was there before it was read, a compressed one without any change."""
        before = self._before
        if before is None or (before.device, before.inode) != (file.device, file.inode):
            return False
        return before == file if file.packed else not before.packed

    def opened(self, files: ExitStack) -> list[tuple[str, BinaryIO]] | None:
        """The rows that are kept, each piece with the name of its table; ``None`` if one is broken.

        Args:
            files: closes them.
        """
        if self.place is None or self.entry is None:
            return []
        return entries.opened(self.place, self.entry.rows, files)
