"""A request's raw log lines: what was read of them, with the values marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
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
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(justify="right", style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for line in raw.lines:
        grid.add_row(Text(str(line.number)), _marked(line))
    return Group(grid, *(Text(f"… {said}", style="dim") for said in _left_out(raw, last)))


def _marked(line: RawLine) -> Text:
    text = Text(line.text)
    for start, end in line.marks:
        text.stylize(_VALUE, start, end)
    return text


def _left_out(raw: Raw, last: int) -> list[str]:
    said = []
    if len(raw.lines) >= MOST_LINES:
        said.append(f"only its first {MOST_LINES} lines are shown")
    if raw.unread:
        they = "it" if raw.unread == 1 else "they"
        said.append(f"{plural(raw.unread, 'line')} not read, and never shown: {they} may hold a prompt")
    if raw.others:
        said.append(f"{plural(raw.others, 'line')} of other requests or of none")
    if raw.reached < last:
        said.append(f"its lines from {raw.reached + 1:,} to {last:,} are too far away to be looked at")
    return said
