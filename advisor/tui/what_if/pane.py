"""The tab of what-if: fixes to tick, and what they would have made of these requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Container, VerticalScroll
from textual.widgets import Static

from advisor.tui.pane import WAITING, Pane
from advisor.tui.what_if.before_after import BeforeAfter
from advisor.tui.what_if.checklist import Checklist
from rules.what_if import WhatIf

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from advisor.live.view import Judged, View

NOTHING = "No fix has a price here: none of the findings says how much time it would save."
NO_REQUESTS = "This log tells no single requests, so nothing can be recomputed on them."


class WhatIfPane(Pane):
    """Fixes, and the phase bar and times that they lead to."""

    SCOPED_CSS = False
    DEFAULT_CSS = """
    WhatIfPane {
        & > #nothing {
            height: auto;
            padding: 0 1;
            display: none;
        }
        & > #choices {
            height: 1fr;
        }
        & Checklist {
            max-height: 45%;
        }
        & #outcome {
            height: 1fr;
            border-top: solid $foreground 30%;
        }
    }
    .-wide WhatIfPane {
        & > #choices {
            layout: horizontal;
        }
        & Checklist {
            width: 5fr;
            height: 100%;
            max-height: 100%;
        }
        & #outcome {
            width: 6fr;
            border-top: none;
            border-left: solid $foreground 30%;
        }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._judged: Judged | None = None
        self._what_if: WhatIf | None = None

    def compose(self) -> ComposeResult:
        """A sentence where nothing can be chosen, what can be chosen, and the outcome."""
        yield Static(id="nothing", markup=False)
        with Container(id="choices"):
            yield Checklist()
            with VerticalScroll(id="outcome", can_focus=False):
                yield BeforeAfter()

    def focus_main(self) -> None:
        """Let the keys move among the fixes."""
        self.query_one(Checklist).focus()

    def show(self, view: View) -> None:
        """Draw what can be chosen, by what the rules said last."""
        judged = view.judged
        if judged is None:
            self._say(WAITING)
        elif judged is not self._judged:
            self._judged = judged
            self._what_if = WhatIf(judged.measures, judged.diagnosis.parts)
            has_requests = judged.measures.generations.height > 0
            self._say("" if self._what_if.priced else NOTHING if has_requests else NO_REQUESTS)
            checklist = self.query_one(Checklist)
            checklist.show(self._what_if)
            checklist.display = checklist.option_count > 0
            self.query_one("#outcome").display = has_requests
            self._show_outcome()

    def _say(self, words: str) -> None:
        said = self.query_one("#nothing", Static)
        said.update(words)
        said.display = bool(words)

    def on_checklist_changed(self, event: Checklist.Changed) -> None:
        """Recompute the requests."""
        event.stop()
        self._show_outcome()

    def _show_outcome(self) -> None:
        if self._what_if is not None and self._judged is not None:
            chosen = self.query_one(Checklist).chosen
            after, ttft_from = self._what_if.after(chosen), self._judged.analysis.summary.ttft_from
            self.query_one(BeforeAfter).show(self._what_if.before, after, len(chosen), ttft_from)
