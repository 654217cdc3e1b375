"""A log that may be in the cache: what is kept of it, and what is to be read of it still."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.cache import entries
from advisor.cache.same_file import print_of, regular
from advisor.sources.files import STDIN, last_written
from parsers.saved import StateError, resumed, saved

if TYPE_CHECKING:
    import os
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
        is_whole: nothing happened to it since it was kept.
        rest: reads what is not kept, if what is kept is of this log; that is looked at before.
        anew: reads it as if nothing were known.
    """

    def __init__(self, root: Path, task: Task) -> None:
        self.root = root
        self.path = Path(task.source.name)
        self.anew = self.rest = task
        self.place: Path | None = None
        self.entry: Entry | None = None
        self.is_whole = False
        self._before = None if task.source.name == STDIN else regular(self.path)
        if self._before is not None and self._before.st_size >= SMALLEST:
            self.anew = self.rest = replace(task, keep=True)
            self.place = entries.place_of(root, task.source.name, task.engine, task.formats)
            self._find(self.place, self._before)

    def _find(self, place: Path, state: os.stat_result) -> None:
        entry, task = entries.load(place), self.anew
        if entry is None or not entries.are_there(place, entry.rows):
            return
        untouched = entry.file.is_untouched(state)
        if not untouched and not entry.file.may_go_on(state):
            return
        kept = entries.contents(place, entry.state)
        try:
            reader = resumed(kept or b"", task.formats, last_written(task.source))
        except StateError:
            return
        put_by = saved(reader, task.formats)
        self.rest = replace(task, begin=entry.read, state=put_by, checksum=entry.file.checksum, check=True)
        self.entry, self.is_whole = entry, untouched

    def is_untouched(self) -> bool:
        """Whether now, too, it is the file that was kept, and nothing happened to it."""
        state = regular(self.path)
        return state is not None and self.entry is not None and self.entry.file.is_untouched(state)

    def forget(self) -> None:
        """What is kept is of no use."""
        self.rest, self.entry, self.is_whole = self.anew, None, False

    @property
    def file_bytes(self) -> int:
        """How many bytes of the file need not be read any more."""
        return 0 if self.entry is None else self.entry.file.size

    def print_of(self, read: int, checksum: int) -> FilePrint | None:
        """What tells it from others; ``None`` where that can't be told.

        Args:
            read: how many of its bytes were read.
            checksum: of them.
        """
        return None if self._before is None else print_of(self.path, self._before, read, checksum)

    def opened(self, files: ExitStack) -> list[tuple[str, BinaryIO]] | None:
        """The rows that are kept, each piece with the name of its table; ``None`` if one is broken.

        Args:
            files: closes them.
        """
        if self.place is None or self.entry is None:
            return []
        return entries.opened(self.place, self.entry.rows, files)
