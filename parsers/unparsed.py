"""The shapes of lines that look like timings and that no format reads: what a new format would have to know.

A shape holds no text of a prompt. Only words are kept that stand in the order in which one line of a format
holds them, the field's own words, and names with an underscore that formats know. Everything else, and
whatever stands in quotes, is ``…``, and digits are ``N``. Signs are kept one at a time, beside what is kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from parsers.carriers import unwrap
from parsers.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from parsers.formats.base import Format
    from parsers.stream import Taken

_FIELDS = {
    *("ms", "us", "ns", "sec", "secs", "tok", "toks", "token", "tokens", "tps", "per", "second", "seconds"),
    *("eval", "throughput", "ttft", "tpot", "itl", "latency", "prefill", "decode"),
}
"""The words of the field that say nothing else; kept wherever they stand."""
_UNITS = _FIELDS | {"s", "t"}
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
    r"|\w+|\s+|[^\w\s]+",
    re.DOTALL,
)
_WORD = re.compile(r"[A-Za-z_]{1,24}")
_SLASHED = re.compile(r"[A-Za-z_]+/[A-Za-z_]+")
_NUMBER = re.compile(r"\d+(ms|us|s)?")
_NOT_LITERAL = re.compile(rb"\(\?P?[<(!=:][\w]*>?|\[(?:\\.|[^\]\\])*\]|\\.|\{\d[\d,]*\}")
_SIGNS = {*"[]():=,.|/-%", "):", "),", "]:", "],"}
_READ = 400
_LONGEST = 160
_MASK = "…"


class Vocabulary:
    """What the formats' own lines say: the words of each, in their order and in lower case.

    Attributes:
        words: all of them, and those of the field.
    """

    def __init__(self, formats: Iterable[Format]) -> None:
        texts: list[bytes] = []
        for fmt in formats:
            texts += fmt.identify
            texts += [part for line in fmt.lines for part in (line.needle, line.word)]
            texts += [_NOT_LITERAL.sub(b" ", line.source) for line in fmt.lines]
        self._templates = {words: frozenset(words) for text in texts if (words := _words_in(text))}
        self.words = frozenset().union(_UNITS, *self._templates)
        self.in_order = lru_cache(maxsize=4096)(self._in_order)

    def _in_order(self, words: tuple[str, ...]) -> frozenset[int]:
        """Which of a line's words to keep: the most that one template holds in the same order.

        None where that is less than half of them: the line is not a template's kind.
        """
        given, best = set(words), list[int]()
        ranked = sorted(self._templates.items(), key=lambda item: -len(item[1] & given))
        for template, held in ranked:
            if sum(word in held for word in words) <= len(best):
                continue
            common = _common(words, template)
            best = common if len(common) > len(best) else best
        return frozenset(best if 2 * len(best) >= len(words) else ())


def _words_in(text: bytes) -> tuple[str, ...]:
    words = (word.lower() for word in _WORD.findall(text.decode("utf-8", "replace")))
    return tuple(word for word in words if (len(word) > 2 or word == "id") and word not in _PROSE | _FIELDS)


def _common(words: tuple[str, ...], template: tuple[str, ...]) -> list[int]:
    """Where the words of the longest common subsequence stand."""
    ends: list[list[int]] = [[] for _ in range(len(template) + 1)]
    for at, word in enumerate(words):
        before = ends
        ends = [[]]
        for i, known in enumerate(template):
            if word == known:
                ends.append([*before[i], at])
            else:
                ends.append(max(before[i + 1], ends[i], key=len))
    return ends[-1]


def shape_of(line: bytes, vocabulary: Vocabulary) -> str:
    """A line without anything of its own: ``prompt eval time = N.N ms / N tokens``."""
    text = unwrap(line[:_READ]).body.decode("utf-8", "replace")
    parts = [match[0] for match in _PART.finditer(text)]
    plain = [at for at, part in enumerate(parts) if _is_plain(part, vocabulary)]
    kept = vocabulary.in_order(tuple(parts[at].lower() for at in plain))
    shown = {plain[i] for i in kept}
    said = [part if at in shown else _said(part, vocabulary.words) for at, part in enumerate(parts)]
    told = [_sign(said, at) if said[at] in _SIGNS else said[at] for at in range(len(said))]
    shape = re.sub(r"…(?:[^\w…]{0,3}…)+", _MASK, re.sub(r"[ \t]+", " ", "".join(told)))
    return shape.strip()[:_LONGEST]


def _is_plain(part: str, vocabulary: Vocabulary) -> bool:
    """A word that formats know and that people use too."""
    known = _WORD.fullmatch(part) is not None and part.lower() in vocabulary.words
    return known and "_" not in part and part.lower() not in _UNITS


def _said(part: str, words: frozenset[str]) -> str:
    """What is shown of a part whatever stands around it."""
    if part.isspace():
        return " "
    if number := _NUMBER.fullmatch(part):
        return f"N{number[1] or ''}"
    if _WORD.fullmatch(part):
        return part if part.lower() in _FIELDS or ("_" in part and part.lower() in words) else _MASK
    if _SLASHED.fullmatch(part):
        return part if all(word.lower() in _UNITS for word in part.split("/")) else _MASK
    return part if part in _SIGNS else _MASK


def _sign(said: list[str], at: int) -> str:
    """A sign, if what stands before or after it is shown."""
    before = next((part for part in reversed(said[:at]) if part != " "), _MASK)
    after = next((part for part in said[at + 1 :] if part != " "), _MASK)
    beside = [part for part in (before, after) if part != _MASK and part not in _SIGNS]
    return said[at] if beside else _MASK


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
        self._vocabulary = Vocabulary(formats)
        self._seen: dict[str, Seen] = {}

    def add(self, line: bytes, source: str, number: int) -> None:
        """Count a line that no format reads."""
        self.lines += 1
        shape = shape_of(line, self._vocabulary)
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
        self, source: str, *, engine: str | None, latest: datetime, formats: Sequence[Format], shapes: Shapes
    ) -> None:
        super().__init__(source, engine=engine, latest=latest, formats=formats, watch=self._seen)
        self._shapes = shapes

    def _seen(self, number: int, line: bytes, taken: list[Taken] | None) -> None:
        line = line.removesuffix(b"\n")
        if not taken and (taken is not None or _is_telling(line[:_READ])):
            self._shapes.add(line, self.source, number)


def _is_telling(line: bytes) -> bool:
    return _DIGIT.search(line) is not None and _TELLING.search(line) is not None
