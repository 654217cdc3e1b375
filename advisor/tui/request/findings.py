"""The findings that a request counts in, and what their first fix would have saved on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.widgets.option_list import Option

from advisor.tui.names import of_parts
from advisor.tui.option_list import List
from advisor.tui.request.neighbours import NOT_YET, ONLY_GENERATIONS, is_same
from rules.savings import saved_ms
from rules.words import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from textual.binding import BindingType

    from advisor.diagnosis import Diagnosis
    from rules.rule import Finding

_LEAST_MS = 1.0


@dataclass(frozen=True, slots=True)
class Counted:
    """A finding that a request counts in.

    Attributes:
        finding: which.
        name: what `advisor.tui.names.named` calls it.
        saved_ms: by how much its first fix would have made this request faster; ``None`` if it claims none.
        evidence: what the request's own lines are evidence of, in the finding's words.
    """

    finding: Finding
    name: str
    saved_ms: float | None
    evidence: tuple[str, ...]

    @property
    def said(self) -> str:
        """In a sentence, without the finding's title."""
        parts = []
        if self.saved_ms is not None:
            saving = self.finding.saving
            about = "at most" if saving is not None and saving.bound == "at_most" else "about"
            parts.append(f"this request would have been {about} {duration(self.saved_ms)} faster")
        if self.evidence:
            parts.append(f"evidence of {' and '.join(f'“{label}”' for label in self.evidence)}")
        return "; ".join(parts)


def counted(diagnosis: Diagnosis, row: Mapping[str, Any], lines: Iterable[int] = ()) -> list[Counted] | None:
    """The findings that a request counts in, those that save most on it first; ``None`` if it was not judged.

    Args:
        diagnosis: what the rules said.
        row: the request.
        lines: of its events.
    """
    own = {row["line"], *lines}
    found: list[Counted] = []
    is_judged = False
    for (measures, findings), names in zip(diagnosis.parts, of_parts(diagnosis), strict=True):
        places = measures.generations.select(is_it=is_same(row)).to_series().arg_true()
        is_judged |= places.len() > 0
        for finding, name in zip(findings, names, strict=True) if places.len() else ():
            ms = None
            if finding.change is not None and finding.saving is not None:
                ms = float(saved_ms(measures.ledger, finding.change)[places[0]])
            evidence = tuple(
                one.label for one in finding.evidence if any(_is_own(ref, row, own) for ref in one.lines)
            )
            ms = ms if ms is not None and ms >= _LEAST_MS else None
            if ms is not None or evidence:
                found.append(Counted(finding, name, ms, evidence))
    return sorted(found, key=lambda one: -(one.saved_ms or 0.0)) if is_judged else None


def _is_own(ref: Any, row: Mapping[str, Any], lines: set[int]) -> bool:
    return ref.source == row["source"] and ref.line in lines


class RequestFindings(List):
    """Those findings; one is chosen to be looked at."""

    DEFAULT_CSS = """
    RequestFindings {
        height: auto;
        border: none;
        padding: 0;
        background: transparent;
    }
    RequestFindings:focus {
        border: none;
    }
    RequestFindings > .option-list--option {
        padding: 0;
    }
    RequestFindings > .option-list--option-disabled {
        color: $text;
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [("enter", "select", "Open the finding")]

    def on_focus(self) -> None:
        """Whoever comes here can open the first at once."""
        if self.highlighted is None:
            self.action_first()
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A sentence can't be opened."""
        is_told = action != "select" or self.highlighted is not None
        return is_told and super().check_action(action, parameters)

    def say(self, sentence: str) -> None:
        """A sentence in place of findings."""
        self.clear_options()
        self.add_option(Option(Text(sentence), disabled=True))

    def show(self, findings: Sequence[Counted] | None, kind: str) -> None:
        """Each with what it would have saved, or why there are none.

        Args:
            findings: ``None`` before the rules have looked at the request.
            kind: of the request.
        """
        if kind != "generation":
            self.say(ONLY_GENERATIONS)
        elif findings is None:
            self.say(NOT_YET)
        elif not findings:
            self.say("No finding rests on it, and none of their fixes would have changed it.")
        else:
            at = self.highlighted
            self.set_options(Option(_option(one), id=one.name) for one in findings)
            if self.has_focus:
                self.highlighted = min(at or 0, len(findings) - 1)


def _option(one: Counted) -> Text:
    return Text(f"• {one.finding.title}\n") + Text(f"  {one.said}", style="dim")
