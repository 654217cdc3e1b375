"""The tab of findings: their list, and the chosen one in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.containers import Container
from textual.widgets import OptionList, Static

from advisor.report.page import nothing_to_change, together, where
from advisor.tui.findings.finding import UNTOLD, FindingView
from advisor.tui.findings.listing import FindingList
from advisor.tui.names import named, titles
from advisor.tui.pane import WAITING, Pane
from advisor.tui.requests.pane import RequestsPane

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from advisor.live.view import Judged, View
    from advisor.model import Analysis, FixModel, Line
    from advisor.tui.app import PhasewiseApp
    from advisor.tui.findings.evidence_line import EvidenceLine
    from advisor.tui.findings.fix_box import FixBox


class FindingsPane(Pane):
    """Findings and their fixes."""

    SCOPED_CSS = False
    DEFAULT_CSS = """
    FindingsPane {
        & > #together {
            height: auto;
            padding: 0 1;
        }
        & > #findings {
            height: 1fr;
        }
        & FindingList {
            max-height: 40%;
        }
        & FindingView {
            height: 1fr;
            border-top: solid $foreground 30%;
        }
    }
    .-wide FindingsPane {
        & > #findings {
            layout: horizontal;
        }
        & FindingList {
            width: 5fr;
            max-height: 100%;
            height: 100%;
        }
        & FindingView {
            width: 6fr;
            border-top: none;
            border-left: solid $foreground 30%;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("c", "copy", "Copy the fix"),
        ("e", "evidence", "Its request"),
        ("escape", "back", "Back"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._judged: Judged | None = None
        self._wanted: str | None = None

    def compose(self) -> ComposeResult:
        """What all save together, the list, and one in full."""
        yield Static(id="together", markup=False)
        with Container(id="findings"):
            yield FindingList()
            yield FindingView()

    def focus_main(self) -> None:
        """Let the keys move in the list."""
        self.query_one(FindingList).focus()

    def choose(self, name: str) -> None:
        """Show a finding, by what `advisor.tui.names.named` calls it."""
        self._wanted = name
        if self._judged is not None:
            self._show(self._judged)
        self.focus_main()

    def show(self, view: View) -> None:
        """Draw what the rules said last."""
        if view.judged is None:
            self.query_one(FindingView).show_words(WAITING)
        elif view.judged is not self._judged:
            self._show(view.judged)

    def _show(self, judged: Judged) -> None:
        self._judged, analysis = judged, judged.analysis
        said = self.query_one("#together", Static)
        said.update(together(analysis) or ("" if analysis.findings else _no_finding(analysis)))
        said.display = bool(said.content)
        listed = self.query_one(FindingList)
        listed.show(judged, self._wanted)
        self._wanted = None
        listed.display = listed.option_count > 0
        self._show_chosen()

    def _show_chosen(self) -> None:
        if self._judged is None:
            return
        name, shown = self.query_one(FindingList).chosen or "", self.query_one(FindingView)
        finding = named(self._judged.analysis).get(name)
        if finding is not None:
            shown.show_finding(finding, name, titles(self._judged)[name])
        elif name == UNTOLD:
            shown.show_untold(self._judged.analysis)
        else:
            shown.show_words("")
        self.refresh_bindings()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Another finding is chosen."""
        event.stop()
        self._show_chosen()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Let the keys move in the finding itself."""
        event.stop()
        self.query_one(FindingView).focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys do something now."""
        if action == "back":
            return not self._is_in_list or self._requests.left_for(self._chosen) is not None
        return action != "evidence" or bool(self._lines)

    @property
    def _is_in_list(self) -> bool:
        return self.query_one(FindingList).has_focus

    @property
    def _chosen(self) -> str | None:
        return self.query_one(FindingList).chosen

    @property
    def _requests(self) -> RequestsPane:
        return self.screen.query_one(RequestsPane)

    @property
    def _lines(self) -> list[Line]:
        """Where the evidence of the finding stands."""
        found = named(self._judged.analysis).get(self._chosen or "") if self._judged else None
        return [line for one in found.evidence for line in one.lines] if found else []

    def action_back(self) -> None:
        """Back to the list, and from there to the request that the finding was asked for at."""
        if not self._is_in_list:
            self.focus_main()
        elif self._requests.left_for(self._chosen):
            left = self._requests.pop_left()
            if left.of is not None:
                self.choose(left.of)
            else:
                cast("PhasewiseApp", self.app).action_tab("requests")
            self.call_after_refresh(self._requests.open, left.number, left.of)

    def action_evidence(self) -> None:
        """Look at the first request of its evidence."""
        self._open(self._lines)

    def on_evidence_line_opened(self, event: EvidenceLine.Opened) -> None:
        """Look at the request of this evidence."""
        event.stop()
        self._open(event.lines)

    def _open(self, lines: list[Line]) -> None:
        if not self._requests.open_lines(lines, str(self._chosen)):
            told = "s" if len(lines) == 1 else ""
            self.notify(f"{where(lines)} belong{told} to no request that is kept.", markup=False)

    def action_copy(self) -> None:
        """Copy the switch of the fix that has the focus, else of the first."""
        boxes = self.query_one(FindingView).fixes
        box = next((box for box in boxes if box.has_focus), boxes[0] if boxes else None)
        if box is None:
            self.notify("There is no fix to copy here.", severity="warning")
        else:
            self._copy(box.fix)

    def on_fix_box_copied(self, event: FixBox.Copied) -> None:
        """Enter was pressed on a fix."""
        event.stop()
        self._copy(event.fix)

    def _copy(self, fix: FixModel) -> None:
        self.app.copy_to_clipboard(fix.apply)
        self.notify(f"{fix.apply}\nin: {fix.where}", title="Copied", markup=False)


def _no_finding(analysis: Analysis) -> str:
    return nothing_to_change(analysis) or analysis.verdict.sentence
