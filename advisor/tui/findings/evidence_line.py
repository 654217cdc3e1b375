"""One number of a finding's evidence on the screen, and the lines of the log that tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.table import Table
from rich.text import Text
from textual.message import Message
from textual.widgets import Static

from advisor.report.page import where
from rules.words import measure

if TYPE_CHECKING:
    from textual.binding import BindingType

    from advisor.model import EvidenceModel, Line


_MOST = (40, 14)
"""Cells that labels and numbers take at most to stand below each other."""


class EvidenceLine(Static):
    """A label, a number, and its lines; where there are any, Enter leads to the request they are of."""

    DEFAULT_CSS = """
    EvidenceLine {
        height: auto;
        &:focus {
            background: $boost;
            text-style: bold;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("enter", "open", "Its request")]

    class Opened(Message):
        """Somebody wants to see the request of these lines."""

        def __init__(self, lines: list[Line]) -> None:
            super().__init__()
            self.lines = lines

    def __init__(self, evidence: EvidenceModel, widths: tuple[int, int]) -> None:
        super().__init__(markup=False)
        self.show(evidence, widths)

    def show(self, evidence: EvidenceModel, widths: tuple[int, int]) -> None:
        """Draw this number.

        Args:
            evidence: what to draw.
            widths: of the labels and the numbers, in cells.
        """
        self.evidence = evidence
        self.can_focus = bool(evidence.lines)
        grid = Table.grid(padding=(0, 2))
        label, number = map(min, widths, _MOST)
        grid.add_column(overflow="fold", width=label)
        grid.add_column(overflow="fold", min_width=number, justify="right")
        grid.add_column(overflow="fold", style="dim")
        grid.add_row(*map(Text, (evidence.label, said(evidence), where(evidence.lines))))
        self.update(grid)

    def action_open(self) -> None:
        """See the request."""
        self.post_message(self.Opened(self.evidence.lines))


def said(evidence: EvidenceModel) -> str:
    """The number, with its unit."""
    return measure(evidence.value, evidence.unit)
