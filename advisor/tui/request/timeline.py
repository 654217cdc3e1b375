"""One request on its clock: a bar of its phases, and when each began."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text
from textual.widget import Widget

from advisor.report.page import bar_of
from advisor.tui.phases import COLOURS, phase_ms, phase_text
from rules.words import duration, percent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType

_NAME, _MS, _SHARE = 10, 12, 6


class Timeline(Widget):
    """A request's bar, the moment of its first token, and a line for each phase."""

    DEFAULT_CSS = """
    Timeline {
        height: auto;
    }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._row: Mapping[str, Any] = {}

    def show(self, row: Mapping[str, Any]) -> None:
        """Draw this request."""
        if row != self._row:
            self._row = row
            self.refresh(layout=True)

    def render(self) -> RenderableType:
        """The bar between its begin and its end."""
        if not self._row:
            return ""
        ms, width = phase_ms(self._row), self.size.width or 1
        parts = bar_of(ms, width)
        if not parts:
            total_ms = self._row["total_ms"]
            known = (
                "How long it took, this log does not say." if total_ms is None else f"{duration(total_ms)}"
            )
            return Text(known, style="dim")
        ends = list(accumulate(part.ms for part in parts))
        bar = phase_text(ms, width)
        bar.end = "\n"
        lines = [self._axis(ends[-1], width), bar, *self._first_token(ends[-1], width)]
        for part, end in zip(parts, ends, strict=True):
            when = (
                "somewhere in its time"
                if part.phase == "other"
                else f"{duration(end - part.ms)} to {duration(end)}"
            )
            line = Text(f"{part.glyph} {part.phase:<{_NAME}}", COLOURS[part.phase], no_wrap=True)
            line.append(
                f"{duration(part.ms):>{_MS}}{percent(part.share):>{_SHARE}}   {when}", "not bold default"
            )
            lines.append(line)
        return Group(*lines)

    def _axis(self, total_ms: float, width: int) -> Text:
        end = duration(total_ms)
        return Text(f"0{end:>{max(width - 1, len(end))}}", style="dim", no_wrap=True, overflow="crop")

    def _first_token(self, total_ms: float, width: int) -> list[Text]:
        """Where on the bar its first token came."""
        ttft_ms = self._row["ttft_ms"]
        if ttft_ms is None:
            return []
        waited_ms = (self._row["queue_ms"] or 0.0) if self._row["ttft_from"] == "slot" else 0.0
        if not 0 < waited_ms + ttft_ms <= total_ms:
            return []
        at = min(int(width * (waited_ms + ttft_ms) / total_ms), width - 1)
        said = f"first token, {duration(waited_ms + ttft_ms)}"
        line = f"{' ' * at}▲ {said}" if at + 2 + len(said) <= width else f"{f'{said} ':>{at}}▲"
        return [Text(line, no_wrap=True, overflow="crop")]
