"""The line on top: what is read, how far, and whether it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual.widgets import Static

from advisor.report.page import named
from rules.words import plural, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.events import Resize

    from advisor.live.session import Status
    from advisor.live.view import View

_MARKS = {"paused": "⏸", "ended": "■", "waiting": "◌", "live": "●", "reading": "…"}
_LEAST_CELLS = 8
"""Of a name that is cut."""


class StatusLine(Static):
    """One line about the sources."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[View, bool] | None = None
        self._said = Text()

    def show(self, view: View, *, paused: bool) -> None:
        """Say what is read, how far, and whether it goes on."""
        self._shown = view, paused
        said = status_text(view, self.content_size.width, paused=paused)
        if said != self._said:
            self._said = said
            self.update(said)

    def on_resize(self, event: Resize) -> None:
        """There is other room for the names."""
        if self._shown is not None:
            view, paused = self._shown
            self.show(view, paused=paused)


def status_text(view: View, width: int, *, paused: bool) -> Text:
    """The line; where it is longer than ``width`` cells, the longest names are cut, and no number."""
    sources, totals = view.statuses, view.totals
    state = "paused" if paused else _state(view)
    happened = [_happened(one) for one in sources if one.note and (one.ended or _is_waiting(one))]
    if len(sources) == 1:
        whom = happened.pop() if happened else [_name(named([sources[0].name], ""))]
    else:
        whom = [_said(f"{len(sources)} sources")]
    engines = sorted({one.engine for one in sources if one.engine})
    facts = [
        _said(", ".join(engines) or "no engine recognised yet"),
        _name((view.judged.analysis.setup.model or "") if view.judged else ""),
        _said(plural(totals.requests, "request") if totals.requests else ""),
        _said(plural(n, "interval") if (n := totals.rows["intervals"]) else ""),
        _said(f"{size(sum(one.bytes for one in sources))} read" if state == "reading" else ""),
    ]
    head = [_said(f"{_MARKS[state]} {state}  "), *whom, _said("  ")]
    parts = [*([fact] for fact in facts if fact.text), *happened]
    rest = [piece for part in parts for piece in (_said(" · "), *part)][1:]
    texts = _fitted([*head, *rest], width)
    line = Text("".join(texts[: len(head)]), style="bold", no_wrap=True, overflow="ellipsis")
    return line + Text("".join(texts[len(head) :]), style="not bold")


def _state(view: View) -> str:
    """Live is only what all sources have come to."""
    if view.ended:
        return "ended"
    going_on = [one for one in view.statuses if not one.ended]
    if any(_is_waiting(one) for one in going_on):
        return "waiting"
    return "live" if all(one.is_live for one in going_on) else "reading"


def _is_waiting(one: Status) -> bool:
    """Whether it has told nothing at all yet."""
    return not (one.ended or one.bytes)


class _Piece(NamedTuple):
    text: str
    can_be_cut: bool


def _name(text: str) -> _Piece:
    return _Piece(text, can_be_cut=True)


def _said(text: str) -> _Piece:
    return _Piece(text, can_be_cut=False)


def _happened(one: Status) -> list[_Piece]:
    """A source and what happened to it; what follows from that is left out."""
    what = one.note.removeprefix(f"{one.name}: ").partition(";")[0]
    return [_name(one.name), _said(f": {what.removesuffix('.')}")]


def _fitted(pieces: Sequence[_Piece], width: int) -> list[str]:
    """The texts in so many cells, as far as that leaves something of each that can be cut."""
    cells = [cell_len(piece.text) for piece in pieces]
    names = [at for at, piece in enumerate(pieces) if piece.can_be_cut]
    while names and sum(cells) > width:
        longest = max(names, key=cells.__getitem__)
        if cells[longest] <= _LEAST_CELLS:
            break
        cells[longest] -= 1
    return [_without_middle(piece.text, room) for piece, room in zip(pieces, cells, strict=True)]


def _without_middle(text: str, cells: int) -> str:
    """A path's end says more than its beginning."""
    if cell_len(text) <= cells:
        return text
    first = set_cell_size(text, (cells - 1) // 3)
    last = set_cell_size(text[::-1], cells - 1 - cell_len(first))[::-1]
    return f"{first}…{last}"
