"""A line of a log, as patterns are tried on it: bare, out of its wrapping, and without its indentation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from parsers.carriers import Carried, unwrap

if TYPE_CHECKING:
    from parsers.formats.base import Format


def has_parts(line: bytes) -> bool:
    """Whether carriage returns part the line, so that the needle says which part of it is read."""
    return b"\r" in line or b"\\r" in line or b"\\u000" in line


def unindented(line: bytes) -> tuple[bytes, ...]:
    """The line, and without its indentation where it has one."""
    return (line, line.lstrip(b" \t")) if line[:1] in (b" ", b"\t") else (line,)


def texts_of(line: bytes, needle: bytes, plain: bool) -> list[Carried]:
    """The line unwrapped, with its indentation and without."""
    texts: list[Carried] = []
    for given in unindented(line):
        text = unwrap(given, needle, plain=plain)
        texts.append(text)
        if text.body[:1] in (b" ", b"\t") and not text.more:
            texts.append(text._replace(body=text.body.lstrip(b" \t")))
    return texts


def identifying(fmt: Format, raw: bytes, plain: bool) -> Carried | None:
    """The text of a line that holds one of a format's literals, if the line is one of its engine's."""
    escapes = b"\\" in raw
    if _is_its(fmt, raw, escapes):
        return Carried(raw)
    for needle in fmt.identify if has_parts(raw) else fmt.identify[:1]:
        for text in texts_of(raw, needle, plain):
            bodies = (one for body in (text.body, *text.more) for one in unindented(body))
            if any(_is_its(fmt, body, escapes) for body in bodies):
                return text
    return None


def _is_its(fmt: Format, body: bytes, escapes: bool) -> bool:
    """Whether the body is a banner or a line of the format's; escapes may hide a needle."""
    if fmt.banner is not None and re.match(fmt.banner, body):
        return True
    return any(
        (line.needle in body or (escapes and b'"' in line.needle))
        and line.word in body
        and line.pattern.match(body)
        for line in fmt.lines
    )
