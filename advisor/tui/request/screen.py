"""One request: its timeline, what it waited for, what ran beside it, what would help, its raw lines."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

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
    from advisor.tui.app import PhasewiseApp
    from advisor.tui.requests.table import RequestsTable

_LOOK_S = 0.5
_TABS = ("Overview", "Requests", "Findings", "What if", "Setup")
_SAID_S = 2.0
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


class RequestScreen(Screen[str]):
    """A request of the table, and those before and after it; gives the name of a finding that is asked for.

    Args:
        table: whose cursor is on it.
        session: which read it.
        newest: gives this moment, its rows taken into the table.
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
        Binding("p", "pause", "Pause"),
        *(Binding(str(n), f"leave('{n}')", tab, show=False) for n, tab in enumerate(_TABS, 1)),
    ]

    class FindingChosen(Message):
        """Sent to the application when somebody wants to see a finding; this screen is gone then.

        Attributes:
            rule: the finding, as `advisor.tui.names.named` names it.
        """

        def __init__(self, rule: str) -> None:
            super().__init__()
            self.rule = rule

    def __init__(self, table: RequestsTable, session: Session, newest: Callable[[], View | None]) -> None:
        super().__init__()
        self._table, self._session, self._newest = table, session, newest
        self._view: View | None = None
        self._row: Mapping[str, Any] = {}
        self._judged: Judged | None = None
        self._raw: Raw | None = None
        self._said: tuple[str, ...] = ()
        self._said_at_s = -_SAID_S

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
        yield Footer(show_command_palette=False)

    def _sections(self, *names: str) -> ComposeResult:
        for name in names:
            yield from self._titled(name, Static(id=f"request-{name}", markup=False))

    def _titled(self, name: str, widget: Widget) -> ComposeResult:
        yield Static(_SECTIONS[name], classes="request-title", markup=False, id=f"request-{name}-title")
        yield widget

    def on_mount(self) -> None:
        """Show the request under the table's cursor."""
        self._view = self._newest()
        self._show()
        self.query_one(VerticalScroll).focus()
        self.set_interval(_LOOK_S, self._look)

    # --- what is known at once

    def _show(self) -> None:
        number = self._table.cursor
        row = None if number is None else self._table.order.row(number)
        if row is None:
            return
        self._row, self._raw = row, None
        self._say_head()
        self.query_one(Timeline).show(row)
        self._put("waited", Group(*(Text(sentence) for sentence in words.waited(row))))
        self._put("tokens", _pairs(words.tokens(row)))
        self._put("rates", _pairs(words.rates(row)))
        self._put("neighbours", Text("..."))
        self.query_one(RequestFindings).say("...")
        self._put("raw", Text("..."))
        self._find_more()

    def _say_head(self) -> None:
        paused = " paused " if cast("PhasewiseApp", self.app).paused else ""
        said = (paused, words.heading(self._row, self._row[PLACE]), words.place(self._row))
        if said != self._said:
            self._said = said
            head = Text.assemble((paused, "reverse"), " " if paused else "", said[1], style="bold")
            lines = head, Text(said[2])
            for line in lines:
                line.no_wrap, line.overflow = True, "ellipsis"
            self.query_one("#request-head", Static).update(Group(*lines))

    def _put(self, name: str, what: RenderableType | None) -> None:
        """Fill a section; one that is empty is not shown."""
        widget = self.query_one(f"#request-{name}", Static)
        widget.display = self.query_one(f"#request-{name}-title").display = what is not None
        widget.update(what if what is not None else "")

    # --- what takes a while

    def _find_more(self) -> None:
        """What else is known of it by now."""
        view = self._view
        events = happened(view.events, self._row) if view else []
        self._put("events", Group(*(Text(event_words(one)) for one in events)) if events else None)
        self._judged = view.judged if view else None
        self._find(self._row, [one["line"] for one in events], self._judged)

    @work(thread=True, exclusive=True)
    def _find(self, row: Mapping[str, Any], lines: list[int], judged: Judged | None) -> None:
        worker = get_current_worker()
        beside = neighbours(judged.measures if judged else None, row)
        findings = counted(judged.diagnosis, row, lines) if judged else None
        raw = self._raw or raw_lines(self._session, row, lambda: worker.is_cancelled)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._take, _Found(row[PLACE], beside, findings, raw))

    def _take(self, found: _Found) -> None:
        if not self.is_attached or found.number != self._row.get(PLACE):
            return
        self._raw = found.raw
        self._put("neighbours", _neighbours(found.beside))
        self.query_one(RequestFindings).show(found.findings, self._row["kind"])
        self._put("raw", drawn(found.raw, self._row["line"]))

    def _look(self) -> None:
        """Rows may have come; and once the rules have been asked again, they may know it better."""
        self._view = self._newest()
        if self._row:
            self._say_head()
            if self._view is not None and self._view.judged is not self._judged:
                self._find_more()

    # --- keys

    def action_step(self, by: int) -> None:
        """The next or the previous request of the table."""
        self._view = self._newest()
        if self._table.step(by) is None:
            self._say("The last one." if by > 0 else "The first one.")
            return
        self._show()
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def _say(self, sentence: str) -> None:
        """For a moment, and once at a time."""
        now_s = time.monotonic()
        if now_s - self._said_at_s >= _SAID_S:
            self._said_at_s = now_s
            self.notify(sentence, timeout=_SAID_S)

    def action_pause(self) -> None:
        """Hold the view still, or let it go on."""
        cast("PhasewiseApp", self.app).action_pause()
        self._look()

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
        self.dismiss(event.option.id)


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
