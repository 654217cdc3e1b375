"""Bytes to rows: reads engine logs; knows engines, knows no physics.

`Stream` is the incremental core, `read_rows` the whole file at once.
"""

from __future__ import annotations

from pathlib import Path

from parsers.formats import ENGINES, FORMATS
from parsers.records import Tables
from parsers.stream import Stream, UnknownEngineError

_BLOCK = 1 << 20


def read_rows(path: str | Path, *, engine: str | None = None, year: int | None = None) -> Tables:
    """All rows of a plain log file.

    Args:
        path: the file.
        engine: read it as this engine's log, without looking for others.
        year: the year of clocks that print none.

    Raises:
        OSError: the file can't be read.
        UnknownEngineError: no format is called ``engine``.
    """
    stream = Stream(str(path), engine=engine, year=year)
    tables = Tables()
    with Path(path).open("rb") as file:
        while block := file.read(_BLOCK):
            tables.extend(stream.feed(block))
    tables.extend(stream.close())
    return tables


__all__ = ["ENGINES", "FORMATS", "Stream", "Tables", "UnknownEngineError", "read_rows"]
