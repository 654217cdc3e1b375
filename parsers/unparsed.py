"""The shapes of lines that look like timings and that no format reads: what a new format would have to know.

A shape holds no text of a prompt. Only words that the formats' own literals and patterns hold are kept;
every other word, and whatever stands in quotes, is ``…``, and digits are ``N``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parsers.carriers import unwrap
from parsers.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from parsers.formats.base import Format
    from parsers.search import Trial

_UNITS = (
    "ms us ns s sec secs tok toks token tokens tps t eval throughput ttft tpot itl latency prefill decode id"
)
_PROSE = {
    *("the", "and", "for", "you", "not", "are", "was", "were", "with", "from", "that", "this"),
    *("have", "has", "had", "but", "can", "will"),
}
_DIGIT = re.compile(rb"\d")
_TELLING = re.compile(
    rb"(?i)\b(?:ms|tok/s|t/s|tokens?|eval|throughput|ttft|tpot|prefill|decode)\b|\dms\b|tokens?_|_tokens?"
)
_PART = re.compile(
    r"\"(?:[^\"\\]|\\.)*\"?|(?<!\w)'(?:[^'\\]|\\.)*'|`[^`]*`"  # quoted
    r"|[\w.-]*[/\\][\w./\\-]*\w[\w./\\-]*"  # paths, and rates such as tok/s
    r"|\w+|\s+|.",
    re.DOTALL,
)
_WORD = re.compile(r"[A-Za-z_]{1,24}")
_SLASHED = re.compile(r"[A-Za-z_]+/[A-Za-z_]+")
_NUMBER = re.compile(r"\d+(ms|us|s)?")
_NOT_LITERAL = re.compile(rb"\(\?P?[<(!=:][\w]*>?|\[(?:\\.|[^\]\\])*\]|\\.|\{\d[\d,]*\}")
_READ = 400
_LONGEST = 160
_MASK = "…"


def words_of(formats: Iterable[Format]) -> frozenset[str]:
    """The words of the formats' templates, in lower case: literals, and what patterns spell out."""
    texts: list[bytes] = []
    for fmt in formats:
        texts += fmt.identify
        texts += [part for line in fmt.lines for part in (line.needle, line.word)]
        texts += [_NOT_LITERAL.sub(b" ", line.pattern.pattern) for line in fmt.lines]
    words = {word.lower() for text in texts for word in _WORD.findall(text.decode("utf-8", "replace"))}
    return frozenset({word for word in words - _PROSE if len(word) > 2} | {*_UNITS.split()})


def shape_of(line: bytes, words: frozenset[str]) -> str:
    """A line without anything of its own: ``prompt eval time = N.N ms / N tokens``."""
    text = unwrap(line[:_READ]).body.decode("utf-8", "replace")
    parts: list[str] = []
    for match in _PART.finditer(text):
        part = _masked(match[0], words)
        if not (part == _MASK and [p for p in parts[-2:] if p.strip()][-1:] == [_MASK]):
            parts.append(part)
    shape = re.sub(r"…(?:[^\w…]{0,3}…)+", _MASK, re.sub(r"[ \t]+", " ", "".join(parts)))
    return shape.strip()[:_LONGEST]


def _masked(part: str, words: frozenset[str]) -> str:
    if part.isspace():
        return " "
    if number := _NUMBER.fullmatch(part):
        return f"N{number[1] or ''}"
    if _WORD.fullmatch(part):
        return part if part.lower() in words else _MASK
    if _SLASHED.fullmatch(part):
        return part if all(word.lower() in words for word in part.split("/")) else _MASK
    return part if len(part) == 1 and part.isascii() and part.isprintable() and not part.isalnum() else _MASK


@dataclass(slots=True)
class Seen:
    """How often a shape was seen, and where first."""

    count: int
    source: str
    line: int


class Shapes:
    """Counts shapes, the most frequent ones surely.

    When there are too many, those seen least are forgotten, so memory stays small.

    Attributes:
        lines: how many lines there were.
    """

    MOST = 2000

    def __init__(self, formats: Iterable[Format]) -> None:
        self.lines = 0
        self._words = words_of(formats)
        self._seen: dict[str, Seen] = {}

    def add(self, line: bytes, source: str, number: int) -> None:
        """Count a line that no format reads."""
        self.lines += 1
        shape = shape_of(line, self._words)
        if seen := self._seen.get(shape):
            seen.count += 1
            return
        if len(self._seen) >= self.MOST:
            kept = sorted(self._seen.items(), key=lambda item: -item[1].count)[: self.MOST // 2]
            self._seen = dict(kept)
        self._seen[shape] = Seen(1, source, number)

    def most(self, count: int) -> list[tuple[str, Seen]]:
        """The shapes seen most, and of those seen alike often the first."""
        return sorted(self._seen.items(), key=lambda item: -item[1].count)[:count]

    def __len__(self) -> int:
        return len(self._seen)


class DebugStream(Stream):
    """A stream that also counts the shapes of what it can't read. It looks at every line, so it is slower."""

    def __init__(
        self, source: str, *, engine: str | None, year: int, formats: Sequence[Format], shapes: Shapes
    ) -> None:
        super().__init__(source, engine=engine, year=year, formats=formats)
        self._shapes = shapes
        self._read: set[int] = set()
        self._tried: set[int] = set()

    def _line(
        self, raw: bytes, found: list[tuple[bytes, list[Trial]]], clean: bool, number: int, offset: int
    ) -> None:
        before = self.matched.total()
        super()._line(raw, found, clean, number, offset)
        (self._read if self.matched.total() > before else self._tried).add(number)

    def _whole_lines(self, block: bytes, lines: int, size: int) -> None:
        first = self._newlines + 1
        super()._whole_lines(block, lines, size)
        for number, line in _numbered(block, first):
            if number not in self._read and (number in self._tried or _is_telling(line[:_READ])):
                self._shapes.add(line, self.source, number)
        self._read.clear()
        self._tried.clear()


def _is_telling(line: bytes) -> bool:
    return _DIGIT.search(line) is not None and _TELLING.search(line) is not None


def _numbered(block: bytes, first: int) -> Iterator[tuple[int, bytes]]:
    lines = block.split(b"\n")
    return enumerate(lines if lines[-1] else lines[:-1], first)
