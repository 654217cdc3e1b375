"""Rows on their way to a file: filtered as they come, and kept on disk until all have come.

Which process a file goes on with, what a secret is called, and whether any row has a clock is known at the
end only. Until then no more than a batch of each table is in memory.
"""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import polars as pl

from advisor.errors import InputError
from advisor.filters import redacted
from advisor.redact import SUSPECT, Plain, Redactor, clean
from advisor.redact.order import number_secrets
from advisor.redact.setups import redacted_setup
from advisor.rotated import all_ends, as_one, continuing, ends
from parsers.records import TABLES, columns, schema
from parsers.tables import CLOCKS, Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

    from advisor.analysis import Options
    from parsers.setup import Setups

_MOST_PARTS = 64
_REMEMBERED = 4096


class _Private:
    """Remembers the rows that hold something private for the first time: ``tables``."""

    def __init__(self) -> None:
        self.tables = Tables()
        self._seen: set[tuple[str, str, str]] = set()
        self._words = Redactor()
        self._is_private = lru_cache(_REMEMBERED)(self._changes)

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Take the next rows of a table."""
        """Look at the next rows of a table."""
        new: set[int] = set()
        for name in (name for name, dtype in frame.schema.items() if dtype == pl.String):
            column = frame.select(name).with_row_index("at").filter(pl.col(name).str.contains(SUSPECT))
            for at, text in column.unique(name, keep="first", maintain_order=True).iter_rows():
                if self._is_private(name, text) and (table, name, text) not in self._seen:
                    self._seen.add((table, name, text))
                    new.add(at)
        if new:
            self.tables.add(table, frame[sorted(new)])

    def _changes(self, column: str, text: str) -> bool:
        return self._words.of(column)(text) != clean(text)


class _Remembering(Plain):
    """Cleans texts as another does, and remembers the last few thousand of each column."""

    def __init__(self, words: Plain) -> None:
        self._words = words
        self._columns: dict[str, Callable[[str], str]] = {}

    def of(self, column: str) -> Callable[[str], str]:
        """What cleans the texts of a column."""
        if column not in self._columns:
            self._columns[column] = lru_cache(_REMEMBERED)(self._words.of(column))
        return self._columns[column]


class Spool:
    """Takes rows, and keeps those of one table that pass the filters.

    Use it as a context: its temporary folder is removed at the end, whatever ends it.

    Attributes:
        table: the table that is kept.
        sizes: how many rows of each table pass the filters.
    """

    def __init__(self, table: str, options: Options) -> None:
        self.table = table
        self.sizes = dict.fromkeys(TABLES, 0)
        self._options = options
        self._folder: TemporaryDirectory[str] | None = None
        self._parts: list[pl.DataFrame | Path] = []
        self._timed = dict.fromkeys(TABLES, (0, 0))
        self._ends = [ends(pl.DataFrame(schema=schema(TABLES["requests"])))]
        self._private = _Private()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parts.clear()
        if self._folder is not None:
            self._folder.cleanup()

    def timed(self, table: str) -> tuple[int, int]:
        """How many rows a table has, and how many of them have a clock; filters aside."""
        return self._timed[table]

    def frames(self, setups: Setups) -> Iterator[pl.DataFrame]:
        """The rows that are kept, with the columns that are exported, in words that may be shown.

        Args:
            setups: indexed by the rows' ``run``.

        Yields:
            At least one frame; together they hold all rows, in the order in which they came.

        Raises:
            InputError: a time filter on rows none of which has a clock, or no room for the temporary files.
        """
        self._options.filters.require_clock(self)
        words = self._options.words
        if self._options.redact:
            number_secrets(words, self._private.tables, setups)
        joined = continuing(all_ends(self._ends), setups)
        known = {run: redacted_setup(setups[run], words) for run in {*joined, *joined.values()}}
        cleaning = _Remembering(words)
        exported = columns(TABLES[self.table])
        for part in self._parts or [pl.DataFrame(schema=schema(TABLES[self.table]))]:
            frame = part if isinstance(part, pl.DataFrame) else pl.read_ipc(BytesIO(part.read_bytes()))
            yield as_one(redacted(frame, cleaning), joined, known).select(exported)

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Take the next rows of a table."""
        rows, timed = self._timed[table]
        self._timed[table] = rows + frame.height, timed + frame[CLOCKS[table]].count()
        if self._options.redact:
            self._private.add(table, frame)
        frame = self._options.filters.passing(table, frame)
        self.sizes[table] += frame.height
        if table == "requests" and frame.height:
            self._ends.append(ends(frame))
            if len(self._ends) > _MOST_PARTS:
                self._ends = [all_ends(self._ends)]
        if table == self.table and frame.height:
            self._keep(frame)

    def _keep(self, frame: pl.DataFrame) -> None:
        """Put the rows before these on disk."""
        if self._parts and isinstance(before := self._parts[-1], pl.DataFrame):
            self._parts[-1] = self._spilled(before)
        self._parts.append(frame)

    def _spilled(self, frame: pl.DataFrame) -> Path:
        try:
            self._folder = self._folder or TemporaryDirectory(prefix="phasewise-")
            path = Path(self._folder.name) / f"{len(self._parts)}.arrow"
            with path.open("wb") as file:
                frame.write_ipc(file, compression="lz4")
        except OSError as error:
            raise InputError(f"no room for temporary files ({error.strerror or error}).") from None
        return path
