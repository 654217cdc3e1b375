"""A line that a pattern matches, masked so that it still does, with the same groups."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from advisor.anonymize.vocabulary import PIECE, words_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from parsers.stream import Taken

_WORD = re.compile(r"\w+")
_CLOCK = re.compile(r"\d+\.\d\d\.\d{3}\.\d{3}")
"""llama.cpp's, which may look like an address."""

_DIGIT = re.compile(r"\d")
_FOREIGN = re.compile(r"[^\x00-\x7f\w]+")
_TELLING = re.compile(r"[^\W\d_]\w+|\d{3,}")
_IN_QUOTES = re.compile(r"\"[^\"]{2,}\"|(?<!\w)'[^']{2,}'(?!\w)")


class _Part(NamedTuple):
    """A stretch of a line: between two ends of groups, whether inside of one, and what it becomes."""

    start: int
    masked: str
    is_captured: bool


class Matched:
    """Masks lines by what matched them.

    Args:
        captured: masks what a group took.
        number: a number for a text.
        shown: masks addresses and names.
        strict: take it that readers look at groups alone, unless their methods say that they don't.
    """

    def __init__(
        self,
        captured: Callable[[str], str],
        number: Callable[[str], int],
        shown: Callable[[str], str],
        *,
        strict: bool,
    ) -> None:
        self._strict = strict
        self._captured = captured
        self._number = number
        self._shown = shown

    def masked(self, taken: Taken) -> str:
        """The line that was read."""
        match = taken.match
        parts = self._parts(taken)
        if not _fits(taken, parts):
            parts = [
                part if part.is_captured else part._replace(masked=self._captured(_slice(match, parts, at)))
                for at, part in enumerate(parts)
            ]
        elif self._says_more(taken, parts) or any(
            _IN_QUOTES.search(p.masked) for p in parts if not p.is_captured
        ):
            parts = self._reduced(taken, parts)
        return "".join(part.masked for part in parts)

    def _parts(self, taken: Taken) -> list[_Part]:
        match, words = taken.match, _own_words(taken.match.re)
        spans = [span for at in range(1, match.re.groups + 1) if (span := match.span(at)) != (-1, -1)]
        size = len(match.string)
        clock = match.span("clock") if "clock" in match.re.groupindex else None
        if not spans or not self._strict or _reads_all(taken):
            spans.append((0, size))
        cuts = sorted({0, match.end(), size, *(at for span in spans for at in span)})
        parts = []
        for start, end in pairwise(cuts):
            text = match.string[start:end].decode("utf-8", "replace")
            if (start, end) == clock and _CLOCK.fullmatch(text):
                parts.append(_Part(start, text, True))
            elif any(first <= start and end <= last for first, last in spans):
                parts.append(_Part(start, self._captured(text), True))
            else:
                inside = start < match.end()
                said = _WORD.sub(partial(self._word, words if inside else frozenset()), self._shown(text))
                said = said if inside else _FOREIGN.sub("x", _DIGIT.sub("0", said))
                parts.append(_Part(start, said, False))
        return parts

    def _word(self, kept: frozenset[str], found: re.Match[str]) -> str:
        word = found[0]
        lower = word.lower()
        if word.isdigit() or lower in kept:
            return word
        pieces = PIECE.findall(word)
        if all(piece.isdigit() or piece == "_" or piece.lower() in kept for piece in pieces):
            return word
        if any(c.isdigit() for c in word):
            return f"x{self._number(word)}"
        return "X" if word[0].isupper() else "x"

    def _says_more(self, taken: Taken, parts: list[_Part]) -> bool:
        """Whether the pattern's own words stand in the line more often than in the pattern."""
        said = Counter(
            word.lower()
            for part in parts
            if not part.is_captured
            for word in _WORD.findall(part.masked)
            if word.isalpha() and word not in {"x", "X"}
        )
        return bool(said - _own_counts(taken.match.re))

    def _reduced(self, taken: Taken, parts: list[_Part]) -> list[_Part]:
        """Without the words and long numbers that the pattern does without."""
        for at, part in enumerate(parts):
            if part.is_captured:
                continue
            words = [m.span() for m in _TELLING.finditer(part.masked)]
            stack = [words] if words else []
            while stack:
                tried = stack.pop()
                text = _crossed(parts[at].masked, tried)
                changed = [*parts[:at], part._replace(masked=text), *parts[at + 1 :]]
                if _fits(taken, changed):
                    parts = changed
                elif len(tried) > 1:
                    half = len(tried) // 2
                    stack += [tried[:half], tried[half:]]
        return parts


def _crossed(text: str, spans: list[tuple[int, int]]) -> str:
    signs = list(text)
    for start, end in spans:
        signs[start:end] = ("0" if text[start].isdigit() else "x") * (end - start)
    return "".join(signs)


def _slice(match: re.Match[bytes], parts: list[_Part], at: int) -> str:
    end = parts[at + 1].start if at + 1 < len(parts) else len(match.string)
    return match.string[parts[at].start : end].decode("utf-8", "replace")


def _fits(taken: Taken, parts: list[_Part]) -> bool:
    """Whether the pattern matches the masked parts, and its groups take the same of them."""
    said = [part.masked.encode("utf-8", "replace") for part in parts]
    moved, at = {}, 0
    for part, text in zip(parts, said, strict=True):
        moved[part.start] = at
        at += len(text)
    moved[len(taken.match.string)] = at
    line, old = b"".join(said), taken.match
    if taken.trial.word not in line or not any(needle in line for needle in _needles(taken)):
        return False
    match = taken.trial.match(line)
    if match is None:
        return False
    return all(
        match.span(group) == tuple(moved.get(place, -1) for place in old.span(group))
        for group in range(1, old.re.groups + 1)
    )


@lru_cache(maxsize=4096)
def _own_words(pattern: re.Pattern[bytes]) -> frozenset[str]:
    return frozenset(words_of([pattern.pattern.decode("utf-8", "replace")]))


@lru_cache(maxsize=4096)
def _own_counts(pattern: re.Pattern[bytes]) -> Counter[str]:
    return Counter(word.lower() for word in _WORD.findall(pattern.pattern.decode("utf-8", "replace")))


def _needles(taken: Taken) -> list[bytes]:
    return [line.needle for line in taken.trial.format.lines if line.pattern is taken.match.re]


def _reads_all(taken: Taken) -> bool:
    """Whether the reader's method looks at the whole line, not at its groups alone."""
    code = getattr(getattr(taken.trial.format.reader, taken.trial.name, None), "__code__", None)
    return code is None or "body" in code.co_names
