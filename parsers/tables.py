"""Rows gathered by kind and turned into polars frames."""

from __future__ import annotations

from dataclasses import fields
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from parsers.records import TABLES, Columns, columns, schema
from parsers.times import microseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import polars as pl

    from parsers.records import Row

CLOCKS: dict[str, str] = {
    "requests": "finished_at",
    "intervals": "time",
    "events": "time",
    "aggregates": "time",
}
"""The column of each table that says when a row is of."""


class Batches:
    """Gathers rows by kind and hands them on as polars frames of a few thousand.

    Args:
        take: called with the table's name and its next rows.
    """

    ROWS = 8_192

    def __init__(self, take: Callable[[str, pl.DataFrame], None]) -> None:
        self._take = take
        self._rows: dict[type[Row], list[Row]] = {row_type: [] for row_type in TABLES.values()}
        self._columns: dict[type[Row], list[Columns]] = {row_type: [] for row_type in TABLES.values()}

    def extend(self, rows: Iterable[Row | Columns]) -> None:
        """Add rows of any kind."""
        for row in rows:
            if isinstance(row, Columns):
                row_type = row.kind
                self._gather(row_type)
                self._columns[row_type].append(row)
                count = sum(part.count for part in self._columns[row_type])
            else:
                row_type = type(row)
                self._rows[row_type].append(row)
                count = len(self._rows[row_type])
            if count >= self.ROWS:
                self._hand_on(row_type)

    def flush(self) -> None:
        """Hand on what there is."""
        for row_type in TABLES.values():
            if self._rows[row_type] or self._columns[row_type]:
                self._hand_on(row_type)

    def _gather(self, row_type: type[Row]) -> None:
        """Put single rows behind what came many together."""
        rows, self._rows[row_type] = self._rows[row_type], []
        if rows:
            names = columns(row_type, inside=True)
            values = zip(*map(attrgetter(*names), rows), strict=True)
            self._columns[row_type].append(
                Columns(row_type, len(rows), dict(zip(names, values, strict=True)))
            )

    def _hand_on(self, row_type: type[Row]) -> None:
        self._gather(row_type)
        parts, self._columns[row_type] = self._columns[row_type], []
        self._take(_NAMES[row_type], _frame(row_type, parts))


_NAMES = {row_type: name for name, row_type in TABLES.items()}


def _frame(row_type: type[Row], parts: Iterable[Columns]) -> pl.DataFrame:
    """Rows, those of one part after the other."""
    import polars as pl

    types = schema(row_type)
    defaults = {field.name: field.default for field in fields(row_type)}
    frames = [
        pl.DataFrame(
            [_series(name, types[name], part.values.get(name, defaults[name]), part.count) for name in types]
        )
        for part in _joined(parts)
    ]
    return pl.concat(frames, rechunk=True) if frames else pl.DataFrame(schema=types)


def _joined(parts: Iterable[Columns]) -> Iterator[Columns]:
    """Parts that differ in their arrays only put together: a column of polars costs more than its numbers."""
    for _, alike in groupby(parts, _unlike):
        first, *others = alike
        if others:
            import numpy as np

            parts = [first, *others]
            values = {
                name: np.concatenate([part.values[name] for part in parts]) if _is_array(value) else value
                for name, value in first.values.items()
            }
            first = Columns(first.kind, sum(part.count for part in parts), values)
        yield first


def _unlike(part: Columns) -> list[tuple[str, Any]]:
    return [(name, None if _is_array(value) else value) for name, value in part.values.items()]


def _is_array(values: Any) -> bool:
    return hasattr(values, "dtype")


def _series(name: str, dtype: pl.DataType, values: Any, count: int) -> pl.Series:
    """A column of an array, of each row's value, or of what all rows have.

    Polars is slow to take times one by one, and quick to take numbers as times.
    """
    import polars as pl

    if _is_array(values):
        column = pl.Series(name, values)
        return column.cast(pl.Int64()).cast(dtype) if isinstance(dtype, pl.Datetime) else column.cast(dtype)
    if not isinstance(values, tuple):
        return pl.Series(name, [values], dtype).new_from_index(0, count)
    if not isinstance(dtype, pl.Datetime):
        return pl.Series(name, values, dtype)
    us = [None if time is None else microseconds(time) for time in values]
    return pl.Series(name, us, pl.Int64()).cast(dtype)


class Tables:
    """All rows, a polars frame for each kind."""

    def __init__(self) -> None:
        self._batches = Batches(lambda table, frame: self._frames[table].append(frame))
        self._frames: dict[str, list[pl.DataFrame]] = {table: [] for table in TABLES}

    def extend(self, rows: Iterable[Row | Columns]) -> None:
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
        frames = self._frames[table] or [_frame(TABLES[table], ())]
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
