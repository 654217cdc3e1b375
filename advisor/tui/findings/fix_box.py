"""One remedy on the screen: what to do, the exact switch, where it goes, what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.console import Group
from rich.padding import Padding
from rich.text import Text
from textual.message import Message
from textual.widgets import Static

from advisor.report.blocks import hanging

if TYPE_CHECKING:
    from textual.binding import BindingType

    from advisor.model import FixModel


class FixBox(Static, can_focus=True):
    """A remedy that can be chosen, to be copied."""

    DEFAULT_CSS = """
    FixBox {
        height: auto;
        border-left: outer $foreground 30%;
        padding: 0 1;
        &:focus {
            border-left: thick $accent;
            background: $boost;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("enter", "copy_this", "Copy this")]

    class Copied(Message):
        """Somebody wants this switch."""

        def __init__(self, fix: FixModel) -> None:
            super().__init__()
            self.fix = fix

    def __init__(self, fix: FixModel) -> None:
        super().__init__(markup=False)
        self.fix = fix
        self.show(fix)

    def show(self, fix: FixModel) -> None:
        """Draw this remedy."""
        self.fix = fix
        self.update(
            Group(
                hanging("> ", fix.title),
                Padding(Text(fix.apply, style="bold", overflow="fold"), (0, 0, 0, 4)),
                Padding(Text(f"in: {fix.where}"), (0, 0, 0, 4)),
                Padding(Text(f"costs: {fix.cost}"), (0, 0, 0, 4)),
            )
        )

    def action_copy_this(self) -> None:
        """Copy the switch."""
        self.post_message(self.Copied(self.fix))
