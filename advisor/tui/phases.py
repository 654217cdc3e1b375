"""How screens draw phases: a glyph and a colour for each, so that neither is needed to tell them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from advisor.report.page import PHASES, bar_of

if TYPE_CHECKING:
    from collections.abc import Mapping

COLOURS = {
    "queue": "#e05fa0",
    "load": "#8b83f5",
    "prefill": "#f0a030",
    "decode": "#3fb0e6",
    "other": "#8d949e",
}
"""On dark and on light ground."""


def phase_ms(row: Mapping[str, float | None]) -> dict[str, float | None]:
    """The phases of a request's row."""
    return {phase: row[f"{phase}_ms"] for phase in PHASES}


def phase_text(ms: Mapping[str, float | None], width: int) -> Text:
    """A bar of ``width`` cells, stacked by phase; blank where no phase is known."""
    text = Text(no_wrap=True, overflow="crop", end="")
    for part in bar_of(ms, width):
        text.append(part.glyph * part.cells, COLOURS[part.phase])
    text.append(" " * (width - len(text)))
    return text


def legend_parts(ms: Mapping[str, float | None]) -> list[Text]:
    """What the bar's parts are: ``█ prefill 1.2 s (39 %)``, ``▓ decode 1.9 s (61 %)``."""
    return [Text(part.legend, COLOURS[part.phase]) for part in bar_of(ms, 1)]
