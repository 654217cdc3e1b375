"""One request: its timeline, what it waited for, what ran beside it, what would help, its raw lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual import work
from textual.binding import Binding
from textual.containers import Container, Vertical, VerticalScroll
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, Static
from textual.worker import get_current_worker

from advisor.live.raw import Raw, raw_lines
from advisor.tui.request import words
from advisor.tui.request.events import event_words, happened
from advisor.tui.request.findings import Counted, RequestFindings, counted
from advisor.tui.request.neighbours import Neighbours, line_of, neighbours
from advisor.tui.request.raw_lines import drawn
from advisor.tui.request.timeline import Timeline
from advisor.tui.requests.order import PLACE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import RenderableType
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.widget import Widget

    from advisor.live.session import Session
    from advisor.live.view import Judged, View
    from advisor.tui.requests.table import RequestsTable

_LOOK_AGAIN_S = 1.0
_SECTIONS = {
    "waited": "What it waited for",
    "tokens": "Tokens",
    "rates": "Speed",
    "findings": "Findings that it counts in",
    "neighbours": "What ran beside it",
    "events": "What happened to it",
    "raw": "Its lines in the log",
}


@dataclass(frozen=True, slots=True)
class _Found:
    """What takes a while to be found of a request."""

    number: int
    beside: Neighbours
    findings: Sequence[Counted] | None
    raw: Raw


class RequestScreen(Screen[None]):
    """A request of the table, and those before and after it.

    Args:
        table: whose cursor is on it.
        session: which read it.
        view: gives the newest moment.
    """

    DEFAULT_CSS = """
    RequestScreen #request-head {
        padding: 0 1;
        background: $panel;
        height: auto;
    }
    RequestScreen VerticalScroll {
        padding: 1 1 0 1;
    }
    RequestScreen #request-columns {
        height: auto;
        layout: horizontal;
    }
    RequestScreen.-narrow #request-columns {
        layout: vertical;
    }
    RequestScreen #request-columns > Vertical {
        height: auto;
        width: 1fr;
        padding-right: 2;
    }
    RequestScreen.-narrow #request-columns > Vertical {
        width: 100%;
        padding-right: 0;
    }
    RequestScreen .request-title {
        margin-top: 1;
        color: $text-accent;
        text-style: bold;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.pop_screen", "Back"),
        Binding("f", "findings", "Findings"),
        Binding("n,right", "step(1)", "Next", key_display="n"),
        Binding("b,left", "step(-1)", "Previous", key_display="b"),
        *(Binding(str(n), f"leave('{n}')", show=False) for n in range(1, 6)),
    ]

    class FindingChosen(Message):
        """Sent to the application when somebody wants to see a finding; this screen is gone then."""

        def __init__(self, rule: str) -> None:
            super().__init__()
            self.rule = rule

    def __init__(self, table: RequestsTable, session: Session, view: Callable[[], View | None]) -> None:
        super().__init__()
        self._table, self._session, self._view = table, session, view
        self._row: Mapping[str, Any] = {}
        self._judged: Judged | None = None
        self._raw: Raw | None = None

    def compose(self) -> ComposeResult:
        """A heading that stays, and below it what scrolls."""
        yield Static(id="request-head", markup=False)
        with VerticalScroll():
            yield Timeline(id="request-timeline")
            with Container(id="request-columns"):
                with Vertical():
                    yield from self._sections("waited", "tokens", "rates")
                with Vertical():
                    yield from self._titled("findings", RequestFindings(id="request-findings"))
                    yield from self._sections("neighbours", "events")
            yield from self._sections("raw")
        yield Footer()

    def _sections(self, *names: str) -> ComposeResult:
        for name in names:
            yield from self._titled(name, Static(id=f"request-{name}", markup=False))

    def _titled(self, name: str, widget: Widget) -> ComposeResult:
        yield Static(_SECTIONS[name], classes="request-title", markup=False, id=f"request-{name}-title")
        yield widget

    def on_mount(self) -> None:
        """Show the request under the table's cursor."""
        self._show()
        self.query_one(VerticalScroll).focus()
        self.set_interval(_LOOK_AGAIN_S, self._look_again)

    # --- what is known at once

    def _show(self) -> None:
        number = self._table.cursor
        row = None if number is None else self._table.order.row(number)
        if row is None:
            return
        self._row, self._raw = row, None
        head = Text(words.heading(row, row[PLACE]), style="bold", no_wrap=True, overflow="ellipsis")
        where = Text(words.place(row), style="not bold", no_wrap=True, overflow="ellipsis")
        self.query_one("#request-head", Static).update(Group(head, where))
        self.query_one(Timeline).show(row)
        self._put("waited", Group(*(Text(sentence) for sentence in words.waited(row))))
        self._put("tokens", _pairs(words.tokens(row)))
        self._put("rates", _pairs(words.rates(row)))
        happened = self._events()
        self._put("events", Group(*(Text(event_words(one)) for one in happened)) if happened else None)
        self._put("neighbours", Text("..."))
        self.query_one(RequestFindings).say("...")
        self._put("raw", Text("..."))
        self._find(row, [one["line"] for one in happened])

    def _put(self, name: str, what: RenderableType | None) -> None:
        """Fill a section; one that is empty is not shown."""
        widget = self.query_one(f"#request-{name}", Static)
        widget.display = self.query_one(f"#request-{name}-title").display = what is not None
        widget.update(what if what is not None else "")

    def _events(self) -> list[dict[str, Any]]:
        view = self._view()
        return happened(view.events, self._row) if view else []

    # --- what takes a while

    @work(thread=True, exclusive=True)
    def _find(self, row: Mapping[str, Any], lines: list[int]) -> None:
        worker = get_current_worker()
        view = self._view()
        judged = view.judged if view else None
        beside = neighbours(judged.measures if judged else None, row)
        findings = counted(judged.diagnosis, row, lines) if judged else None
        raw = self._raw or raw_lines(self._session, row, lambda: worker.is_cancelled)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._take, _Found(row[PLACE], beside, findings, raw), judged)

    def _take(self, found: _Found, judged: Judged | None) -> None:
        if not self.is_attached or found.number != self._row.get(PLACE):
            return
        self._judged, self._raw = judged, found.raw
        self._put("neighbours", _neighbours(found.beside))
        self.query_one(RequestFindings).show(found.findings, self._row["kind"])
        self._put("raw", drawn(found.raw, self._row["line"]))

    def _look_again(self) -> None:
        """Once the rules have been asked again, they may know it, or know it better."""
        view = self._view()
        if self._row and view is not None and view.judged is not self._judged:
            self._judged = view.judged
            self._find(self._row, [one["line"] for one in self._events()])

    # --- keys

    def action_step(self, by: int) -> None:
        """The next or the previous request of the table."""
        if self._table.step(by) is None:
            self.notify("This is the last one." if by > 0 else "This is the first one.", timeout=2)
            return
        self._show()
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def action_findings(self) -> None:
        """Go through its findings."""
        self.query_one(RequestFindings).focus()

    def action_leave(self, key: str) -> None:
        """Back, and on to another tab."""
        self.app.pop_screen()
        self.app.simulate_key(key)

    def on_option_list_option_selected(self, event: RequestFindings.OptionSelected) -> None:
        """Back, and on to this finding."""
        event.stop()
        rule = event.option.id
        if rule is not None:
            self.app.pop_screen()
            self.app.post_message(self.FindingChosen(rule))


def _pairs(pairs: list[tuple[str, str]]) -> RenderableType | None:
    if not pairs:
        return None
    table = Table.grid(padding=(0, 2))
    for name, said in pairs:
        table.add_row(Text(name, style="dim"), Text(said))
    return table


def _neighbours(beside: Neighbours) -> RenderableType:
    lines = [Text(line_of(one), no_wrap=True, overflow="ellipsis") for one in beside.rows]
    more = [Text(f"… and {beside.more:,} more", style="dim")] if beside.more else []
    return Group(*(Text(sentence) for sentence in beside.said), *lines, *more)
