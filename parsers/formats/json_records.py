"""Objects in a line of JSON and what they hold: nested parts, numbers, times of day."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, TypeVar

from parsers.cut import json_object
from parsers.documents.base import HEAD, has
from parsers.formats.base import At
from parsers.formats.clocks import at_epoch
from parsers.times import parse_iso

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

BODY = rb"(?:data: ?)?(?P<body>(?:\[\s*)?\{(?s:.*)\}(?:\s*\])?)\s*,?$"
"""A line that is an object or an array of them, as clients log it or as a stream's event.

A line with it wants a key in quotes as its ``word``: in a container's JSON those quotes are escaped, and the
container's own object is not tried.
"""

LONGEST_MS = 86_400_000.0 * 7
"""A request takes no week: a larger number is a time of day, or counts from the machine's start."""

NOWHERE = At(0, 0, None, b"", 0)
"""The place of a document's row, which its reader fills in."""

_OBJECT = re.compile(rb'\s*(?:\[\s*)?\{\s*"')
"""How an object or an array of them begins; a bracket may also begin a line of a log."""

_REMEMBERED = 1024
_Known = TypeVar("_Known")


def records(text: bytes) -> list[dict[str, Any]]:
    """The object that a line is, or the objects of its array; of an array too long to keep, none."""
    if not text.startswith(b"["):
        found = json_object(text)
        return [] if found is None else [found]
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [value for value in values if isinstance(value, dict)]


def objects_at_ends(text: bytes, opening: bytes) -> Iterator[dict[str, Any]]:
    """Whole objects in a line that was cut, which begin with ``opening``."""
    decoder = json.JSONDecoder()
    for end in text.split(b"\n"):
        piece = end.decode("utf-8", "replace")
        at = piece.find(opening.decode())
        while at >= 0:
            try:
                value, at = decoder.raw_decode(piece, at)
            except (ValueError, RecursionError):
                at += 1
            else:
                if isinstance(value, dict):
                    yield value
            at = piece.find(opening.decode(), at)


def is_spread(head: bytes, *keys: str) -> bool:
    """Whether a source with these keys begins with JSON that is no line a log would be read by.

    It is printed over many lines, or its first line is longer than what is kept of a line.
    """
    first, ended, _ = head.lstrip().partition(b"\n")
    is_long = not ended and len(head) >= HEAD
    spread = is_long or not first.rstrip().endswith((b"}", b"]"))
    return spread and _OBJECT.match(head) is not None and has(head, *keys)


def part(values: dict[str, Any], *path: str) -> dict[str, Any]:
    """The object at a path of keys; an empty one where there is none."""
    for key in path:
        value = values.get(key)
        if not isinstance(value, dict):
            return {}
        values = value
    return values


def number(values: dict[str, Any], key: str) -> float | None:
    """A finite number, also one that is written as a string; ``None`` for all else."""
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if abs(found) != float("inf") and found == found else None


def moment(value: object) -> datetime | None:
    """A time of day: ISO 8601, as UTC where it names no zone, or seconds since 1970."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return at_epoch(value) if value > 0 else None
    if not isinstance(value, str):
        return None
    text = value.encode("utf-8", "replace")
    return parse_iso(text) or parse_iso(text + b"Z")


def is_span(ms: float | None) -> bool:
    """True for a duration that a request can have."""
    return ms is not None and 0 <= ms <= LONGEST_MS


def remember(known: dict[str, _Known], key: str, value: _Known) -> _Known | None:
    """Keep one more; the oldest where it had to go."""
    known[key] = value
    return known.pop(next(iter(known))) if len(known) > _REMEMBERED else None
