"""One request on its clock: a bar of its phases, and when each began."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text
from textual.widget import Widget

from advisor.tui.phases import COLOURS
from advisor.tui.request.stretches import exceeds_total, stretches, token_ms
from rules.words import duration, percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from advisor.tui.request.stretches import Stretch

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
        parts, width, total_ms = stretches(self._row), self.size.width or 1, self._row["total_ms"]
        if not parts:
            known = (
                "How long it took, this log does not say." if total_ms is None else f"{duration(total_ms)}"
            )
            return Text(known, style="dim")
        end_ms = sum(part.ms for part in parts)
        lines = [_axis(end_ms, width), _bar(parts, width), *self._first_token(end_ms, width)]
        lines += [_line(part) for part in parts]
        if exceeds_total(self._row):
            said = (
                f"Its total is {duration(total_ms)}: not all of these are in it, the log does not say which."
            )
            lines.append(Text(said))
        return Group(*lines)

    def _first_token(self, end_ms: float, width: int) -> list[Text]:
        """Where on the bar its first token came."""
        at_ms = token_ms(self._row)
        if at_ms is None or not 0 < at_ms <= end_ms:
            return []
        at = min(int(width * at_ms / end_ms), width - 1)
        said = f"first token, {duration(at_ms)}"
        line = f"{' ' * at}▲ {said}" if at + 2 + len(said) <= width else f"{f'{said} ':>{at}}▲"
        return [Text(line, no_wrap=True, overflow="crop")]


def _axis(end_ms: float, width: int) -> Text:
    end = duration(end_ms)
    return Text(f"0{end:>{max(width - 1, len(end))}}", style="dim", no_wrap=True, overflow="crop")


def _bar(parts: Sequence[Stretch], width: int) -> Text:
    bar = Text(no_wrap=True, overflow="crop")
    ends = accumulate(part.share for part in parts)
    for part, end in zip(parts, ends, strict=True):
        bar.append(part.glyph * (round(width * end) - len(bar)), COLOURS[part.phase])
    return bar


def _line(part: Stretch) -> Text:
    start_ms = part.start_ms
    when = part.about if start_ms is None else f"{duration(start_ms)} to {duration(start_ms + part.ms)}"
    line = Text(f"{part.glyph} {part.phase:<{_NAME}}", COLOURS[part.phase], no_wrap=True)
    return line.append(
        f"{duration(part.ms):>{_MS}}{percent(part.share):>{_SHARE}}   {when}", "not bold default"
    )
