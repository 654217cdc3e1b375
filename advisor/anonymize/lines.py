"""A stream that also writes the log anew: lines that were read are masked, of all others the break stays.

Carriers' heads stay, since lines of a container are counted, and so do the literals by which a format is
known, the first time that a line which was not read holds them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from parsers.cut import MAX_LINE, ends_of
from parsers.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from advisor.anonymize.mask import Masker
    from advisor.anonymize.rewrite import Asked
    from parsers.blocks import Block
    from parsers.carriers import Carried
    from parsers.search import Trial
    from parsers.stream import Place

_END = MAX_LINE // 2
_SIGNS = re.compile(rb"[\s{}\[\](),:;|+=*_-]*")


class Rewriter(Stream):
    """Reads a log and writes it masked.

    Args:
        asked: how it is read.
        masker: masks what an engine said, and what carriers put before it.
        write: takes the new log's bytes.
    """

    def __init__(self, asked: Asked, masker: Masker, write: Callable[[bytes], object]) -> None:
        super().__init__(asked.name, engine=asked.engine, latest=asked.latest, formats=asked.formats)
        self._masker = masker
        self._write = write
        self._taken: dict[int, list[str]] = {}
        self._signs = () if asked.engine else [literal for fmt in asked.formats for literal in fmt.identify]
        self._shown: set[tuple[str, bytes]] = set()

    def _try(self, trials: list[Trial], text: Carried, place: Place) -> bool:
        taken = super()._try(trials, text, place)
        if taken:
            self._taken.setdefault(place[0], []).append(_text(text.body))
        return taken

    def _read_block(self, block: Block) -> None:
        super()._read_block(block)
        first, said = block.number, block.text.split(b"\n")
        ended = not said[-1]
        for number, line in enumerate(said[:-1] if ended else said, first):
            self._write(self._rewritten(line.rstrip(b"\r"), self._taken.get(number)))
            if ended or number < first + len(said) - 1:
                self._write(b"\n")
        self._taken.clear()

    def _rewritten(self, line: bytes, read: list[str] | None) -> bytes:
        if read is not None:
            return self._long(line) if len(line) > MAX_LINE else self._masked(line, read)
        if _SIGNS.fullmatch(line):
            return line
        head = self._masker.heads.parted(_text(line[:MAX_LINE]))[0]
        kept = ends_of(line)
        signs = [sign for sign in self._signs if sign in kept and (head, sign) not in self._shown]
        self._shown.update((head, sign) for sign in signs)
        return (head.encode() + b" ".join(signs)) if signs else head.encode()

    def _masked(self, line: bytes, read: Collection[str] = ()) -> bytes:
        head, body = self._masker.heads.parted(_text(line))
        return (head + self._masker.text(body, read)).encode("utf-8", "replace")

    def _long(self, line: bytes) -> bytes:
        """A line of which only the ends are read: they stay ends."""
        tail = self._masker.text(_text(line[-_END:])).encode("utf-8", "replace")
        return self._masked(line[:_END])[:_END].ljust(_END, b"x") + b"x" + tail[-_END:].rjust(_END, b"x")


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
