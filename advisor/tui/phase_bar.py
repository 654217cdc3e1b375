"""The phase bar: how a time is made up, with its legend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text
from textual.widget import Widget

from advisor.tui.phases import legend_parts, phase_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType


class PhaseBar(Widget):
    """A title, a bar as wide as the widget, and its legend."""

    DEFAULT_CSS = """
    PhaseBar {
        height: auto;
    }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._title = self._nothing = ""
        self._ms: Mapping[str, float | None] = {}

    def show(
        self, title: str, ms: Mapping[str, float | None], nothing: str = "no phase is known yet"
    ) -> None:
        """Draw these times.

        Args:
            title: stands before the legend.
            ms: by phase.
            nothing: what to say where no phase is known.
        """
        if (title, ms, nothing) != (self._title, self._ms, self._nothing):
            self._title, self._ms, self._nothing = title, dict(ms), nothing
            self.refresh(layout=True)

    def render(self) -> RenderableType:
        """The bar, and above it what it is of."""
        width = self.size.width or 1
        head = Text.assemble((self._title, "bold"), "  ")
        parts = legend_parts(self._ms)
        if not parts:
            return head.append(self._nothing, "dim")
        bar = phase_text(self._ms, width)
        bar.end = "\n"
        return Group(*_lines(head, parts, width), bar)


def _lines(head: Text, parts: list[Text], width: int) -> list[Text]:
    """The parts after the head, in lines of this width; a part is never broken."""
    lines = [head]
    for n, part in enumerate(parts):
        gap = "  " if n else ""
        if len(lines[-1]) + len(gap) + len(part) <= width:
            lines[-1] = lines[-1] + gap + part
        else:
            lines.append(Text("  ") + part)
    return lines
