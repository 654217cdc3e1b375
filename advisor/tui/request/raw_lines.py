"""A request's raw log lines: what was read of them, with the values marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from advisor.live.raw import MOST_LINES
from rules.words import plural

if TYPE_CHECKING:
    from advisor.live.raw import Raw, RawLine

_VALUE = "bold underline"


def drawn(raw: Raw, last: int) -> Group:
    """The lines, and what is left out.

    Args:
        raw: the lines.
        last: the request's last timing line.
    """
    if raw.problem:
        return Group(Text(raw.problem))
    width = len(str(raw.lines[-1].number)) if raw.lines else 1
    lines = [_line(line, width) for line in raw.lines]
    return Group(*lines, *(Text(f"… {said}", style="dim") for said in _left_out(raw, last)))


def _line(line: RawLine, width: int) -> Text:
    text = Text(f"{line.number:>{width}}  ", no_wrap=True, overflow="ellipsis")
    text.stylize("dim")
    shift = len(text)
    text.append(line.text)
    for start, end in line.marks:
        text.stylize(_VALUE, shift + start, shift + end)
    return text


def _left_out(raw: Raw, last: int) -> list[str]:
    said = []
    if len(raw.lines) >= MOST_LINES:
        said.append(f"only its first {MOST_LINES} lines are shown")
    if raw.unread:
        said.append(f"{plural(raw.unread, 'line')} not read, and never shown: they may hold a prompt")
    if raw.others:
        said.append(f"{plural(raw.others, 'line')} of other requests or of none")
    if raw.reached < last:
        said.append(f"its lines from {raw.reached + 1:,} to {last:,} are too far away to be looked at")
    return said
