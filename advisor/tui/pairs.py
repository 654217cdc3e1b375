"""Names and values, in as many columns as there is room for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, ConsoleOptions, RenderResult

_LEAST_WIDTH, _GAP = 34, 3


class Pairs:
    """Draws pairs of a name and a value.

    Args:
        pairs: in the order they are read, down the first column first.
    """

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._pairs = pairs

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = max((options.max_width + _GAP) // (_LEAST_WIDTH + _GAP), 1)
        down = -(-len(self._pairs) // columns)
        table = Table.grid(padding=(0, _GAP, 0, 0), expand=True, pad_edge=False)
        parts = [self._pairs[at : at + down] for at in range(0, len(self._pairs), down or 1)]
        for _ in parts:
            table.add_column(ratio=1)
        for row in range(down):
            table.add_row(*(_cell(*part[row]) if row < len(part) else "" for part in parts))
        yield table


def _cell(name: str, value: str) -> Table:
    cell = Table.grid(expand=True, padding=(0, 1, 0, 0))
    cell.add_column(ratio=1, no_wrap=True)
    cell.add_column(justify="right", no_wrap=True)
    cell.add_row(Text(name, style="dim"), Text(value, style="bold"))
    return cell
