"""The overview's list of findings: what to change, and what that saves."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Static
from textual.widgets.option_list import Option

from advisor.report.page import nothing_to_change, saved, together
from advisor.tui.names import named, titles
from advisor.tui.option_list import List
from rules.caveats.log_hides_timings import ID as HIDES_TIMINGS
from rules.words import plural

if TYPE_CHECKING:
    from rich.console import Console
    from textual.app import ComposeResult
    from textual.events import Resize

    from advisor.live.view import Judged
    from advisor.model import Analysis, FindingModel

_ONE_LINE_FROM, _LEAST_ROOM, _INSET, _HANGING = 64, 10, 2, 2
_MOST_CAVEATS = 3


class TopFindings(Vertical):
    """The findings, most important first; where there are none, what that means."""

    DEFAULT_CSS: ClassVar[str] = """
    TopFindings {
        height: auto;
    }
    TopFindings > OptionList {
        height: auto;
        max-height: 100vh;
        border: none;
        padding: 0;
        background: transparent;
    }
    TopFindings > OptionList:focus {
        border: none;
    }
    TopFindings > OptionList > .option-list--option {
        padding: 0 1;
    }
    TopFindings > .foot {
        color: $text-muted;
    }
    .-tall TopFindings > .foot {
        margin-top: 1;
    }
    """

    class Chosen(Message):
        """A finding was chosen, to be seen in full.

        Attributes:
            rule: the finding's name, as `advisor.tui.names.named` gives it.
        """

        def __init__(self, rule: str) -> None:
            super().__init__()
            self.rule = rule

    def __init__(self) -> None:
        super().__init__()
        self._judged: Judged | None = None
        self._names: list[str] = []
        self._drawn: object = None

    def on_mount(self) -> None:
        """Nothing is known yet."""
        self._draw()

    def compose(self) -> ComposeResult:
        """A heading, the list, and what they save together or why there are none."""
        yield Static(classes="head")
        yield List(markup=False)
        yield Static(classes="foot")

    def show(self, judged: Judged | None) -> None:
        """List what the rules found."""
        if judged is not self._judged:
            self._judged = judged
            self._draw()

    def on_resize(self, event: Resize) -> None:
        """There is other room for the titles."""
        self._draw()

    def on_option_list_option_selected(self, event: List.OptionSelected) -> None:
        """Somebody wants to see one in full."""
        event.stop()
        self.post_message(self.Chosen(self._names[event.option_index]))

    def _draw(self) -> None:
        judged, width = self._judged, self.size.width
        analysis = judged.analysis if judged else None
        title = titles(judged) if judged else {}
        findings = named(analysis) if analysis else {}
        told = [(name, title[name], _saving(finding)) for name, finding in findings.items()]
        foot = "" if analysis is None else _foot(analysis)
        short = self.screen.has_class("-short")
        drawn = (told, foot, width, short, analysis is None)
        if drawn == self._drawn:
            return
        self._drawn = drawn
        self.query_one(".head", Static).update(_head(analysis))
        prompts = [self._option(title, saving, short=short) for _, title, saving in told]
        self._list([name for name, _, _ in told], prompts)
        self.query_one(".foot", Static).update(Text(foot))
        self.query_one(".foot").display = bool(foot)

    def _option(self, title: str, saving: str, *, short: bool) -> Text:
        """On one line where lines are few and long."""
        room = max(self.size.width - _INSET, _LEAST_ROOM)
        if short and room >= _ONE_LINE_FROM:
            return _on_one_line(title, saving, room)
        return _on_several(title, saving, room, self.app.console)

    def _list(self, names: list[str], prompts: list[Text]) -> None:
        """Put these into the list; who was on a finding stays on it."""
        listed = self.query_one(List)
        at = listed.highlighted
        name = self._names[at] if at is not None else None
        self._names = names
        listed.clear_options()
        listed.add_options([Option(prompt) for prompt in prompts])
        listed.display = bool(prompts)
        if names:
            listed.highlighted = names.index(name) if name in names else 0


def _head(analysis: Analysis | None) -> Text:
    if analysis is None:
        return Text("What to change", style="bold") + Text("  not asked yet", style="not bold dim")
    known = plural(len(analysis.findings), "finding")
    return Text("What to change", style="bold") + Text(f"  {known}", style="not bold dim")


def _saving(finding: FindingModel) -> str:
    return "" if finding.saving is None else saved(finding.saving)


def _foot(analysis: Analysis) -> str:
    """What they save together, or why there are none; and what to switch on where no phase is told."""
    caveats = analysis.caveats[:_MOST_CAVEATS]
    if analysis.findings:
        untold = analysis.verdict.phase == "unknown"
        caveats = [caveat for caveat in analysis.caveats if untold and caveat.id == HIDES_TIMINGS]
    said = [together(analysis), nothing_to_change(analysis), *(caveat.text for caveat in caveats)]
    return "\n".join(filter(None, said))


def _on_one_line(title: str, saving: str, room: int) -> Text:
    """The title, cut where it is too long, and its saving."""
    left = room - (cell_len(saving) + 2 if saving else 0)
    return Text(_cut(title, left)).append(f"  {saving}" if saving else "", "bold")


def _on_several(title: str, saving: str, room: int, console: Console) -> Text:
    """The title on as many lines as it needs, and its saving below."""
    lines = [*Text(title).wrap(console, room - _HANGING)]
    for line in lines:
        line.rstrip()
    if saving:
        lines.append(Text(_cut(saving, room - _HANGING).rstrip(), "bold"))
    return Text(f"\n{' ' * _HANGING}").join(lines)


def _cut(text: str, cells: int) -> str:
    """The text in exactly so many cells, with an ellipsis where it is longer."""
    if cell_len(text) <= cells:
        return set_cell_size(text, cells)
    return set_cell_size(text, cells - 1).rstrip() + "…"
