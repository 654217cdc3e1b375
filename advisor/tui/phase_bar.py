"""The phase bar: how a time is made up, with its legend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text
from textual.widget import Widget

from advisor.tui.phases import legend, phase_text

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
        parts = legend(self._ms)
        head = Text.assemble((self._title, "bold"), "  ", parts or (self._nothing, "dim"))
        if not parts:
            return head
        bar = phase_text(self._ms, self.size.width or 1)
        bar.end = "\n"
        return Group(head, bar)
