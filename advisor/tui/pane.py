"""What every tab of the screen is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Vertical

if TYPE_CHECKING:
    from advisor.live.view import View

WAITING = "The rules are asked as soon as there is something to ask about."


class Pane(Vertical):
    """A tab's contents. Only the one that is seen is asked to show a view, a few times a second at most."""

    def show(self, view: View) -> None:
        """Draw this moment; what is the same as before should cost nothing."""
        raise NotImplementedError

    def focus_main(self) -> None:
        """Give the keys to the widget that one wants first."""
        raise NotImplementedError
