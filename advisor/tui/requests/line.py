"""A request in one line: its cells, and its time as a bar of phases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style

from advisor.report.page import bar_of
from advisor.tui.phases import COLOURS, phase_ms
from advisor.tui.requests.columns import fitted
from rules.words import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.tui.requests.columns import Column, Row

_STYLES = {phase: Style(color=colour) for phase, colour in COLOURS.items()}
_CURSOR = "›"
_UNSPLIT = "─"
"""A total of which no phase is known."""


def heading(columns: Sequence[Column], by: str, *, is_descending: bool, scale_ms: float | None) -> str:
    """The titles, with an arrow at the one that is sorted by, and how long the bar is."""
    arrow = "▼" if is_descending else "▲"
    titles = (
        fitted(f"{arrow if column.name == by else ''}{column.title}", column.width, left=column.is_text)
        for column in columns
    )
    bar = "shares" if scale_ms is None else f"0 to {duration(scale_ms)}" if scale_ms else ""
    return f" {' '.join(titles)} {bar}"


def line(
    row: Row, columns: Sequence[Column], width: int, *, is_cursor: bool, scale_ms: float | None, dim: Style
) -> list[Segment]:
    """A request's cells, and its bar.

    Args:
        row: the request.
        columns: of the cells.
        width: of the bar, in cells.
        is_cursor: whether the cursor is on it.
        scale_ms: as much time as the bar is wide; ``None`` for all bars as wide as there is room.
        dim: how what matters less is written.
    """
    cells = " ".join(column.cell(row) for column in columns)
    return [Segment(f"{_CURSOR if is_cursor else ' '}{cells} "), *_bar(row, width, scale_ms, dim)]


def _bar(row: Row, width: int, scale_ms: float | None, dim: Style) -> list[Segment]:
    """How a request's time is made up; what kind it is, if it generates no text."""
    mark = "" if row["kind"] == "generation" else f"{row['kind']} "
    segments = [Segment(mark, dim)] if mark else []
    width = max(width - len(mark), 0)
    total_ms = row["total_ms"]
    if scale_ms is not None:
        width = min(max(round(width * total_ms / scale_ms), 1), width) if total_ms and scale_ms else 0
    parts = bar_of(phase_ms(row), width)
    if parts:
        return segments + [Segment(part.glyph * part.cells, _STYLES[part.phase]) for part in parts]
    return [*segments, Segment(_UNSPLIT * (width if total_ms else 0), dim)]
