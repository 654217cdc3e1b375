"""What may be shown of a line that a pattern read: the pattern's own words, and the values it took.

A line may hold a prompt or an answer beside what was read of it: behind the match, where the pattern takes
anything, or inside JSON that was taken whole. Such text is ``…``.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from advisor.redact import clean
from parsers.cut import MAX_LINE

if TYPE_CHECKING:
    Spans: TypeAlias = tuple[tuple[int, int], ...]
    Piece: TypeAlias = tuple[str, bool]

_MASK = "…"
_WHOLE = {"text", "body", "json", "values", "arguments", "rest", "fields", "input", "key_values"}
"""Groups that take whatever stands there: of them only numbers that have a name are shown."""

_NUMBER = re.compile(r"[-+]?\d[\d.,:]*(?:e[-+]?\d+)?\s?(?:%|[A-Za-zµ]{1,3}(?:/s)?)?", re.IGNORECASE)
_NAME = re.compile(r"[^\s\"'`{}\[\]()\\]{1,120}")
_VALUE = r"(?P<value>-?\d[\d.]*(?:e[-+]?\d+)?)(?![\w.])"
_MEMBER = re.compile(
    rf"""(?:"(?P<json>(?:\\.|[^"\\])*)"|'(?P<repr>(?:\\.|[^'\\])*)')(?:\s?:\s?{_VALUE})?"""
    rf"""|["'].*|(?P<bare>\#?[A-Za-z][\w -]{{0,40}}?)\s?[=:]\s?{_VALUE.replace("value", "number")}"""
)
"""A text in quotes is gone over as a whole, and so is all behind a quote that none closes."""

_MEASURED = re.compile(r"(?<![\w.])(?P<value>\d[\d.]*)(?P<unit> ?(?:ms|s|seconds|tok\w*/s\w*|T/s|tokens?)\b)")
_ENGINES = {"rest": _MEASURED, "fields": _MEASURED}
"""Groups that take what only engines write: there a number is known by its unit too."""

_COUNTED = re.compile(
    r"(?i)(?:^|[_ #-])(?:ms|n|s|tokens?|throughput|time|duration|count|seconds?|second|req|seq)$"
)
_WORD = re.compile(r"\w+")
_FIELDS = {*("ms", "s", "us", "per", "second", "token", "tokens", "tok", "t", "runs")}
_HEAD = re.compile(r"\s*(?:[IWED] +)?(?:(?:slot|srv|cmn|que|res) +[A-Za-z_]+(?:\(\))? *:)?")
"""llama.cpp's level and the names of its functions: patterns take any, but only engines write them there."""


class Said(NamedTuple):
    """A line as it may be shown.

    Attributes:
        text: of what its container's prefix and clock were taken off.
        marks: where the values stand that were read.
    """

    text: str
    marks: Spans


def said(match: re.Match[bytes]) -> Said:
    """What may be shown of a line that was read; texts in it are not redacted yet."""
    stretches = _stretches(match)
    heads = {0, *(end for start, end, name in stretches if not start and name == "clock")}
    parts = [_before_end(match, *one, is_head=one[0] in heads) for one in stretches]
    rest = clean(match.string[match.end() :].decode("utf-8", "replace"))
    words = {word.lower() for word in _WORD.findall(rest) if not word.isdigit()}
    parts.append([(rest if words <= _FIELDS else f" {_MASK}", False)] if rest.strip() else [])
    return _joined([piece for part in parts for piece in part])


def _stretches(match: re.Match[bytes]) -> list[tuple[int, int, str | None]]:
    """What was matched, cut where its groups begin and end, each with the name of the innermost group."""
    names = {number: name for name, number in match.re.groupindex.items()}
    spans = [
        (*match.span(group), names.get(group, ""))
        for group in range(1, match.re.groups + 1)
        if match.end(group) > match.start(group) >= 0
    ]
    cuts = sorted({0, match.end(), *(at for start, end, _ in spans for at in (start, end))})
    return [
        (start, end, min(inside)[1] if (inside := _around(spans, start, end)) else None)
        for start, end in pairwise(cuts)
    ]


def _around(spans: list[tuple[int, int, str]], start: int, end: int) -> list[tuple[int, str]]:
    """The groups around a stretch, each with its size."""
    return [(last - first, name) for first, last, name in spans if first <= start and end <= last]


def _before_end(
    match: re.Match[bytes], start: int, end: int, group: str | None, *, is_head: bool
) -> list[Piece]:
    text = clean(match.string[start:end].decode("utf-8", "replace"))
    if group is None:
        head = found[0] if is_head and (found := _HEAD.match(text)) else ""
        return [(head + _between(text[len(head) :], match.re), False)]
    if group in _WHOLE:
        return _members(text, _ENGINES.get(group))
    if _NUMBER.fullmatch(text) or (group and _NAME.fullmatch(text)):
        return [(text, True)]
    return [(text, True) if _is_spelled(text, match.re) else (_MASK, False)]


def _is_spelled(text: str, pattern: re.Pattern[bytes]) -> bool:
    """Whether a group took only what its pattern spells out."""
    return all(word.isdigit() or word.lower() in _own_words(pattern) for word in _WORD.findall(text))


def _members(text: str, measured: re.Pattern[str] | None) -> list[Piece]:
    """Of JSON, or of fields, the numbers whose names or units say that they are times or counts."""
    if len(text) > MAX_LINE // 2:
        return [(_MASK, False)]
    named = []
    for one in _MEMBER.finditer(text):
        name, value = one["json"] or one["repr"] or one["bare"], one["value"] or one["number"]
        if name and value and _COUNTED.search(name):
            named.append((one.start("value" if one["value"] else "number"), f"{name}: ", value, ""))
    places = {at for at, *_ in named}
    united = [
        (one.start("value"), "", one["value"], one["unit"])
        for one in (measured.finditer(text) if measured else ())
        if one.start("value") not in places
    ]
    parts: list[Piece] = [(_MASK, False)]
    for _, name, value, unit in sorted(named + united):
        parts += [(f" {name}", False), (value, True), (f"{unit} {_MASK}", False)]
    return parts


def _between(text: str, pattern: re.Pattern[bytes]) -> str:
    """What the pattern spells out itself, each word as often as it does; what else it lets pass is hidden."""
    left = Counter(_own_words(pattern))

    def word(found: re.Match[str]) -> str:
        lower = found[0].lower()
        if lower.isdigit():
            return found[0]
        left[lower] -= 1
        return found[0] if left[lower] >= 0 or lower in _FIELDS else _MASK

    return re.sub(rf"{_MASK}(?:\W{{0,3}}{_MASK})+", _MASK, _WORD.sub(word, text))


@lru_cache(maxsize=4096)
def _own_words(pattern: re.Pattern[bytes]) -> dict[str, int]:
    """How often each word stands in a pattern."""
    spelled = re.sub(r"\(\?P<\w+>|\\[A-Za-z]", " ", pattern.pattern.decode("utf-8", "replace"))
    return dict(Counter(word.lower() for word in _WORD.findall(spelled)))


def _joined(pieces: list[Piece]) -> Said:
    text, marks = "", []
    for piece, is_value in pieces:
        if is_value:
            marks.append((len(text), len(text) + len(piece)))
        text += piece
    return Said(text, tuple(marks))
