"""Reads a document: its records one after the other, and from each the rows that its format finds in it.

JSON may be one object, an array of them, or an object a line; an array's elements are records too. A file
with an object a line is read as its lines come, any other is kept until it ends, up to `MAX_BYTES`. Texts of
prompts and answers in it are decoded and forgotten.

A row's line is where its record begins. Requests are told apart by their lines, so where one record holds
several, they are counted on from there; their `first_line` and `offset` stay those of the record.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from parsers.formats.process import Counts, Process
from parsers.records import Request
from parsers.setup import Setups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers.documents.base import Document
    from parsers.records import Row
    from parsers.setup import Setup

MAX_BYTES = 256 << 20
"""So long may a document or a line be that is kept until it ends; decoding takes several times as much."""

_SPACE = " \t\r\n"


class DocumentReader:
    """Bytes of one document in, rows out; like a `Stream`, which reads logs.

    Args:
        source: the name rows carry.
        engine: the tool that wrote it.
        document: what kind of its files claimed it.
        skipped: bytes before its first one: a byte order mark.

    Attributes:
        bytes: bytes fed so far.
        counts: rows and losses so far.
        matched: how many records were read.
        problem: why it could not be read to its end, a sentence without its subject; ``None`` if it could.
    """

    def __init__(self, source: str, engine: str, document: Document, *, skipped: int = 0) -> None:
        self.source = source
        self.bytes = skipped
        self.counts = Counts()
        self.matched: Counter[str] = Counter()
        self.problem: str | None = None
        self._engine = engine
        self._document = document
        self._out: list[Row] = []
        self._setups = Setups()
        self._process = Process(source, self.counts, self._out, self._setups)
        self._decoder = json.JSONDecoder(object_pairs_hook=self._object, parse_constant=lambda _: None)
        self._kept = bytearray()
        self._newlines, self._torn = 0, False
        self._number, self._offset = 1, skipped
        self._last_line = 0
        self._by_line: bool | None = None

    @property
    def lines(self) -> int:
        """Lines seen, a last one without newline included."""
        return self._newlines + self._torn

    @property
    def engine(self) -> str | None:
        """The tool that wrote it; ``None`` when no record could be read."""
        return self._engine if self.matched else None

    @property
    def setups(self) -> list[Setup]:
        """What the document says of engine and machine: nothing but the tool's name."""
        return [s for s in self._setups if s.engine]

    @property
    def setup_of_run(self) -> Setups:
        """All setups, indexed by the rows' ``run``."""
        return self._setups

    def feed(self, data: bytes) -> list[Row]:
        """Take the next bytes; return the rows that they complete."""
        if not data:
            return []
        self.bytes += len(data)
        self._newlines += data.count(b"\n")
        self._torn = not data.endswith(b"\n")
        if self.problem is None:
            self._kept += data
            if self._by_line is not False and b"\n" in data:
                self._read_lines()
            if len(self._kept) > MAX_BYTES:
                self._stop(f"is too large: no more than {MAX_BYTES >> 20} MiB of JSON are read at once")
        return self._take()

    def flush(self) -> list[Row]:
        """No row waits for anything but the end of its record."""
        return []

    def close(self) -> list[Row]:
        """The document ends here: read what is kept of it."""
        if self._by_line:
            self._kept += b"\n"
            self._read_lines()
        elif self.problem is None and self._kept.strip():
            self._read_whole(_decoded(self._kept))
        return self._take()

    def _take(self) -> list[Row]:
        rows, self._out[:] = list(self._out), []
        return rows

    def _stop(self, why: str) -> None:
        self.problem = why
        self._kept.clear()

    def _read_lines(self) -> None:
        """Read the lines that are whole, if the first of them shows that lines are records."""
        while size := self._kept.find(b"\n") + 1:
            line = bytes(self._kept[:size])
            if line.strip():
                records = self._of_line(line)
                if self._by_line is None:
                    self._by_line = records is not None
                if not self._by_line:
                    return
                if records is None:
                    self.counts.incomplete_requests += 1
                for record, _ in records or ():
                    self._emit(record, self._number, self._offset)
            self._number, self._offset = self._number + 1, self._offset + size
            del self._kept[:size]

    def _of_line(self, line: bytes) -> list[tuple[Any, int]] | None:
        """The records of a line; ``None`` where it is cut or broken."""
        try:
            return list(self._values(_decoded(line)))
        except (ValueError, RecursionError):
            return None

    def _read_whole(self, text: str) -> None:
        at = 0
        try:
            for record, start in self._values(text):
                self._number += text.count("\n", at, start)
                self._offset += len(text[at:start].encode("utf-8", "surrogateescape"))
                at = start
                self._emit(record, self._number, self._offset)
        except (ValueError, RecursionError):
            before = "; what stands before the break was read" if self.matched else ""
            self._stop(f"is a {self._document.name} whose JSON is cut off or broken{before}")

    def _emit(self, record: Any, number: int, offset: int) -> None:
        self.matched[self._engine] += 1
        for row in self._document.rows(record, self.counts):
            row.line = number
            if isinstance(row, Request):
                row.first_line, row.offset = number, offset
                row.line = self._last_line = max(number, self._last_line + 1)
            self._process.emit(row)

    def _values(self, text: str) -> Iterator[tuple[Any, int]]:
        """The values of a JSON text and where each begins; of an array, its elements.

        Raises:
            ValueError: from here on it is no JSON.
        """
        at, inside = _after(text, 0, _SPACE), False
        while at < len(text):
            if text[at] == ("]" if inside else "["):
                inside, at = not inside, at + 1
            else:
                value, end = self._decoder.raw_decode(text, at)
                yield value, at
                at = end
            at = _after(text, at, _SPACE + "," if inside else _SPACE)
        if inside:
            raise ValueError("an array does not end")

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """An object; a key that is told twice and not the same is unknown."""
        told = dict(pairs)
        if len(told) < len(pairs):
            for key, value in pairs:
                if told[key] is not None and told[key] != value:
                    told[key] = None
                    self.counts.impossible_values += 1
        return told


def _decoded(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "surrogateescape")


def _after(text: str, at: int, skipped: str) -> int:
    while at < len(text) and text[at] in skipped:
        at += 1
    return at
