"""The tab of requests: the table, what it shows of how many, and the filter."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from textual.binding import Binding
from textual.widgets import Input, Static

from advisor.tui.pane import Pane
from advisor.tui.request.screen import RequestScreen
from advisor.tui.requests.at_line import request_at
from advisor.tui.requests.filter import EXAMPLE, FilterError, is_begun, parse
from advisor.tui.requests.order import PLACE
from advisor.tui.requests.table import RequestsTable
from rules.words import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from advisor.live.view import View
    from advisor.model import Line
    from advisor.tui.app import PhasewiseApp

_TYPED_S = 0.15
"""After so long without a key a filter is taken."""


@dataclass(frozen=True, slots=True)
class Left:
    """A request that was left for one of its findings.

    Attributes:
        finding: which.
        number: of the request.
        of: the finding that had led to it; ``None`` for the table.
    """

    finding: str
    number: int
    of: str | None


class RequestsPane(Pane):
    """Every request that is kept."""

    DEFAULT_CSS = """
    RequestsPane > #requests-said {
        height: 1;
        padding: 0 1;
        color: $text-muted;
    }
    RequestsPane > #requests-filter {
        border: none;
        height: 1;
        padding: 0 1;
        background: $panel;
        display: none;
    }
    RequestsPane.-filtering > #requests-filter {
        display: block;
    }
    RequestsPane > #requests-wrong {
        height: auto;
        max-height: 3;
        padding: 0 1;
        color: $text-error;
        display: none;
    }
    RequestsPane.-wrong > #requests-wrong {
        display: block;
    }
    RequestsPane > #requests-none {
        height: 1fr;
        padding: 1 2;
        display: none;
    }
    RequestsPane.-empty > #requests-none {
        display: block;
    }
    RequestsPane.-empty > RequestsTable {
        height: 1;
        scrollbar-size-vertical: 0;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("escape", "clear", "Show all"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._view: View | None = None
        self._filter = ""
        self._typing = 0
        self._trail: list[Left] = []

    def compose(self) -> ComposeResult:
        """What is shown, the rows, and the filter."""
        yield Static(id="requests-said", markup=False)
        yield RequestsTable()
        yield Static(id="requests-none", markup=False)
        yield Static(id="requests-wrong", markup=False)
        yield Input(placeholder=f"words, or {EXAMPLE}", id="requests-filter")

    def show(self, view: View) -> None:
        """Take in the rows that have come."""
        self._view = view
        table = self.query_one(RequestsTable)
        is_live = any(status.is_live and not status.ended for status in view.statuses)
        first = view.totals.rows["requests"] - view.requests.height
        table.take(view.requests, first, is_live=is_live)
        self._say(table)

    def focus_main(self) -> None:
        """Give the keys to the table."""
        self.query_one(RequestsTable).focus()

    # --- words

    def on_requests_table_changed(self) -> None:
        """Other rows are shown."""
        self._say(self.query_one(RequestsTable))

    def _say(self, table: RequestsTable) -> None:
        nothing = self._nothing(table)
        self.set_class(bool(nothing), "-empty")
        self._update("#requests-none", nothing)
        self._update("#requests-said", " · ".join(filter(None, self._parts(table))))

    def _update(self, of: str, text: str) -> None:
        widget = self.query_one(of, Static)
        if widget.content != text:
            widget.update(text, layout=of != "#requests-said")

    def _parts(self, table: RequestsTable) -> list[str]:
        order, view = table.order, self._view
        if view is None or not order.frame.height:
            return []
        kept = plural(order.frame.height, table.facts.noun)
        said = kept if not self._filter else f"{len(order):,} of {kept} (Esc shows all)"
        dropped = f"the last of {order.end:,}" if order.first else ""
        return [said, dropped, self._sorted(table), self._missing(table)]

    def _sorted(self, table: RequestsTable) -> str:
        order = table.order
        if order.by == PLACE:
            return "newest first" if order.is_descending else ""
        title = next((c.title for c in table.columns if c.name == order.by), order.by)
        return (
            f"sorted by {title.removesuffix(' s')}, {'largest' if order.is_descending else 'smallest'} first"
        )

    def _missing(self, table: RequestsTable) -> str:
        missing = table.facts.missing
        return f"not in this log: {', '.join(missing)}" if missing else ""

    def _nothing(self, table: RequestsTable) -> str:
        """What to say in place of the table; empty where there are rows."""
        view = self._view
        if table.order.frame.height or view is None:
            return ""
        rows = view.totals.rows
        has = [
            plural(rows[name], name.removesuffix("s")) for name in ("intervals", "aggregates") if rows[name]
        ]
        if not has:
            return "No request was read." if view.ended else "No request yet: each is shown once it ends."
        said = [f"This log has {' and '.join(has)}, and no single request."]
        said += [caveat.text for caveat in view.judged.analysis.caveats] if view.judged else []
        return "\n\n".join(said)

    # --- filter

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys do something now."""
        if action == "clear":
            return self.has_class("-filtering")
        return not (action == "filter" and self.query_one(Input).has_focus)

    def action_filter(self) -> None:
        """Look for requests."""
        self.add_class("-filtering")
        self.query_one(Input).focus()

    def action_clear(self) -> None:
        """Show all requests again."""
        self._show_all()
        self.focus_main()

    def _show_all(self) -> None:
        self._typing += 1
        self.query_one(Input).clear()
        self._apply("")
        self.remove_class("-filtering")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Somebody types: wait for the end of a word."""
        event.stop()
        self.remove_class("-wrong")
        self._typing += 1
        typing = self._typing
        self.set_timer(_TYPED_S, lambda: self._try(event.value) if typing == self._typing else None)

    def _try(self, text: str) -> None:
        """Filter by what stands there so far; what is no filter yet may become one."""
        if not is_begun(text):
            with suppress(FilterError):
                self._apply(text)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Back to the rows that pass."""
        event.stop()
        self._typing += 1
        try:
            self._apply(event.value)
        except FilterError as error:
            self.add_class("-wrong")
            self._update("#requests-wrong", str(error))
            return
        self.set_class(bool(self._filter), "-filtering")
        self.focus_main()

    def _apply(self, text: str) -> None:
        """Show what passes.

        Raises:
            FilterError: it is no filter.
        """
        passes = parse(text)
        self.remove_class("-wrong")
        if text.strip() != self._filter:
            self._filter = text.strip()
            self.query_one(RequestsTable).filter(passes)

    # --- a request

    def on_requests_table_opened(self, event: RequestsTable.Opened) -> None:
        """Look at one request."""
        event.stop()
        self._trail.clear()
        self.open(event.number)

    def open(self, number: int, of: str | None = None) -> None:
        """Look at a request, the cursor on it.

        Args:
            number: of the request.
            of: the finding that leads to it.
        """
        table = self.query_one(RequestsTable)
        if table.order.position(number) is None:
            self._show_all()
        table.stay_on(number)

        def leave(finding: str | None) -> None:
            if finding is not None:
                self._trail.append(Left(finding, cast("int", table.cursor), of))
                self.app.post_message(RequestScreen.FindingChosen(finding))

        self.app.push_screen(RequestScreen(table, self._app.session, self._newest), leave)

    def open_lines(self, lines: Sequence[Line], of: str) -> bool:
        """Look at the first request that one of these lines is of; whether there is one.

        Args:
            lines: of the log.
            of: the finding that they are evidence of.
        """
        view = self._newest()
        found = (None if view is None else request_at(view, line) for line in lines)
        place = next((place for place in found if place is not None), None)
        if place is not None:
            self.open(self.query_one(RequestsTable).order.first + place, of)
        return place is not None

    def left_for(self, finding: str | None) -> Left | None:
        """The request that was left last, if it was for this finding."""
        return self._trail[-1] if self._trail and self._trail[-1].finding == finding else None

    def pop_left(self) -> Left:
        """The request that was left last: whoever asks goes back to it."""
        return self._trail.pop()

    @property
    def _app(self) -> PhasewiseApp:
        return cast("PhasewiseApp", self.app)

    def _newest(self) -> View | None:
        """This moment, its rows taken in."""
        view = self._app.view
        if view is not None and view is not self._view:
            self.show(view)
        return view
