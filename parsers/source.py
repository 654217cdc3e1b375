"""One source, whatever it is: a document where one is claimed by its first bytes, else a log."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from parsers.documents.base import HEAD
from parsers.documents.reader import DocumentReader
from parsers.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parsers.formats.base import Format
    from parsers.records import Columns, Row
    from parsers.stream import Stream


class DocumentError(ValueError):
    """A document can't be read to its end."""


class SourceReader:
    """Bytes of one source in, rows out.

    What may be a document is kept back until `HEAD` bytes of it are there, or its end.

    Args:
        log: what reads it if it is a log.
        engine: look only for documents of this tool.
        formats: whose documents to look for, in the order they are asked.
    """

    def __init__(
        self, log: Stream, *, engine: str | None = None, formats: Sequence[Format] = FORMATS
    ) -> None:
        self._log = log
        self._reader: Stream | DocumentReader | None = None
        self._documents = [
            (fmt.engine, document)
            for fmt in formats
            for document in fmt.documents
            if engine in (None, fmt.engine)
        ]
        self._opens = {opening for _, document in self._documents for opening in document.opens}
        self._head = b""

    @property
    def log(self) -> Stream:
        """What reads it if it is a log."""
        return self._log

    @property
    def reader(self) -> Stream | DocumentReader:
        """What reads it; before that is known, the reader of logs."""
        return self._reader or self._log

    @property
    def problem(self) -> str | None:
        """Why it could not be read to its end, a sentence without its subject; ``None`` if it could."""
        return self._reader.problem if isinstance(self._reader, DocumentReader) else None

    def feed(self, data: bytes) -> list[Row]:
        """Take the next bytes; return the rows that they complete."""
        data = self._decided(data)
        return self.reader.feed(data)

    def feed_many(self, data: bytes) -> list[Row | Columns]:
        """The same, many rows together where they can be."""
        data = self._decided(data)
        return self._log.feed_many(data) if self.reader is self._log else [*self.reader.feed(data)]

    def flush(self) -> list[Row]:
        """Rows that are whole and only waited for lines that might still belong to them."""
        return self.reader.flush()

    def close(self) -> list[Row]:
        """The source ends."""
        data = self._begin() if self._reader is None else b""
        return self.reader.feed(data) + self.reader.close()

    def _decided(self, data: bytes) -> bytes:
        """What is to be read now: nothing before the first bytes tell what it is, then these with it."""
        if self._reader is not None:
            return data
        self._head += data
        return b"" if len(self._head) < HEAD and self._may_open(self._head) else self._begin()

    def _may_open(self, head: bytes) -> bool:
        """Whether a document may begin so, or may still come."""
        begun = head.removeprefix(codecs.BOM_UTF8).lstrip()
        return codecs.BOM_UTF8.startswith(head) or any(
            begun.startswith(opening[: len(begun)]) for opening in self._opens
        )

    def _begin(self) -> bytes:
        """Decide by the first bytes; give those that are to be read."""
        head, self._head = self._head, b""
        skipped = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
        self._reader = self._log
        if self._may_open(head):
            first = head[skipped:HEAD]
            claimed = next(((e, d) for e, d in self._documents if d.detect(first)), None)
            if claimed is not None:
                self._reader = DocumentReader(self._log.source, *claimed, skipped=skipped)
                head = head[skipped:]
        return head
