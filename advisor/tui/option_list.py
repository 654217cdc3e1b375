"""A list to choose from, also where there is no room for it."""

from __future__ import annotations

from textual.widgets import OptionList


class List(OptionList):
    """Textual's, which fails on a page key where not one of its lines is seen."""

    def action_page_up(self) -> None:
        """A screenful up."""
        if self.scrollable_content_region:
            super().action_page_up()

    def action_page_down(self) -> None:
        """A screenful down."""
        if self.scrollable_content_region:
            super().action_page_down()
