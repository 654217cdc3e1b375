"""The tab of findings: their list, and the chosen one in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Container
from textual.widgets import OptionList, Static

from advisor.report.page import nothing_to_change, together
from advisor.tui.findings.finding import UNTOLD, FindingView
from advisor.tui.findings.listing import FindingList
from advisor.tui.names import named
from advisor.tui.pane import Pane

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from advisor.live.view import View
    from advisor.model import Analysis, FixModel
    from advisor.tui.findings.fix_box import FixBox

WAITING = "The rules are asked as soon as there is something to ask about."


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
        ("escape", "to_list", "Back to the list"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._analysis: Analysis | None = None
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

    def choose(self, rule: str) -> None:
        """Show the first finding of this rule."""
        self._wanted = rule
        if self._analysis is not None:
            self._show(self._analysis)

    def show(self, view: View) -> None:
        """Draw what the rules said last."""
        analysis = view.judged.analysis if view.judged else None
        if analysis is None:
            self.query_one(FindingView).show_words(WAITING)
        elif analysis is not self._analysis:
            self._show(analysis)

    def _show(self, analysis: Analysis) -> None:
        self._analysis = analysis
        said = self.query_one("#together", Static)
        said.update(together(analysis) or ("" if analysis.findings else _no_finding(analysis)))
        said.display = bool(said.content)
        listed = self.query_one(FindingList)
        listed.show(analysis, self._wanted)
        self._wanted = None
        listed.display = listed.option_count > 0
        self._show_chosen()

    def _show_chosen(self) -> None:
        if self._analysis is None:
            return
        chosen, shown = self.query_one(FindingList).chosen, self.query_one(FindingView)
        finding = named(self._analysis).get(chosen or "")
        if finding is not None:
            shown.show_finding(finding)
        elif chosen == UNTOLD:
            shown.show_untold(self._analysis)
        else:
            shown.show_words("")

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Another finding is chosen."""
        event.stop()
        self._show_chosen()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Let the keys move in the finding itself."""
        event.stop()
        self.query_one(FindingView).focus()

    def action_to_list(self) -> None:
        """Let the keys move in the list again."""
        self.focus_main()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is a way back from a finding only."""
        return action != "to_list" or not self.query_one(FindingList).has_focus

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
