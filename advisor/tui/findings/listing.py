"""The findings in the order they should be read, and last what the log can't tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.widgets.option_list import Option

from advisor.report.page import bar_of, saved
from advisor.tui.findings.finding import UNTOLD
from advisor.tui.names import named, titles
from advisor.tui.option_list import List
from advisor.tui.phases import COLOURS

if TYPE_CHECKING:
    from advisor.live.view import Judged
    from advisor.model import FindingModel


class FindingList(List):
    """Two lines for each finding: its title; its phase, what it saves, and how sure it is."""

    DEFAULT_CSS = """
    FindingList {
        background: $surface;
        text-wrap: nowrap;
        text-overflow: ellipsis;
    }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, compact=True, markup=False)
        self._prompts: dict[str, Text] = {}

    @property
    def chosen(self) -> str | None:
        """The id of what is chosen."""
        option = self.highlighted_option
        return option.id if option else None

    def show(self, judged: Judged, wanted: str | None) -> None:
        """Draw these findings; what is chosen stays chosen.

        Args:
            judged: what was found.
            wanted: what to choose in place of that.
        """
        analysis, said = judged.analysis, titles(judged)
        prompts = {name: _prompt(finding, said[name]) for name, finding in named(analysis).items()}
        if count := len(analysis.caveats) + len(analysis.unanswered):
            prompts[UNTOLD] = Text(f"{UNTOLD} ({count})", style="italic")
        stays = None if [*self._prompts] == [UNTOLD] else self.chosen
        chosen = wanted if wanted in prompts else stays
        if list(prompts) != list(self._prompts):
            self.set_options(Option(prompt, name) for name, prompt in prompts.items())
        else:
            for name, prompt in prompts.items():
                if prompt != self._prompts[name]:
                    self.replace_option_prompt(name, prompt)
        self._prompts = prompts
        if prompts:
            self.highlighted = self.get_option_index(chosen if chosen in prompts else next(iter(prompts)))


def _prompt(finding: FindingModel, title: str) -> Text:
    said = ([saved(finding.saving)] if finding.saving else []) + [str(finding.confidence)]
    head = Text.assemble((title, "bold"), "\n  ", phase_named(str(finding.phase)))
    return head.append(f", {', '.join(said)}")


def phase_named(phase: str) -> Text:
    """``█ prefill``; what is in no bar has no glyph."""
    glyphs = [part.glyph for part in bar_of({phase: 1.0}, 1)]
    return Text.assemble(*((f"{glyph} ", COLOURS[phase]) for glyph in glyphs), phase)
