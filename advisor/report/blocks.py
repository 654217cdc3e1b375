"""What pages for a terminal are made of: titles, indents, tables, the phase bar."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from advisor.report.page import Part

_MAX_WIDTH = 100
COLOURS = {
    "queue": "magenta",
    "load": "blue",
    "prefill": "yellow",
    "decode": "cyan",
    "other": "bright_black",
}


def standard_console() -> Console:
    """Standard output, at most 100 columns wide."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = min(console.width, _MAX_WIDTH)
    return console


def is_unicode(console: Console) -> bool:
    """Whether it takes any character."""
    return console.encoding.lower().startswith("utf")


def put(console: Console, blocks: Sequence[RenderableType]) -> None:
    """Print a page; what is not a terminal gets no trailing blanks."""
    if console.is_terminal:
        console.print(*blocks, sep="\n")
        return
    with console.capture() as page:
        console.print(*blocks, sep="\n")
    console.file.write(re.sub(r" +$", "", page.get(), flags=re.MULTILINE))


def title(words: str) -> Text:
    """A heading."""
    return Text(words.upper(), style="bold underline")


def indented(block: RenderableType, left: int = 2) -> Padding:
    """A block moved to the right."""
    return Padding(block, (0, 0, 0, left))


def hanging(mark: str, words: str, style: str = "") -> Table:
    """Words whose further lines stand under the first, after the mark."""
    grid = Table.grid(padding=0)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(mark), Text(words, style=style))
    return grid


def drawn_bar(parts: list[Part]) -> Group | None:
    """The phase bar and its legend; None without parts."""
    if not parts:
        return None
    line = Text.assemble(*((part.glyph * part.cells, COLOURS[part.phase]) for part in parts))
    legend = Text("   ").join(_legend(part) for part in parts)
    return Group(line, legend)


def _legend(part: Part) -> Text:
    legend = Text(part.legend)
    legend.stylize(COLOURS[part.phase], 0, len(part.glyph))
    return legend


def table(rows: Sequence[tuple[str, ...]]) -> Table:
    """Rows with the first column to the left and the others to the right; the header first."""
    grid = Table.grid(padding=(0, 2))
    for index in range(len(rows[0])):
        grid.add_column(justify="left" if index == 0 else "right", no_wrap=True)
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    return grid
