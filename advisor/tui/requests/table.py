"""The table of requests: only the rows that are seen are drawn, so a million cost what fifty do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rich.segment import Segment
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from advisor.tui.requests.columns import OF_PLACE, SHOWN, SORT_ORDER, Column, Facts, bar_width, columns
from advisor.tui.requests.line import heading, line
from advisor.tui.requests.order import PLACE, RowOrder

if TYPE_CHECKING:
    import polars as pl
    from textual.binding import BindingType
    from textual.events import Click, Resize

_HEADER_LINES = 1


class RequestsTable(ScrollView, can_focus=True):
    """Requests, one a line, with a cursor that stays on its request."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"requests-table--{part}" for part in ("header", "cursor", "dim")
    }
    DEFAULT_CSS = """
    RequestsTable {
        height: 1fr;
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-vertical: 1;
    }
    RequestsTable > .requests-table--header {
        background: $panel;
        color: $text;
        text-style: bold;
    }
    RequestsTable > .requests-table--cursor {
        background: $primary-muted;
        text-style: bold;
    }
    RequestsTable:focus > .requests-table--cursor {
        background: $secondary-muted;
    }
    RequestsTable > .requests-table--dim {
        color: $text-muted;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open"),
        Binding("s", "sort", "Sort"),
        Binding("S", "reverse", "Reverse", key_display="S"),
        Binding("b", "scale", "Bar scale"),
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home,g", "first", "First", show=False),
        Binding("end,G", "last", "Last, and follow", show=False),
    ]

    class Opened(Message):
        """A request was chosen."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    class Changed(Message):
        """It shows other rows, or in another order."""

    def __init__(self) -> None:
        super().__init__()
        self.order = RowOrder()
        self.facts = Facts()
        self.cursor: int | None = None
        self.is_scaled = True
        self._is_following = self._is_touched = False
        self.columns: list[Column] = []
        self._window: tuple[int, list[dict[str, Any]]] = (0, [])

    # --- rows

    def take(self, frame: pl.DataFrame, first: int, *, is_live: bool) -> None:
        """Go on with newer rows, of all that are kept; those that have just happened are looked at."""
        begins = is_live and not self._is_touched and self.order.by == PLACE and not self._is_following
        self._is_following |= begins
        if (first, frame.height) == (self.order.first, self.order.frame.height):
            if begins:
                self._go(self._newest)
            return
        at, known = self._anchor(), self.order.end
        self.order.take(frame, first)
        self.facts.add(frame[max(known - first, 0) :])
        self._settle(at)

    def filter(self, passes: pl.Expr | None) -> None:
        """Show only such as pass."""
        at = self._anchor()
        self.order.filter(passes)
        self._settle(at)

    def sort(self, by: str, *, is_descending: bool) -> None:
        """Sort by a column; the cursor stays on its request, if anybody put it there."""
        at = self._anchor()
        self._is_following = False
        self.order.sort(by, is_descending=is_descending)
        self._settle(at)
        if not self._is_touched:
            self._go(0)

    def step(self, by: int) -> int | None:
        """Move the cursor; the number of the request it is on now, ``None`` if there is none there."""
        position = self._position
        number = None if position is None else self.order.number(position + by)
        if number is not None:
            self.stay_on(number)
        return number

    def stay_on(self, number: int) -> None:
        """Put the cursor on a request that is shown, and leave it there when others come."""
        if (position := self.order.position(number)) is not None:
            self._is_touched = True
            self._go(position)
            self._is_following = False

    @property
    def _position(self) -> int | None:
        return None if self.cursor is None else self.order.position(self.cursor)

    @property
    def _top(self) -> int:
        return round(self.scroll_y)

    @property
    def _lines(self) -> int:
        return max(self.size.height - _HEADER_LINES, 1)

    def _anchor(self) -> tuple[int, int | None, int]:
        """What stays where it is: where the cursor stood, a request that is seen, and on which line."""
        position = self._position
        if position is not None and 0 <= position - self._top < self._lines:
            return position, self.cursor, position - self._top
        return position or 0, self.order.number(self._top), 0

    def _settle(self, at: tuple[int, int | None, int]) -> None:
        """After a change of rows: the cursor and what is looked at stay, or follow the newest row."""
        position, seen, line = at
        self.columns = columns(self.facts, self.order.end, self._width)
        self.virtual_size = Size(self._width, len(self.order) + _HEADER_LINES)
        if self._is_following:
            self._go(self._newest)
        else:
            if self._position is None:
                self.cursor = self.order.number(max(min(position, len(self.order) - 1), 0))
            shown = None if seen is None else self.order.position(seen)
            self._scroll(self._near(self._position or 0) if shown is None else shown - line)
        self._window = (0, [])
        self.refresh()
        self.post_message(self.Changed())

    @property
    def _newest(self) -> int:
        return 0 if self.order.by == PLACE and self.order.is_descending else len(self.order) - 1

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width or self.size.width

    def _go(self, position: int) -> None:
        """Put the cursor somewhere, and scroll as little as needed to see it."""
        position = max(min(position, len(self.order) - 1), 0)
        self.cursor = self.order.number(position)
        is_wanted = self._is_touched or self._is_following
        self._is_following = is_wanted and self.order.by == PLACE and position == self._newest
        self._scroll(self._near(position))
        self.refresh()

    def _near(self, position: int) -> int:
        """The first line to see, as near to what it is as this position allows."""
        return min(max(self._top, position - self._lines + 1), position)

    def _scroll(self, top: int) -> None:
        self.scroll_to(y=max(top, 0), animate=False, force=True, immediate=True)

    def on_resize(self, event: Resize) -> None:
        """Other columns may fit now."""
        self._settle(self._anchor())
        if self._position is not None:
            self._scroll(self._near(self._position))

    # --- lines

    def render_line(self, y: int) -> Strip:
        """The heading, or a request."""
        width = self._width
        if y < _HEADER_LINES:
            return self._header(width)
        if (row := self._row(self._top + y - _HEADER_LINES)) is None:
            return Strip.blank(width, self.rich_style)
        is_cursor, style = row[PLACE] == self.cursor, self.rich_style
        if is_cursor:
            style += self.get_component_rich_style("requests-table--cursor", partial=True)
        dim = self.get_component_rich_style("requests-table--dim", partial=True)
        bar = bar_width(self.columns, width)
        drawn = line(row, self.columns, bar, is_cursor=is_cursor, scale_ms=self._scale_ms, dim=dim)
        return Strip(Segment.apply_style(drawn, style)).adjust_cell_length(width, style)

    def _header(self, width: int) -> Strip:
        style, falls = self.get_component_rich_style("requests-table--header"), self.order.is_descending
        text = heading(self.columns, self.order.by, is_descending=falls, scale_ms=self._scale_ms)
        return Strip([Segment(text, style)]).adjust_cell_length(width, style)

    @property
    def _scale_ms(self) -> float | None:
        """The slowest of the requests that are seen: as long as the bar is wide; ``None`` for shares."""
        if not self.is_scaled:
            return None
        self._row(self._top)
        return max((row["total_ms"] or 0.0 for row in self._window[1]), default=0.0)

    def _row(self, position: int) -> dict[str, Any] | None:
        """The row at a position that is seen; ``None`` where there is none."""
        top, rows = self._window
        if top != self._top or len(rows) < min(self._lines, len(self.order) - self._top):
            top, rows = self._top, self.order.rows(self._top, self._top + self._lines, SHOWN)
            self._window = top, rows
        return rows[position - top] if 0 <= position - top < len(rows) else None

    # --- keys and mouse

    def action_move(self, by: int) -> None:
        """Up or down."""
        self._is_touched = True
        self._go((self._position or 0) + by)

    def action_page(self, by: int) -> None:
        """A screenful up or down."""
        self.action_move(by * max(self._lines - 1, 1))

    def action_first(self) -> None:
        """To the first row."""
        self.action_move(-len(self.order))

    def action_last(self) -> None:
        """To the last row; where that is the newest, it goes on to the next one that comes."""
        self.action_move(len(self.order))

    def action_open(self) -> None:
        """Look at the request under the cursor."""
        if self.cursor is not None and self._position is not None:
            self.post_message(self.Opened(self.cursor))

    def action_sort(self) -> None:
        """Sort by the next column, those that matter most first, and after the last one as the log does."""
        shown = {column.name for column in self.columns} - OF_PLACE
        names = [PLACE, *(name for name in SORT_ORDER if name in shown)]
        at = names.index(self.order.by) + 1 if self.order.by in names else 0
        self._sort_by(names[at % len(names)])

    def action_reverse(self) -> None:
        """Sort the other way round."""
        self.sort(self.order.by, is_descending=not self.order.is_descending)

    def action_scale(self) -> None:
        """Bars as long as requests took, or all as wide as there is room."""
        self.is_scaled = not self.is_scaled
        self.refresh()

    def _sort_by(self, name: str) -> None:
        """Texts and the log's order upwards, amounts downwards: the largest is what is looked for."""
        rises = name == PLACE or any(column.is_text for column in self.columns if column.name == name)
        self.sort(name, is_descending=not rises)

    def on_click(self, event: Click) -> None:
        """On a heading: sort by it; on a row: put the cursor there; twice: open it."""
        position = self._top + event.y - _HEADER_LINES
        if event.y < _HEADER_LINES:
            self._click_header(event.x)
        elif self.order.number(position) is not None:
            self._is_touched = True
            self._go(position)
            if event.chain > 1:
                self.action_open()

    def _click_header(self, x: int) -> None:
        start = 1
        for column in self.columns:
            if start <= x < start + column.width:
                name = PLACE if column.name in OF_PLACE else column.name
                self.action_reverse() if name == self.order.by else self._sort_by(name)
            start += column.width + 1
