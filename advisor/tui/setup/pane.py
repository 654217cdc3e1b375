"""The tab of the setup: model, memory and devices, where each fact came from, and what was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from textual.containers import Container, VerticalScroll
from textual.widgets import Static

from advisor.report.blocks import hanging, title
from advisor.report.page import named_setup, starts
from advisor.report.tables import facts, sources
from advisor.tui.pane import Pane
from advisor.tui.setup.process_starts import rows as start_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType
    from textual.app import ComposeResult

    from advisor.live.view import Judged, View
    from advisor.model import Analysis

WAITING = "No facts yet: they are gathered when the rules are asked."

_WANTED = {
    "model": "model",
    "quantization": "quantisation",
    "layers_offloaded": "layers on GPU",
    "context": "context",
    "kv_bytes": "KV cache",
    "devices": "devices",
}
"""What most rules want to know, and what to call it."""

_TOLD_BY = "The options --gguf FILE, --props URL and --device NAME tell what a log does not."


class SetupPane(Pane):
    """Facts and their origins."""

    SCOPED_CSS = False
    DEFAULT_CSS = """
    SetupPane {
        & > VerticalScroll {
            padding: 0 1;
        }
        & #columns, & #facts, & #others {
            height: auto;
        }
        & Static {
            height: auto;
            margin-bottom: 1;
        }
    }
    .-wide SetupPane {
        & #columns {
            layout: horizontal;
        }
        & #facts, & #others {
            width: 1fr;
        }
        & #facts {
            margin-right: 2;
        }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._judged: Judged | None = None
        self._notes: list[str] | None = None

    def compose(self) -> ComposeResult:
        """The facts, the process starts, what was read, and what happened to it."""
        with VerticalScroll(), Container(id="columns"):
            yield Static(id="facts", markup=False)
            with Container(id="others"):
                for part in ("starts", "sources", "notes"):
                    yield Static(id=part, markup=False)

    def focus_main(self) -> None:
        """Let the keys scroll."""
        self.query_one(VerticalScroll).focus()

    def show(self, view: View) -> None:
        """Draw what is known by what the rules said last."""
        if view.judged is None:
            self._put("facts", Text(WAITING))
        elif view.judged is not self._judged:
            self._judged = view.judged
            analysis = view.judged.analysis
            self._put("facts", Group(title("Setup"), *_facts(analysis)))
            told = start_rows(view.judged.measures)
            self._put("starts", Group(title("Process starts"), _table(told)) if told else None)
            self._put("sources", Group(title("Sources"), *_sources(analysis)))
        notes = [note_of(status.name, status.note) for status in view.statuses if status.note]
        if notes != self._notes:
            self._notes = notes
            said = Group(title("What happened to them"), *(hanging("- ", note) for note in notes))
            self._put("notes", said if notes else None)

    def _put(self, part: str, drawn: RenderableType | None) -> None:
        place = self.query_one(f"#{part}", Static)
        place.update(drawn or "")
        place.display = drawn is not None


def note_of(name: str, note: str) -> str:
    """What happened to a source, under its name; many notes begin with it themselves."""
    return note if note.startswith(name) else f"{name}: {note}"


def _facts(analysis: Analysis) -> list[RenderableType]:
    told, setup = facts(analysis), analysis.setup
    where = f"Log lines are those of {setup.source}." if setup.source and len(analysis.sources) > 1 else ""
    said = (named_setup(analysis), " ".join(filter(None, (starts(analysis), where))))
    parts: list[RenderableType] = [Text(words) for words in said if words]
    parts += [Text(), _table(told)] if told else []
    lacking = [name for fact, name in _WANTED.items() if getattr(setup, fact) in (None, [])]
    if lacking:
        parts += [Text(), Text(f"Not told: {', '.join(lacking)}. {_TOLD_BY}")]
    return parts


def _sources(analysis: Analysis) -> Iterator[RenderableType]:
    """What was read: each log in two lines, amounts that are none left out."""
    (_, *names), *rows = sources(analysis)
    for path, *cells in rows:
        told = zip(names, cells, strict=True)
        amounts = [_amount(name, cell) for name, cell in told if cell not in ("", "0")]
        yield Text(path, overflow="fold")
        yield Padding(Text(", ".join(amounts)), (0, 0, 0, 2))


def _amount(name: str, cell: str) -> str:
    """``269 lines``, ``1 aborted request``; an engine and a size say what they are."""
    if name in ("engine", "size"):
        return cell
    return f"{cell} {name.removesuffix('s') if cell == '1' else name}"


def _table(rows: Sequence[tuple[str, ...]]) -> Table:
    """Rows under their header; what is too long for its column goes on in the next line."""
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim", show_edge=False)
    header, *body = rows
    for place, name in enumerate(header):
        is_number = place > 0 and all(_is_number(row[place]) for row in body)
        grid.add_column(
            Text(name), overflow="fold", justify="right" if is_number else "left", no_wrap=is_number
        )
    for row in body:
        grid.add_row(*(Text(cell) for cell in row))
    return grid


def _is_number(cell: str) -> bool:
    return not cell or cell[:1].isdigit()
