"""A list to choose from, also where there is no room for it."""

from __future__ import annotations

from textual.widgets import OptionList


class List(OptionList):
    """Textual's, which fails on a page key where not one of its lines is seen."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Page keys only do something where there is a page."""
        return not action.startswith("page_") or bool(self.scrollable_content_region)
