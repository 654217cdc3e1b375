"""The last rows of each table, in words that may be shown; older ones are dropped."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import polars as pl

from parsers import Tables
from parsers.records import TABLES, columns, schema

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHUNKS = 64
PLACED_AT = "placed_at"
"""The column that history adds to every table: when a row came, by our own clock, if it was watched; else its
own time by the log's clock; null where that has none."""


class _Ring:
    """Frames of one table, at most ``limit`` rows of them."""

    def __init__(self, empty: pl.DataFrame, limit: int) -> None:
        self._frames = deque([empty])
        self._limit = limit
        self._rows = 0

    def add(self, frame: pl.DataFrame) -> None:
        self._frames.append(frame)
        self._rows += frame.height
        while (excess := self._rows - self._limit) > 0:
            first = self._frames.popleft()
            self._rows -= min(excess, first.height)
            if excess < first.height:
                self._frames.appendleft(first[excess:])

    def frame(self) -> pl.DataFrame:
        if len(self._frames) > _CHUNKS:
            self._compact()
        return pl.concat(self._frames, rechunk=False)

    def _compact(self) -> None:
        """Join small frames; large ones stay apart, so that they can still be dropped one by one."""
        joined: deque[pl.DataFrame] = deque()
        step = max(self._limit // _CHUNKS, 1)
        for frame in self._frames:
            if joined and joined[-1].height + frame.height <= step:
                joined[-1] = pl.concat([joined[-1], frame], rechunk=True)
            else:
                joined.append(frame)
        self._frames = joined


class History:
    """The last rows of each table.

    Args:
        limit: most rows of each table.
        derived: columns that requests have besides their own.
    """

    def __init__(self, limit: int, derived: Mapping[str, pl.Expr]) -> None:
        self._derived = derived
        self._rings = {table: _Ring(self._shown(table, _empty(table)), limit) for table in TABLES}

    def add(self, table: str, frame: pl.DataFrame) -> pl.DataFrame:
        """Keep the next rows; gives them with what is derived from them."""
        shown = self._shown(table, frame)
        self._rings[table].add(shown)
        return shown

    def frame(self, table: str) -> pl.DataFrame:
        """The rows of a table that are kept, with what is derived from them."""
        return self._rings[table].frame()

    def _shown(self, table: str, frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(**self._derived) if table == "requests" else frame

    def tables(self) -> Tables:
        """The rows that are kept as they were read."""
        tables = Tables()
        for table, row_type in TABLES.items():
            tables.add(table, self.frame(table).select(columns(row_type, inside=True)))
        return tables


def _empty(table: str) -> pl.DataFrame:
    return pl.DataFrame(schema={**schema(TABLES[table]), PLACED_AT: pl.Datetime("us", "UTC")})
