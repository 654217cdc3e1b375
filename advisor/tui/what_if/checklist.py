"""What can be chosen, each with a box to tick; and what can't, with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.message import Message
from textual.widgets.option_list import Option

from advisor.model import SavingModel
from advisor.report.page import saved
from advisor.tui.findings.listing import phase_named
from advisor.tui.option_list import List

if TYPE_CHECKING:
    from textual.binding import BindingType

    from rules.what_if import Choice, WhatIf

_TICKED, _OPEN, _NONE = "[x] ", "[ ] ", " -  "
_INDENT = " " * len(_OPEN)


class Checklist(List):
    """Fixes to tick."""

    DEFAULT_CSS = """
    Checklist {
        background: $surface;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        & > .option-list--option-disabled {
            color: $text-muted;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("space", "select", "Try this fix"),
        ("a", "all", "Try all or none"),
    ]

    class Changed(Message):
        """Something was ticked, or no longer is."""

    def __init__(self) -> None:
        super().__init__(compact=True, markup=False)
        self.ticked: set[str] = set()
        self._choices: dict[str, Choice] = {}
        self._shown: list[tuple[str, Text]] = []

    def show(self, what_if: WhatIf) -> None:
        """Draw these choices; what is ticked stays ticked."""
        self._choices = {choice.id: choice for choice in what_if.priced}
        prompts = [(choice.id, self._prompt(choice)) for choice in what_if.priced]
        prompts += [(choice.id, _reason(choice)) for choice in what_if.unpriced]
        if [name for name, _ in prompts] == [name for name, _ in self._shown]:
            self._redraw(prompts)
            return
        option = self.highlighted_option
        self.set_options(Option(text, name, disabled=name not in self._choices) for name, text in prompts)
        self._shown = prompts
        if self._choices:
            kept = option is not None and option.id in self._choices
            self.highlighted = self.get_option_index(str(option.id)) if option and kept else 0

    def _redraw(self, prompts: list[tuple[str, Text]]) -> None:
        """Draw the same choices, those that changed."""
        for (name, text), (_, shown) in zip(prompts, self._shown, strict=True):
            if text != shown:
                self.replace_option_prompt(name, text)
        self._shown = prompts

    @property
    def chosen(self) -> list[str]:
        """What is ticked of what can be chosen."""
        return [name for name in self._choices if name in self.ticked]

    def on_option_list_option_selected(self, event: List.OptionSelected) -> None:
        """Tick it, or take the tick away."""
        event.stop()
        self._tick({str(event.option_id)} ^ self.ticked)

    def action_all(self) -> None:
        """Tick all; where all are ticked, none."""
        self._tick(set() if set(self._choices) <= self.ticked else self.ticked | set(self._choices))

    def _tick(self, ticked: set[str]) -> None:
        self.ticked = ticked
        self._redraw(
            [
                (name, self._prompt(self._choices[name]) if name in self._choices else text)
                for name, text in self._shown
            ]
        )
        self.post_message(self.Changed())

    def _prompt(self, choice: Choice) -> Text:
        mark = _TICKED if choice.id in self.ticked else _OPEN
        fix = choice.finding.fixes[0].title if choice.finding.fixes else choice.finding.title
        text = Text.assemble((mark + _told_apart(choice, fix), "bold"), f"\n{_INDENT}")
        for phase in dict.fromkeys(str(finding.phase) for finding in choice.findings):
            text.append_text(phase_named(phase)).append(", ")
        return text.append(f"{saved(SavingModel.model_validate(choice.saving))}, {choice.finding.confidence}")


def _reason(choice: Choice) -> Text:
    """Why a finding has no price."""
    if choice.instead_of is not None:
        why = f"no price: its switch is set to another value for: {choice.instead_of.title}"
    else:
        why = "no price: what it saves can't be computed from this log"
    return Text(f"{_NONE}{_told_apart(choice, choice.finding.title)}\n{_INDENT}{why}")


def _told_apart(choice: Choice, title: str) -> str:
    """Under the engine's or model's name, where findings are about several; titles may have a model's."""
    model = choice.about.rpartition(", ")[2]
    return f"{choice.about}: {title.removeprefix(f'{model}: ')}" if choice.about else title
