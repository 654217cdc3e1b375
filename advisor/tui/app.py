"""The application: tabs over one session, asked anew a few times a second, and judged when there is time."""

from __future__ import annotations

import math
import sys
import time
import traceback
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.events import Event, InputEvent
from textual.widgets import Footer, TabbedContent, TabPane

from advisor.live.view import judged, view
from advisor.tui.findings.pane import FindingsPane
from advisor.tui.overview.pane import OverviewPane
from advisor.tui.pace import Pace
from advisor.tui.pane import Pane
from advisor.tui.requests.pane import RequestsPane
from advisor.tui.setup.pane import SetupPane
from advisor.tui.status_line import StatusLine
from advisor.tui.what_if.pane import WhatIfPane

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.screen import Screen

    from advisor.live.session import Session
    from advisor.live.view import Judged, View
    from advisor.tui.overview.top_findings import TopFindings
    from advisor.tui.request.screen import RequestScreen

INTERRUPTED = 130
"""What the application returns after Ctrl-C."""

ATTENDED_S, UNATTENDED_S = 0.5, 0.95
"""How often the screen is drawn anew: while somebody uses it, and while nobody does."""

_LEFT_ALONE_S = 30.0
_JUDGE_EVERY_S = 2.0

TABS = {
    "overview": ("Overview", OverviewPane),
    "requests": ("Requests", RequestsPane),
    "findings": ("Findings", FindingsPane),
    "what-if": ("What if", WhatIfPane),
    "setup": ("Setup", SetupPane),
}


class PhasewiseApp(App[None]):
    """The screens of a session.

    Args:
        session: not started yet.
        command: the words of the command line, for the reports that are written.
    """

    TITLE = "phasewise"
    CSS_PATH = "app.tcss"
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 - as App has it
    VERTICAL_BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-short"), (32, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(n), f"tab('{tab}')", title, show=False)
            for n, (tab, (title, _)) in enumerate(TABS.items(), 1)
        ),
        ("p", "pause", "Pause"),
        ("r", "report", "Report"),
        ("question_mark", "toggle_help", "Help"),
        ("q", "quit", "Quit"),
        Binding("ctrl+c", "interrupt", "Quit", show=False),
    ]

    def __init__(self, session: Session, command: Sequence[str] = ()) -> None:
        super().__init__()
        self.animation_level = "none"  # a key is answered at once, also while lines pour in
        self.session = session
        self.command = list(command)
        self.paused = False
        self.view: View | None = None
        self._judged: Judged | None = None
        self._judging = self._ended = False
        self._unjudged = True
        self._judging_pace = Pace(_JUDGE_EVERY_S)
        self._used_at_s = self._looked_at_s = -math.inf

    def compose(self) -> ComposeResult:
        """A line on the sources, the tabs, and the keys."""
        yield StatusLine()
        with TabbedContent(initial="overview"):
            for number, (tab, (title, pane)) in enumerate(TABS.items(), 1):
                with TabPane(f"{number} {title}", id=tab):
                    yield pane()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Begin to read."""
        self.session.start()
        self._tick()
        self.pane.focus_main()
        self.set_interval(ATTENDED_S, self._tick)

    def on_unmount(self) -> None:
        """Stop reading."""
        self.session.stop()

    # --- drawing

    def _tick(self) -> None:
        """Take in what has come, less often while nobody is there; draw it unless the view is paused."""
        now_s = time.monotonic()
        every_s = UNATTENDED_S if now_s - self._used_at_s > _LEFT_ALONE_S else 0.0
        if self._is_complete or now_s - self._looked_at_s < every_s:
            return
        self._looked_at_s = now_s
        ended = self.session.ended  # asked first: what came until then settles now
        self._unjudged |= bool(self.session.settle())
        for note in self.session.said():
            self.notify(note, markup=False, timeout=10)
        self._ask_rules(ended=ended)
        if not self.paused:
            self.draw()

    @property
    def _is_complete(self) -> bool:
        """Whether nothing will change any more: all is read, judged and drawn."""
        return self._ended and not self._unjudged and not self._judging

    def _ask_rules(self, *, ended: bool) -> None:
        """Have what is kept judged, if there is more of it than last time, and it was some time ago."""
        if ended and not self._ended:
            self._ended = self._unjudged = True
        anything = ended or self.session.totals.rows.total() > 0
        if anything and self._unjudged and not self._judging and self._judging_pace.is_due:
            self._unjudged, self._judging = False, True
            Thread(target=self._judge, daemon=True).start()

    def _judge(self) -> None:
        """Ask the rules, in a thread that nobody waits for when the screens are left."""
        try:
            with self._judging_pace:
                take = partial(self._take_judgement, judged(self.session))
        except Exception as error:  # ours; the screens say so
            take = partial(self._handle_exception, error)
        with suppress(RuntimeError):  # the screens have been left meanwhile
            self.call_from_thread(take)

    def _take_judgement(self, found: Judged) -> None:
        self._judged, self._judging = found, False
        if not self.paused:
            self.draw()

    def draw(self) -> None:
        """Show the session as it is now; where a screen lies over the tabs, it looks at their view."""
        main, *above = self.screen_stack
        if not self.is_running or not main.is_mounted:
            return
        self.view = view(self.session, self._judged)
        if not above:
            main.query_one(StatusLine).show(self.view, paused=self.paused)
        self.pane.show(self.view)

    @property
    def pane(self) -> Pane:
        """The contents of the tab that is seen."""
        main = self.screen_stack[0]
        return main.query_one(f"#{main.query_one(TabbedContent).active}", TabPane).query_one(Pane)

    def _fatal_error(self) -> None:
        """A fault of ours: one sentence. Textual's own page shows what variables hold: a log's text."""
        error, where = sys.exception(), ""
        if error is not None and error.__traceback__ is not None:
            *_, last = traceback.extract_tb(error.__traceback__)
            where = f" ({type(error).__name__}, {Path(last.filename).name}:{last.lineno})"
        self.panic(Text(f"phasewise: the screens stopped at a fault{where}; please report it."))

    # --- keys

    async def on_event(self, event: Event) -> None:
        """Remember when somebody last pressed a key or moved the mouse."""
        if isinstance(event, InputEvent):
            self._used_at_s = time.monotonic()
            self.session.give_way()
        await super().on_event(event)

    def on_tabbed_content_tab_activated(self) -> None:
        """Another tab is seen: at once as it was, then as it is."""
        self.pane.focus_main()
        self.call_after_refresh(self._show_pane)

    def _show_pane(self) -> None:
        if not self.paused:
            self.draw()
        elif self.view is not None:
            self.pane.show(self.view)

    def on_top_findings_chosen(self, message: TopFindings.Chosen) -> None:
        """A finding of the overview is asked for."""
        self._show_finding(message.rule)

    def on_request_screen_finding_chosen(self, message: RequestScreen.FindingChosen) -> None:
        """A finding of a request is asked for."""
        self._show_finding(message.rule)

    def _show_finding(self, rule: str) -> None:
        self.action_tab("findings")
        self.query_one(FindingsPane).choose(rule)

    def action_tab(self, tab: str) -> None:
        """Go to a tab."""
        self.query_one(TabbedContent).active = tab

    def action_pause(self) -> None:
        """Hold the view still, or let it go on; what comes meanwhile is read all the same."""
        self.paused = not self.paused
        if self.paused and self.view is not None:
            self.screen_stack[0].query_one(StatusLine).show(self.view, paused=True)
        else:
            self.draw()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: Textual's own commands, and what the keys do."""
        yield from super().get_system_commands(screen)
        yield SystemCommand("Report", "Write a report of what is kept", self.action_report)
        yield SystemCommand("Pause", "Hold the view still, or let it go on", self.action_pause)
        for tab, (title, _) in TABS.items():
            yield SystemCommand(title, f"Go to the tab {title}", partial(self.action_tab, tab))

    def action_interrupt(self) -> None:
        """End as Ctrl-C ends any command."""
        self.exit(return_code=INTERRUPTED)

    def action_toggle_help(self) -> None:
        """Show or hide what the keys do."""
        if self.screen.query("HelpPanel"):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    def action_report(self) -> None:
        """Write a report of what is kept."""
        from advisor.tui.report_dialog import ReportDialog

        self.push_screen(ReportDialog(self.session, self.command))
