"""Cuts a source's bytes into blocks of whole lines, and knows where each of them stands.

A block is cut at its last newline; the torn rest waits for more. What is read must not depend on where the
supplier of the bytes cut them, so the next block begins with that rest. A line too long to be kept whole
becomes a block of its own once its end has come.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from parsers.cut import MAX_LINE, drop_middle
from parsers.finding import count
from parsers.journal_export import BEGINS, JournalExport

if TYPE_CHECKING:
    from parsers.journal_export import Told

_BOMS = {codecs.BOM_UTF8: None, codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_MARKS = (*_BOMS, BEGINS, codecs.BOM_UTF8 + BEGINS)


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a source.

    Attributes:
        text: the lines, in UTF-8.
        number: the first one's, 1-based.
        offset: where it begins in the source, in bytes.
        offsets: where each line begins, if they don't follow each other: an export of the journal.
        encoding: the source's, if it is not UTF-8.
        no_newline: the source ends here, and no newline says that its last line does.
    """

    text: bytes
    number: int
    offset: int
    offsets: tuple[int, ...] = ()
    encoding: str | None = None
    no_newline: bool = False

    def offset_of(self, at: int) -> int:
        """The source's offset of a place in the text."""
        if self.offsets:
            return self.offsets[self.text.count(b"\n", 0, at)]
        return self.offset + width(self.text[:at], self.encoding)


def width(text: bytes, encoding: str | None) -> int:
    """How many bytes of a source in this encoding a text was."""
    return len(text.decode().encode(encoding, "replace")) if encoding else len(text)


class Blocks:
    """Bytes of one source in, blocks of whole lines out."""

    def __init__(self) -> None:
        self._newlines = 0
        self._offset = 0
        self._head: bytes | None = b""
        self._journal: JournalExport | None = None
        self._torn = bytearray()
        self._torn_size = 0
        self._encoding: str | None = None
        self._decoder: codecs.IncrementalDecoder | None = None

    def __getstate__(self) -> dict[str, Any]:
        """With the decoder as its own state."""
        return self.__dict__ | {"_decoder": self._decoder and self._decoder.getstate()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _decoder=None)
        if self._encoding is not None:
            self._decoder = codecs.getincrementaldecoder(self._encoding)("replace")
            self._decoder.setstate(state["_decoder"])

    @property
    def lines(self) -> int:
        """Lines seen, a last one without newline included."""
        return self._newlines + (1 if self._torn_size else 0)

    def feed(self, data: bytes) -> list[Block]:
        """Take the next bytes; return the lines that they complete."""
        if self._head is not None:
            data = self._begin(self._head + data)
        if self._journal is not None:
            return self._told(self._journal.feed(data))
        if self._decoder is not None:
            data = self._decoder.decode(data).encode()
        blocks = []
        if self._torn_size > MAX_LINE and (cut := data.find(b"\n") + 1):
            self._tear(data[:cut])
            blocks.append(self._end_torn())
            data = data[cut:]
        if cut := data.rfind(b"\n") + 1:
            text = b"".join((self._torn, memoryview(data)[:cut])) if self._torn_size else data[:cut]
            self._torn, self._torn_size = bytearray(), 0
            blocks.append(self._block(text, count(text, b"\n"), width(text, self._encoding)))
            data = data[cut:]
        self._tear(data)
        return blocks

    def close(self) -> list[Block]:
        """The source ends: a last line without newline is a block too."""
        blocks = []
        if self._head:
            begun = self._begin(self._head, last=True)
            if self._journal is None:
                self._tear(begun)
        if self._journal is not None:
            blocks += self._told(self._journal.close())
        if self._torn_size:
            blocks.append(self._end_torn())
        return blocks

    def _begin(self, data: bytes, *, last: bool = False) -> bytes:
        """Take the byte order mark off the first bytes; keep them back while it may still be coming."""
        if not last and any(mark.startswith(data) and mark != data for mark in _MARKS):
            self._head = data
            return b""
        self._head = None
        for mark, encoding in _BOMS.items():
            if data.startswith(mark):
                self._offset = len(mark)
                if encoding:
                    self._encoding = encoding
                    self._decoder = codecs.getincrementaldecoder(encoding)("replace")
                data = data[len(mark) :]
                break
        if self._encoding is None and data.startswith(BEGINS):
            self._journal = JournalExport(self._offset)
        return data

    def _told(self, told: Told) -> list[Block]:
        """What an export of the journal tells."""
        if not told.offsets:
            return []
        no_newline = not told.text.endswith(b"\n")
        return [self._block(told.text, len(told.offsets), 0, offsets=told.offsets, no_newline=no_newline)]

    def _tear(self, data: bytes) -> None:
        """Keep what may still be the beginning of a line, but no more of it than is ever read."""
        self._torn += data
        drop_middle(self._torn)
        self._torn_size += width(data, self._encoding)

    def _end_torn(self) -> Block:
        line, size = bytes(self._torn), self._torn_size
        self._torn, self._torn_size = bytearray(), 0
        return self._block(line, 1, size, no_newline=not line.endswith((b"\n", b"\r")))

    def _block(
        self,
        text: bytes,
        lines: int,
        size: int,
        *,
        offsets: tuple[int, ...] = (),
        no_newline: bool = False,
    ) -> Block:
        """The next block: so many lines, which were so many bytes of the source."""
        number, offset = self._newlines + 1, self._offset
        self._newlines += lines
        self._offset += size
        return Block(text, number, offset, offsets, self._encoding, no_newline)
