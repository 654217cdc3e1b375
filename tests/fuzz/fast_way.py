"""The fast way through a log against the slow one: whatever is edited, the rows are the same."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np

from parsers import Stream, stream, usual
from parsers.records import Columns, Request
from tests.fuzz import seeds
from tests.fuzz.checks import told
from tests.fuzz.edits import edited_lines
from tests.fuzz.logs import NOW, pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from parsers.records import Row

_CUTS = 2
_FEW = 4
"""Lines that are read at once; in a real log a stretch is longer."""


def fast_way(data: bytes) -> None:
    """An edited log of usual lines gives the same rows line by line, and many at a time."""
    log = edited_lines(data[2 * _CUTS :], seeds.usual())
    with patch.object(stream, "_LARGE", 1), patch.object(usual, "_FEW", _FEW):
        together = _read(pieces(data[: 2 * _CUTS], log), Stream.feed_many)
    assert together == _read([log], Stream.feed)


def _read(
    pieces: Sequence[bytes], feed: Callable[[Stream, bytes], Iterable[Row | Columns]]
) -> tuple[object, ...]:
    log = Stream("log", latest=NOW)
    rows = [row for piece in pieces for some in feed(log, piece) for row in _singly(some)]
    rows += log.close()
    by_table = sorted(told(rows), key=lambda row: row[0].__name__)
    return by_table, log.counts, log.lines, log.engine, log.matched, [s.model_dump() for s in log.setups]


def _singly(some: Row | Columns) -> Iterator[Row]:
    if not isinstance(some, Columns):
        yield some
        return
    columns = [
        values.tolist() if isinstance(values, np.ndarray) else [values] * some.count
        for values in some.values.values()
    ]
    for values in zip(*columns, strict=True):
        row = some.kind(**dict(zip(some.values, values, strict=True)))
        assert isinstance(row, Request)
        for name in ("started_at", "finished_at"):
            if (time := getattr(row, name)) is not None:
                setattr(row, name, time.replace(tzinfo=UTC))
        row.request_id, row.source = str(row.request_id), "log"
        yield row
