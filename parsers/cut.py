"""Lines too long to keep: their two ends are, and of a JSON object what can be read from them.

Servers print whole prompts. An answer as a client logs it may hold one, with what was measured behind it,
so of such a line the middle is left out. A newline stands there instead, which few patterns can cross.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_LINE = 1 << 16
"""How much of a line literals are looked for and patterns tried in; prompt dumps may be megabytes long."""

_END = MAX_LINE // 2
_KEPT = MAX_LINE + 2
_MOST_MEMBERS = 64
_GAP = b"\n"


def ends_of(line: bytes) -> bytes:
    """The line without its newline, or both ends of one that is too long."""
    return line if len(line) <= MAX_LINE else line[:_END] + _GAP + line[-_END:]


def drop_middle(torn: bytearray) -> None:
    """Take out of a line that is still growing what `ends_of` will never return."""
    if len(torn) > 2 * _KEPT:
        del torn[_END : len(torn) - (_KEPT - _END)]


def json_object(text: bytes) -> dict[str, Any] | None:
    """The object that a line is, or those members of it that stand whole at its ends."""
    head, gap, tail = text.partition(_GAP)
    if not gap:
        return _object(text)
    before = _longest(head[:at] + b"}" for at in _members(head)[:_MOST_MEMBERS])
    after = _longest(b"{" + tail[at + 1 :] for at in reversed(_members(tail)[-_MOST_MEMBERS:]))
    return before | after if after else None


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _longest(pieces: Iterable[bytes]) -> dict[str, Any]:
    """The last of ever longer pieces that is an object."""
    found: dict[str, Any] = {}
    for piece in pieces:
        found = _object(piece) or found
    return found


def _members(text: bytes) -> list[int]:
    """Where members of an object may begin: the commas before them."""
    return [found.start() for found in re.finditer(rb',[ \t]*"', text)]
