"""Finds the lines of a block that a format may know: literals first, patterns only where one is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.cut import MAX_LINE, ends_of
from parsers.grams import Grams

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator

    from parsers.formats.base import At, Format, Line

_LARGE = 1 << 16
"""From this size on a block is first asked for all literals at once."""


class Trial:
    """A line of a format that is awake: since which offset, and who takes it for each carrier label."""

    __slots__ = ("engine", "format", "match", "name", "since", "takers", "word")

    def __init__(self, line: Line, fmt: Format, since: int) -> None:
        self.name = line.name
        self.word = line.word
        self.match = line.pattern.match
        self.format = fmt
        self.engine = fmt.engine
        self.since = since
        self.takers: dict[bytes | None, Callable[[re.Match[bytes], At], None]] = {}


class Search:
    """The formats of a source: asleep until a line identifies them, from that line on awake to its end.

    Args:
        formats: the formats to look for, in the order they are tried.
        awake: try all of their lines from the first byte on.
    """

    def __init__(self, formats: list[Format], *, awake: bool = False) -> None:
        self.awake: dict[Format, int] = dict.fromkeys(formats, 0) if awake else {}
        self._formats = formats
        self._gather()

    def _gather(self) -> None:
        """The needles of the formats that are awake, in the order of the formats."""
        self._asleep = [(fmt, _spellings(*fmt.identify)) for fmt in self._formats if fmt not in self.awake]
        self._trials: dict[bytes, list[Trial]] = {}
        for fmt in self._formats:
            if (since := self.awake.get(fmt)) is not None:
                for line in fmt.lines:
                    for needle in _spellings(line.needle):
                        self._trials.setdefault(needle, []).append(Trial(line, fmt, since))

    def hits(
        self, block: bytes, offset_of: Callable[[int], int]
    ) -> Iterator[tuple[int, bytes, list[tuple[bytes, list[Trial]]]]]:
        """The lines of a block that hold a needle, in their order.

        Args:
            block: whole lines.
            offset_of: the source's offset of a place in the block.

        Yields:
            Where the line starts, what is kept of it, and what may match it: each needle that it holds with
            the lines that have this needle, in the order of the formats.
        """
        may_hold = Grams(block).may_hold if len(block) >= _LARGE else block.__contains__
        found = [
            (fmt, at) for fmt, words in self._asleep if (at := _first(block, filter(may_hold, words))) >= 0
        ]
        if found:
            self.awake |= {fmt: offset_of(at) for fmt, at in found}
            self._gather()
        known = [entry for entry in self._trials.items() if may_hold(entry[0])]
        lines: dict[tuple[int, int], list[int]] = {}
        for rank, (needle, _) in enumerate(known):
            for line in _lines(block, needle):
                lines.setdefault(line, []).append(rank)
        for start, end in sorted(lines):
            kept, ranks = block[start:end], lines[start, end]
            if end - start > MAX_LINE:
                kept = ends_of(kept)
                ranks = [rank for rank in ranks if known[rank][0] in kept]
            yield start, kept, [known[rank] for rank in ranks]


def _spellings(*literals: bytes) -> set[bytes]:
    """Literals as they may stand in a log: in docker's JSON lines quotes and backslashes are escaped."""
    return {*literals, *(literal.replace(b"\\", b"\\\\").replace(b'"', b'\\"') for literal in literals)}


def _first(block: bytes, literals: Iterable[bytes]) -> int:
    """Where the first line that holds one of the literals starts, or -1."""
    return min((start for literal in literals if (start := _line_of(block, literal)) >= 0), default=-1)


def _line_of(block: bytes, literal: bytes) -> int:
    """Where the first line starts of which what is kept holds the literal, or -1."""
    lines = _lines(block, literal)
    return next((start for start, end in lines if literal in ends_of(block[start:end])), -1)


def _lines(block: bytes, literal: bytes) -> Iterator[tuple[int, int]]:
    """Where the lines that hold a literal start and end."""
    at = block.find(literal)
    while at >= 0:
        start, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
        end = end if end >= 0 else len(block)
        yield start, end
        at = block.find(literal, end)
