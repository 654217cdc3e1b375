"""How far a pattern matches a line: where a format's author has to look."""

from __future__ import annotations

import re
from typing import NamedTuple

_DEEPEST = 4


class Partial(NamedTuple):
    """The longest part of a pattern that matches.

    Attributes:
        pattern: how many characters of the pattern that is.
        line: how many characters of the line it takes.
    """

    pattern: int
    line: int


def longest(pattern: str, line: str) -> Partial:
    """The longest beginning of a pattern that matches at the start of the line."""
    for end in range(len(pattern), 0, -1):
        if (match := _match(pattern[:end], line)) is not None:
            return Partial(end, match.end())
    return Partial(0, 0)


def _match(pattern: str, line: str) -> re.Match[str] | None:
    """Groups that the cut left open are closed; a cut that is no expression is no match."""
    if pattern.endswith(("|", "(", "(?:")):
        return None
    for depth in range(_DEEPEST):
        try:
            return re.match(pattern + ")" * depth, line)
        except (re.error, RecursionError, OverflowError):
            continue
    return None
