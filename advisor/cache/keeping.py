"""Keeps what is read of a log while it is read."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from advisor.cache import entries
from advisor.cache.entries import CacheError, Entry
from parsers.records import TABLES

if TYPE_CHECKING:
    import polars as pl

    from advisor.cache.entries import Piece
    from advisor.cache.log import Log
    from advisor.parts import Part

_ROWS = 1 << 17
"""Of a piece, so that no more need be in memory."""
_MOST_SMALL = 32
"""Where more pieces than that are not full, all are written anew."""


class Keeping:
    """Takes the parts of a log.

    Args:
        log: which.
    """

    def __init__(self, log: Log) -> None:
        before = [] if log.entry is None else log.entry.rows
        self._log = log
        self._place = None if log.is_whole else log.place
        self._again = sum(piece.rows < _ROWS for piece in before) > _MOST_SMALL
        self._rows: list[Piece] = [] if self._again else list(before)
        self._made: list[Piece] = []
        self._frames: dict[str, list[pl.DataFrame]] = {table: [] for table in TABLES}
        self._size = 0
        self._last: Part | None = None

    def again(self, part: Part) -> None:
        """Take rows that are kept already.

        Raises:
            CacheError: they can't be written.
        """
        if self._again:
            self._take(part)

    def take(self, part: Part) -> None:
        """Take what was read; at the end, what a reader was put by after is kept.

        Raises:
            CacheError: it can't be written.
        """
        if part.ending is None:
            self._take(part)
            self._last = part
        elif self._last is not None:
            self._keep(self._last)

    def close(self) -> None:
        """Leave nothing of what was written and is not kept."""
        if self._place is not None:
            entries.drop([self._place / piece.name for piece in self._made])
        self._place = None
        self._frames.clear()

    def _take(self, part: Part) -> None:
        if self._place is None:
            return
        for table, frame in part.frames:
            frames = self._frames[table]
            frames.append(frame)
            if sum(one.height for one in frames) >= _ROWS:
                self._write(table)

    def _write(self, table: str) -> None:
        frames = self._frames[table]
        if self._place is None or not frames:
            return
        import polars as pl

        data = BytesIO()
        rows = pl.concat(frames)
        rows.write_ipc(data, compression="zstd")
        frames.clear()
        piece = entries.put(self._place, data.getvalue(), table, rows.height)
        self._rows.append(piece)
        self._made.append(piece)
        self._size += len(data.getvalue())
        if self._size > entries.LARGEST:
            raise CacheError(f"{self._log.path}: its rows take more than {entries.LARGEST / 1e9:g} GB")

    def _keep(self, last: Part) -> None:
        if self._place is None or last.state is None:
            return
        file = self._log.print_of(last.read, last.checksum)
        if file is None:
            return
        for table in TABLES:
            self._write(table)
        state = entries.put(self._place, last.state)
        self._made.append(state)
        entries.replace(self._place, Entry(file=file, read=last.read, rows=self._rows, state=state))
        self._made.clear()
        entries.make_room(self._log.root)
