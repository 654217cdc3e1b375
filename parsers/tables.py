"""Rows gathered by kind and turned into polars frames."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING

from parsers.records import TABLES, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    import polars as pl

    from parsers.records import Row

CLOCKS: dict[str, str] = {
    "requests": "finished_at",
    "intervals": "time",
    "events": "time",
    "aggregates": "time",
}
"""The column of each table that says when a row is of."""

_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


class Batches:
    """Gathers rows by kind and hands them on as polars frames of a few thousand.

    Args:
        take: called with the table's name and its next rows.
    """

    ROWS = 8_192

    def __init__(self, take: Callable[[str, pl.DataFrame], None]) -> None:
        self._take = take
        self._rows: dict[type[Row], list[Row]] = {row_type: [] for row_type in TABLES.values()}

    def extend(self, rows: Iterable[Row]) -> None:
        """Add rows of any kind."""
        for row in rows:
            kept = self._rows[type(row)]
            kept.append(row)
            if len(kept) >= self.ROWS:
                self._hand_on(type(row))

    def flush(self) -> None:
        """Hand on what there is."""
        for row_type, rows in self._rows.items():
            if rows:
                self._hand_on(row_type)

    def _hand_on(self, row_type: type[Row]) -> None:
        rows, self._rows[row_type] = self._rows[row_type], []
        self._take(_NAMES[row_type], _frame(row_type, rows))


_NAMES = {row_type: name for name, row_type in TABLES.items()}


def _frame(row_type: type[Row], rows: list[Row]) -> pl.DataFrame:
    import polars as pl

    types = schema(row_type)
    columns = zip(*map(attrgetter(*types), rows), strict=True) if rows else ((),) * len(types)
    return pl.DataFrame([_series(*column) for column in zip(types.items(), columns, strict=True)])


def _series(typed: tuple[str, pl.DataType], values: Sequence[Any]) -> pl.Series:
    """A column; polars is slow to take times one by one, and quick to take numbers as times."""
    import polars as pl

    name, dtype = typed
    if not isinstance(dtype, pl.Datetime):
        return pl.Series(name, values, dtype)
    us = [None if time is None else (time - _EPOCH) // _MICROSECOND for time in values]
    return pl.Series(name, us, pl.Int64()).cast(dtype)


class Tables:
    """All rows, a polars frame for each kind."""

    def __init__(self) -> None:
        self._batches = Batches(lambda table, frame: self._frames[table].append(frame))
        self._frames: dict[str, list[pl.DataFrame]] = {table: [] for table in TABLES}

    def extend(self, rows: Iterable[Row]) -> None:
        """Add rows of any kind."""
        self._batches.extend(rows)

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Add rows that are a frame already."""
        self._frames[table].append(frame)

    def timed(self, table: str) -> tuple[int, int]:
        """How many rows a table has, and how many of them have a clock."""
        frame = self._frame(table)
        return frame.height, frame[CLOCKS[table]].count()

    def _frame(self, table: str) -> pl.DataFrame:
        import polars as pl

        self._batches.flush()
        frames = self._frames[table] or [_frame(TABLES[table], [])]
        self._frames[table] = frames if len(frames) == 1 else [pl.concat(frames, rechunk=True)]
        return self._frames[table][0]

    @property
    def requests(self) -> pl.DataFrame:
        """All requests so far."""
        return self._frame("requests")

    @property
    def intervals(self) -> pl.DataFrame:
        """All intervals so far."""
        return self._frame("intervals")

    @property
    def events(self) -> pl.DataFrame:
        """All events so far."""
        return self._frame("events")

    @property
    def aggregates(self) -> pl.DataFrame:
        """All aggregates so far."""
        return self._frame("aggregates")
