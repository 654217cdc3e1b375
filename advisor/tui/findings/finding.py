"""One finding in full: why, what to change, what it saves, the evidence, how to check it, its sources."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from advisor.report.blocks import hanging, title
from advisor.report.page import saved, unanswered, where
from advisor.tui.findings.fix_box import FixBox
from rules.words import measure, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from textual.app import ComposeResult

    from advisor.model import Analysis, EvidenceModel, FindingModel, FixModel

UNTOLD = "What this can't tell"


class FindingView(VerticalScroll):
    """The finding that is chosen; or what the log can't tell."""

    DEFAULT_CSS = """
    FindingView {
        padding: 0 1;
        & > Static, & > #fixes {
            height: auto;
            margin-bottom: 1;
        }
    }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._shown: object = None
        self._of: str | None = None

    def compose(self) -> ComposeResult:
        """What stands above the fixes, the fixes, and what stands below."""
        yield Static(id="above", markup=False)
        yield Vertical(id="fixes")
        yield Static(id="below", markup=False)

    @property
    def fixes(self) -> list[FixBox]:
        """The remedies that are shown."""
        return [box for box in self.query(FixBox) if box.display]

    def show_finding(self, finding: FindingModel) -> None:
        """Draw a finding; where it is the one that is shown, in place."""
        if self._is_new(finding, finding.rule):
            self._put(_above(finding), finding.fixes, _below(finding))

    def show_untold(self, analysis: Analysis) -> None:
        """Draw what the numbers can't be used for, and what no rule could tell."""
        said = [caveat.text for caveat in analysis.caveats]
        if self._is_new((said, analysis.unanswered), UNTOLD):
            parts: list[RenderableType] = [title(UNTOLD), *(hanging("- ", text) for text in said)]
            if why := unanswered(analysis):
                parts += [Text(), Text("No rule could tell from this log:", style="bold")]
                parts += [hanging("- ", text) for text in why]
            self._put(Group(*parts), [], None)

    def show_words(self, words: str) -> None:
        """Draw a sentence in place of a finding."""
        if self._is_new(words, words):
            self._put(Text(words), [], None)

    def _is_new(self, shown: object, of: str) -> bool:
        """Whether this isn't on the screen yet; another finding is read from its beginning."""
        if shown == self._shown:
            return False
        if of != self._of:
            self.scroll_home(animate=False)
        self._shown, self._of = shown, of
        return True

    def _put(self, above: RenderableType, fixes: Sequence[FixModel], below: RenderableType | None) -> None:
        self.query_one("#above", Static).update(above)
        boxes, held = list(self.query(FixBox)), self.query_one("#fixes", Vertical)
        for box, fix in zip_longest(boxes, fixes):
            if box is None:
                held.mount(FixBox(fix))
            else:
                box.display = fix is not None
                if fix not in (None, box.fix):
                    box.show(fix)
        held.display = bool(fixes)
        self.query_one("#below", Static).update(below or "")


def _above(finding: FindingModel) -> RenderableType:
    head = Text(finding.title, style="bold")
    if finding.saving:
        head.append(f": {saved(finding.saving)}", style="bold green")
    kind = f"{finding.phase}, {finding.confidence}; {plural(finding.requests, 'request')}; {finding.rule}"
    parts: list[RenderableType] = [head, Text(kind, style="dim"), Text(), Text(finding.why)]
    if finding.fixes:
        parts += [Text(), title("What to change")]
    return Group(*parts)


def _below(finding: FindingModel) -> RenderableType:
    parts: list[RenderableType] = [hanging("Won't help: ", text) for text in finding.wont_help]
    parts += [Text()] if parts else []
    parts += [title("Evidence"), _evidence(finding.evidence), Text()]
    parts += [title("How to check"), Text(finding.verify)]
    if finding.sources:
        parts += [Text(), title("Sources"), Text(", ".join(finding.sources))]
    return Group(*parts)


def _evidence(evidence: Sequence[EvidenceModel]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold", justify="right")
    grid.add_column(overflow="fold", style="dim")
    for one in evidence:
        grid.add_row(Text(one.label), Text(measure(one.value, one.unit)), Text(where(one.lines)))
    return grid
