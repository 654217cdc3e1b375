"""Bytes to rows: reads engine logs; knows engines, knows no physics.

`Stream` is the incremental core for logs, `SourceReader` tells them from documents, `read_rows` reads a whole
file at once.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from parsers.formats import ENGINES, FORMATS
from parsers.search import UnknownEngineError
from parsers.source import DocumentError, SourceReader
from parsers.stream import Stream
from parsers.tables import Tables

_BLOCK = 1 << 21


def read_rows(path: str | Path, *, engine: str | None = None, year: int | None = None) -> Tables:
    """All rows of a plain log file or document.

    Args:
        path: the file.
        engine: read it as this engine's log, without looking for others.
        year: the year of clocks that print none; default the one that fits when the file was last written.

    Raises:
        OSError: the file can't be read.
        DocumentError: the document is cut off, broken or too large.
        UnknownEngineError: no format is called ``engine``.
    """
    latest = datetime.fromtimestamp(Path(path).stat().st_mtime, UTC)
    source = SourceReader(Stream(str(path), engine=engine, year=year, latest=latest), engine=engine)
    tables = Tables()
    with Path(path).open("rb") as file:
        while block := file.read(_BLOCK):
            tables.extend(source.feed_many(block))
    tables.extend(source.close())
    if source.problem is not None:
        raise DocumentError(f"{path} {source.problem}")
    return tables


__all__ = [
    "ENGINES",
    "FORMATS",
    "DocumentError",
    "SourceReader",
    "Stream",
    "Tables",
    "UnknownEngineError",
    "read_rows",
]
