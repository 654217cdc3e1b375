"""Two phase bars on one scale, and the times of phases and requests: as it was, and as it would be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual.widget import Widget

from advisor.model import SavingModel
from advisor.report.page import bar_of, saved
from advisor.tui.phases import COLOURS, phase_text
from rules.measures import FEW
from rules.savings import significant
from rules.what_if import at
from rules.words import duration, percent, plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from rules.what_if import Outcome

_PERCENTILES = {"p50": 0.5, "p95": 0.95}
_NAME = len("before ")


class BeforeAfter(Widget):
    """What the ticked fixes would have changed."""

    DEFAULT_CSS = """
    BeforeAfter {
        height: auto;
        padding: 0 1;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._before: Outcome | None = None
        self._after: Outcome | None = None
        self._fixes = 0
        self._ttft_from: str | None = None

    def show(self, before: Outcome, after: Outcome, fixes: int, ttft_from: str | None) -> None:
        """Draw these.

        Args:
            before: as it was.
            after: as it would be.
            fixes: how many are ticked.
            ttft_from: where the clock of the first token starts, as far as it is one.
        """
        self._before, self._after = before, after
        self._fixes, self._ttft_from = fixes, ttft_from
        self.refresh(layout=True)

    def render(self) -> RenderableType:
        """What is saved, both bars, and a table."""
        if self._before is None or self._after is None:
            return Text()
        before, after, width = self._before, self._after, self.size.width or 1
        said = Text(_said(after, self._fixes, len(before.total_ms)), style="bold" if after.saving else "")
        bars = [_bar("before", before, before, width), _bar("after", after, before, width), Text()]
        return Group(said, Text(), *(bars if _sum(before) else []), self._table(before, after))

    def _table(self, before: Outcome, after: Outcome) -> Table:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        for _ in range(3):
            grid.add_column(justify="right", no_wrap=True)
        about = "after, about" if after.saving else "after"
        grid.add_row("", Text("before", "dim"), Text(about, "dim"), "")
        digits = _digits(len(before.total_ms))
        for name, was, then in _phases(before, after):
            left = max(was - significant(was - then, digits), 0.0)
            grid.add_row(name, duration(was), duration(left), _change(was, left))
        for name, was, then in self._percentiles(before, after):
            left = min(significant(then, digits), was) if then < was else was
            grid.add_row(name, duration(was), duration(left), _change(was, left))
        return grid

    def _percentiles(self, before: Outcome, after: Outcome) -> Iterable[tuple[Text, float, float]]:
        start = f" (from {self._ttft_from})" if self._ttft_from else ""
        for name, column in ((f"TTFT{start}", "ttft_ms"), ("total", "total_ms")):
            for label, share in _PERCENTILES.items():
                was, then = at(getattr(before, column), share), at(getattr(after, column), share)
                if was is not None and then is not None:
                    yield Text(f"{name}, {label}"), was, then


def _bar(name: str, outcome: Outcome, before: Outcome, width: int) -> Text:
    """A bar as long as its time is of the time before."""
    head = Text(f"{name:{_NAME}}", no_wrap=True, overflow="crop")
    whole, room = _sum(before), width - _NAME
    return head + phase_text(outcome.phase_ms, round(room * _sum(outcome) / whole) if whole else 0)


def _phases(before: Outcome, after: Outcome) -> Iterable[tuple[Text, float, float]]:
    """The time of all requests, and of each phase in the bar."""
    if _sum(before):
        yield Text("all requests"), _sum(before), _sum(after)
    for part in bar_of(before.phase_ms, 1):
        name = Text.assemble((part.glyph, COLOURS[part.phase]), f" {part.phase}")
        yield name, part.ms, after.phase_ms[part.phase] or 0.0


def _digits(requests: int) -> int:
    """How exact a saving on so many requests is, as `rules.measures.Measures.saving` has it."""
    return 3 if requests >= FEW else 2


def _sum(outcome: Outcome) -> float:
    return sum(ms for ms in outcome.phase_ms.values() if ms is not None)


def _change(was: float, then: float) -> str:
    return "" if not was or then >= was else f"-{percent(1 - then / was)}"


def _said(after: Outcome, fixes: int, requests: int) -> str:
    these = "this request" if requests == 1 else f"these {plural(requests, 'request')}"
    if after.saving is None:
        return f"Tick a fix to see what it would have changed for {these}."
    what = "It" if fixes == 1 else f"The {fixes} together"
    price = saved(SavingModel.model_validate(after.saving))
    price = price if fixes == 1 else price.replace("saves", "save", 1)
    kind = "an upper bound" if after.saving.bound == "at_most" else "an estimate"
    return f"{what} {price}: {kind}, recomputed on {these}{', not added up' if fixes > 1 else ''}."
