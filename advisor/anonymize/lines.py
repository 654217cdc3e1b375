"""Writes a log anew while it is read: lines that were read are masked, of all others the break stays.

Carriers' heads stay, since lines of a container are counted, and so do the literals by which a format is
known, the first time that a line which was not read holds them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from advisor.anonymize.mask import decoded
from parsers.cut import MAX_LINE, ends_of
from parsers.lines import texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from advisor.anonymize.mask import Masker
    from advisor.anonymize.rewrite import Asked
    from parsers.stream import Taken

_END = MAX_LINE // 2
_SIGNS = re.compile(rb"[\s{}\[\](),:;|+=*_-]*")

_LAST_SIGNS = re.compile(rb"(?<![\s{}\[\](),;])[\s{}\[\](),;]*$")


class Rewriter:
    """Writes lines masked.

    Args:
        asked: how the log is read.
        masker: masks what an engine said, and what carriers put before it.
        write: takes the new log's bytes.
    """

    def __init__(self, asked: Asked, masker: Masker, write: Callable[[bytes], object]) -> None:
        self._masker = masker
        self._write = write
        self._signs = () if asked.engine else [literal for fmt in asked.formats for literal in fmt.identify]
        self._banners = (
            [] if asked.engine else [(fmt.identify, fmt.banner) for fmt in asked.formats if fmt.banner]
        )
        self._shown: set[tuple[str, bytes]] = set()

    def line(self, number: int, line: bytes, taken: list[Taken] | None) -> None:
        """Write a line that was read by so much."""
        self._write(self._rewritten(line.rstrip(b"\r\n"), taken) + b"\n" * line.endswith(b"\n"))

    def _rewritten(self, line: bytes, taken: list[Taken] | None) -> bytes:
        if taken:
            return self._long(line) if len(line) > MAX_LINE else self._masked(line, taken)
        if _SIGNS.fullmatch(line):
            return line
        head = self._masker.heads.known(decoded(line[:MAX_LINE]))
        kept = ends_of(line)
        signs = [sign for sign in self._signs if sign in kept and (head, sign) not in self._shown]
        self._shown.update((head, sign) for sign in signs)
        if not signs:
            return head.encode()
        if banner := self._banner(line, signs):
            return head.encode() + banner + b" ".join(signs)
        before, after = _SIGNS.match(line), _LAST_SIGNS.search(line)
        if head or not before or not after:
            return head.encode() + b" ".join(signs)
        return before[0] + b" ".join(signs) + after[0]

    def _banner(self, line: bytes, signs: Sequence[bytes]) -> bytes:
        """The beginning by which a format of one of the signs knows its engine; empty where it has none."""
        for identify, banner in self._banners:
            for sign in set(identify).intersection(signs):
                for text in texts_of(line, sign, plain=False):
                    if found := re.match(banner, text.body):
                        return found[0]
        return b""

    def _masked(self, line: bytes, taken: Sequence[Taken]) -> bytes:
        return self._masker.line(decoded(line), taken).encode("utf-8", "replace")

    def _long(self, line: bytes) -> bytes:
        """A line of which only the ends are read: its beginning is masked, and nothing stays of its end."""
        head = self._masker.line(decoded(line[:_END]), ()).encode("utf-8", "replace")
        return head[:_END].ljust(_END, b"x") + b"x" * (_END + 1)
