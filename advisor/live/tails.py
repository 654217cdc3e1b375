"""What a session reads: rows as they come, from a log or from an engine's own addresses."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Protocol

from advisor.errors import InputError
from advisor.live.kept import Kept
from parsers import Stream
from parsers.formats.process import Counts

if TYPE_CHECKING:
    from pathlib import Path

    from advisor.sources.growing import Growing
    from parsers import SourceReader
    from parsers.documents.reader import DocumentReader
    from parsers.records import Row
    from parsers.setup import Setups

_SLICE = 128 << 10
"""Bytes that are read at once, in some hundredths of a second: others may want the processor."""


class Tail(Protocol):
    """Something that gives rows as they come.

    Attributes:
        name: what its rows call their source.
        engine: whose rows they are, as far as is known.
        bytes, lines: read so far.
        counts: rows and losses so far.
        is_live: it has caught up: what it gives now has just happened.
    """

    name: str
    engine: str | None
    bytes: int
    lines: int
    counts: Counts
    is_live: bool

    @property
    def setups(self) -> Setups:
        """Each process start's, indexed by the rows' ``run``: a copy that changes no more."""

    def read(self, wait_s: float) -> list[Row] | None:
        """The rows that have come, after ``wait_s`` seconds at most; ``None`` once it has ended."""

    def rest(self) -> list[Row]:
        """The rows of what has been read already, when nothing more will be."""

    def notes(self) -> list[str]:
        """What happened to the source since this was last asked: a sentence each."""

    def close(self) -> None:
        """Let go of the source."""


class TailedLog:
    """A log, line by line.

    Args:
        bytes_of: gives the log's bytes as they come.
        reader: makes rows of them.
        grows: it is still being written.
        path: where it lies, if it is a file; its name is for people.
    """

    def __init__(
        self,
        bytes_of: Growing,
        reader: Stream | SourceReader,
        *,
        grows: bool = True,
        path: Path | None = None,
    ) -> None:
        self.name = bytes_of.name
        self.engine: str | None = None
        self.bytes = self.lines = 0
        self.counts = Counts()
        self.is_live = False
        self.kept = Kept()
        self._bytes_of, self._reader = bytes_of, reader
        self._rest = b""
        self._lock = Lock()
        self.grows, self.path = grows, path
        self._ended = False
        self._failed: InputError | None = None

    @property
    def setups(self) -> Setups:
        """Each process start's, indexed by the rows' ``run``: a copy that changes no more."""
        with self._lock:
            return self._stream.setup_of_run.copy()

    @property
    def _stream(self) -> Stream | DocumentReader:
        return self._reader if isinstance(self._reader, Stream) else self._reader.reader

    def read(self, wait_s: float) -> list[Row] | None:
        """The rows of the lines that have come, after ``wait_s`` seconds at most; ``None`` at the end.

        Where nothing more comes, rows that only waited for lines which might belong to them are given.

        Raises:
            InputError: the source can't be read any further.
            SlowPatternError: a pattern of a user's format takes too long.
        """
        if self._ended:
            if self._failed is not None:
                raise self._failed
            return None
        self.is_live = self.is_live or (self._bytes_of.has_caught_up and not self._rest)
        try:
            data = self._rest or self._bytes_of.read(wait_s)
        except InputError as error:
            self._failed, data = error, None  # what came before still counts
        if data is not None:
            data, self._rest = data[:_SLICE], data[_SLICE:]
        with self._lock:
            return self._told(self._rows(data))

    def _told(self, rows: list[Row]) -> list[Row]:
        """The rows, once what else the log has told by now is kept too."""
        stream = self._stream
        self.engine, self.lines, self.counts = stream.engine, stream.lines, stream.counts
        return rows

    def _rows(self, data: bytes | None) -> list[Row]:
        if data is None:
            self._ended = True
            return self._reader.close()
        if not data:
            return self._reader.flush()
        self.bytes += len(data)
        self.kept.add(data)
        return self._reader.feed(data)

    def rest(self) -> list[Row]:
        """The rows of the lines that have been read already; requests that are still open stay so."""
        with self._lock:
            if self._ended:
                return []
            rest, self._rest = self._rest, b""
            return self._told([*(self._rows(rest) if rest else []), *self._reader.flush()])

    def notes(self) -> list[str]:
        """What happened to the file or the program that writes."""
        return self._bytes_of.notes()

    def close(self) -> None:
        """Let go of the file or the program."""
        self._bytes_of.close()
