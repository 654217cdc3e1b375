"""One finding in full: why, what to change, what it saves, the evidence, how to check it, its sources."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from advisor.report.blocks import hanging, title
from advisor.report.page import saved, unanswered
from advisor.tui.findings.evidence_line import EvidenceLine, said
from advisor.tui.findings.fix_box import FixBox
from rules.words import plural

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
        & > Static, & > Vertical {
            height: auto;
            margin-bottom: 1;
        }
        & > #between {
            margin-bottom: 0;
        }
    }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._shown: object = None
        self._of: str | None = None

    def compose(self) -> ComposeResult:
        """What stands above the fixes, the fixes, what won't help, the evidence, and what stands below."""
        yield Static(id="above", markup=False)
        yield Vertical(id="fixes")
        yield Static(id="between", markup=False)
        yield Vertical(id="evidence")
        yield Static(id="below", markup=False)

    @property
    def fixes(self) -> list[FixBox]:
        """The remedies that are shown."""
        return [box for box in self.query(FixBox) if box.display]

    def show_finding(self, finding: FindingModel, name: str, said: str) -> None:
        """Draw a finding; where it is the one that is shown, in place.

        Args:
            finding: to be drawn.
            name: what it is called, of all that are found.
            said: its title.
        """
        if self._is_new((finding, said), name):
            self._put(_above(finding, said), finding, _below(finding))

    def show_untold(self, analysis: Analysis) -> None:
        """Draw what the numbers can't be used for, and what no rule could tell."""
        said = [caveat.text for caveat in analysis.caveats]
        if self._is_new((said, analysis.unanswered), UNTOLD):
            parts: list[RenderableType] = [title(UNTOLD), *(hanging("- ", text) for text in said)]
            if why := unanswered(analysis):
                parts += [Text(), Text("No rule could tell from this log:", style="bold")]
                parts += [hanging("- ", text) for text in why]
            self._put(Group(*parts))

    def show_words(self, words: str) -> None:
        """Draw a sentence in place of a finding."""
        if self._is_new(words, words):
            self._put(Text(words))

    def _is_new(self, shown: object, of: str) -> bool:
        """Whether this isn't on the screen yet; another finding is read from its beginning."""
        if shown == self._shown:
            return False
        if of != self._of:
            self.scroll_home(animate=False)
        self._shown, self._of = shown, of
        return True

    def _put(
        self,
        above: RenderableType,
        finding: FindingModel | None = None,
        below: RenderableType | None = None,
    ) -> None:
        self.query_one("#above", Static).update(above)
        self._put_fixes(finding.fixes if finding else [])
        between = self.query_one("#between", Static)
        between.update(_between(finding) if finding else "")
        between.display = finding is not None
        self._put_evidence(finding.evidence if finding else [])
        self.query_one("#below", Static).update(below or "")

    def _put_fixes(self, fixes: Sequence[FixModel]) -> None:
        boxes, held = list(self.query(FixBox)), self.query_one("#fixes", Vertical)
        for box, fix in zip_longest(boxes, fixes):
            if box is None:
                held.mount(FixBox(fix))
            else:
                box.display = fix is not None
                if fix not in (None, box.fix):
                    box.show(fix)
        held.display = bool(fixes)

    def _put_evidence(self, evidence: Sequence[EvidenceModel]) -> None:
        lines, held = list(self.query(EvidenceLine)), self.query_one("#evidence", Vertical)
        labels = [cell_len(one.label) for one in evidence]
        widths = max(labels, default=0), max((cell_len(said(one)) for one in evidence), default=0)
        for line, one in zip_longest(lines, evidence):
            if line is None:
                held.mount(EvidenceLine(one, widths))
            else:
                line.display = one is not None
                if one is not None:
                    line.show(one, widths)
        held.display = bool(evidence)


def _above(finding: FindingModel, said: str) -> RenderableType:
    head = Text(said, style="bold")
    if finding.saving:
        head.append(f": {saved(finding.saving)}", style="bold green")
    kind = f"{finding.phase}, {finding.confidence}; {plural(finding.requests, 'request')}; {finding.rule}"
    parts: list[RenderableType] = [head, Text(kind, style="dim"), Text(), Text(finding.why)]
    if finding.fixes:
        parts += [Text(), title("What to change")]
    return Group(*parts)


def _between(finding: FindingModel) -> RenderableType:
    parts: list[RenderableType] = [hanging("Won't help: ", text) for text in finding.wont_help]
    parts += [Text()] if parts else []
    return Group(*parts, title("Evidence"))


def _below(finding: FindingModel) -> RenderableType:
    parts: list[RenderableType] = [title("How to check"), Text(finding.verify)]
    if finding.sources:
        parts += [Text(), title("Sources"), Text(", ".join(finding.sources))]
    return Group(*parts)
