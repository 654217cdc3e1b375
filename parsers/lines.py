"""A line of a log, as patterns are tried on it: bare, out of its wrapping, and without its indentation."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from parsers.carriers import Carried, unwrap

if TYPE_CHECKING:
    from collections.abc import Container

    from parsers.formats.base import Format, Line


_INDENTS = (b" ", b"\t")


def has_parts(line: bytes) -> bool:
    """Whether carriage returns part the line, so that the needle says which part of it is read."""
    return b"\r" in line or (b"\\" in line and (b"\\r" in line or b"\\u000" in line))


def unindented(line: bytes) -> tuple[bytes, ...]:
    """The line, and without its indentation where it has one."""
    return (line, line.lstrip(b" \t")) if line[:1] in _INDENTS else (line,)


def texts_of(line: bytes, needle: bytes, plain: bool) -> list[Carried]:
    """The line unwrapped, with its indentation and without."""
    texts: list[Carried] = []
    for given in unindented(line):
        text = unwrap(given, needle, plain=plain)
        if not texts or text != texts[-1]:
            texts.append(text)
            if text.body[:1] in _INDENTS and not text.more:
                texts.append(Carried(text.body.lstrip(b" \t"), text.label, text.time))
    return texts


def identifying(fmt: Format, raw: bytes, plain: bool, held: Container[bytes]) -> Carried | None:
    """The text of a line that holds one of a format's literals, if the line is one of its engine's.

    Args:
        fmt: the format.
        raw: the line.
        plain: it holds no escape, no carriage return and nothing `UNUSUAL`.
        held: which needles its block may hold.
    """
    banner, by_needle = _tests(fmt)
    escapes = b"\\" in raw
    if plain and not (b"{" in raw and b'"' in raw):  # it is unwrapped to a part of what it is
        by_needle = [
            (needle, lines)
            for needle, lines in by_needle
            if (needle in held and needle in raw) or (escapes and b'"' in needle)
        ]
        if not by_needle and banner is None:
            return None
    tests = banner, by_needle, escapes
    if _is_its(raw, *tests):
        return Carried(raw)
    for needle in fmt.identify if has_parts(raw) else fmt.identify[:1]:
        for text in texts_of(raw, needle, plain):
            bodies = (one for body in (text.body, *text.more) for one in unindented(body) if one != raw)
            if any(_is_its(body, *tests) for body in bodies):
                return text
    return None


@lru_cache(maxsize=1024)
def _tests(fmt: Format) -> tuple[re.Pattern[bytes] | None, list[tuple[bytes, list[Line]]]]:
    """A format's banner, and its lines by their needles."""
    by_needle: dict[bytes, list[Line]] = {}
    for line in fmt.lines:
        by_needle.setdefault(line.needle, []).append(line)
    return None if fmt.banner is None else re.compile(fmt.banner), list(by_needle.items())


def _is_its(
    body: bytes, banner: re.Pattern[bytes] | None, by_needle: list[tuple[bytes, list[Line]]], escapes: bool
) -> bool:
    """Whether the body is a banner or a line of the format's; escapes may hide a needle."""
    if banner is not None and banner.match(body):
        return True
    return any(
        line.word in body and line.pattern.match(body)
        for needle, lines in by_needle
        if needle in body or (escapes and b'"' in needle)
        for line in lines
    )
