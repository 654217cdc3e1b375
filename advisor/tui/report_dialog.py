"""Asks for a file's name, and writes a report of what is kept now."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from advisor.errors import InputError
from advisor.output import format_of, target, write_text
from advisor.report.written import ENDINGS, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from advisor.live.session import Session
    from advisor.options import ReportFormat

ASK = "Markdown, HTML or JSON, by the ending: .md, .html, .json"


class ReportDialog(ModalScreen[None]):
    """A file name, and Write or Cancel.

    Args:
        session: whose rows and findings are reported.
        command: the words of the command line, for the report's last section.
    """

    DEFAULT_CSS = """
    ReportDialog {
        align: center middle;
        & > Vertical {
            width: 70;
            max-width: 100%;
            height: auto;
            max-height: 100%;
            padding: 1 2;
            border: round $accent;
            background: $panel;
            border-title-style: bold;
        }
        & Horizontal {
            height: auto;
            align-horizontal: right;
        }
        & Button {
            margin-left: 2;
        }
        & #said {
            height: auto;
            padding: 0 1;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "cancel", "Cancel")]

    def __init__(self, session: Session, command: Sequence[str]) -> None:
        super().__init__()
        self._session = session
        self._command = command
        self._may_replace: Path | None = None
        self._writing = False

    def compose(self) -> ComposeResult:
        """The name, a sentence about it, and two buttons."""
        with Vertical() as box:
            box.border_title = "Write a report"
            yield Input(proposed(), select_on_focus=False)
            yield Static(ASK, id="said", markup=False)
            with Horizontal():
                yield Button("Write", variant="primary", id="write")
                yield Button("Cancel", id="cancel")

    def on_input_changed(self) -> None:
        """Another name has another answer."""
        self._may_replace = None
        self._say(ASK, "Write")

    def on_input_submitted(self) -> None:
        """Enter writes."""
        self._ask()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Write, or don't."""
        if event.button.id == "write":
            self._ask()
        else:
            self.action_cancel()

    def action_cancel(self) -> None:
        """Go back; a report that is being written is finished all the same."""
        self.dismiss()

    def _ask(self) -> None:
        """Write to the file that is named; one that exists only after a second yes."""
        if self._writing:
            return
        name = self.query_one(Input).value.strip()
        try:
            path, kind = place(name, [tail.name for tail in self._session.tails])
            exists = path.exists()
        except InputError as error:
            self._say(str(error), "Write")
            return
        except OSError as error:
            self._say(f"{name}: can't be written ({error.strerror or error}).", "Write")
            return
        if exists and path != self._may_replace:
            self._may_replace = path
            self._say(f"{path} exists already. Press Enter again to replace it.", "Replace")
            return
        self._writing = True
        self._say(f"Writing {path} …", "Write")
        self._write(path, kind)

    def _say(self, words: str, button: str) -> None:
        self.query_one("#said", Static).update(words)
        self.query_one("#write", Button).label = button

    @work(thread=True)
    def _write(self, path: Path, kind: ReportFormat) -> None:
        from advisor.ticket import report

        session = self._session
        try:
            made, rows = report(session.reading(), session.options.at_any_time, self._command)
            write_text(text_of(made, rows, kind), path)
        except InputError as error:
            self.app.call_from_thread(self._failed, str(error))
        else:
            self.app.call_from_thread(self._written, path)

    def _failed(self, why: str) -> None:
        self._writing = False
        if self.is_attached:
            self._say(why, "Write")
        else:
            self.app.notify(why, severity="error", markup=False)

    def _written(self, path: Path) -> None:
        self._writing = False
        self.app.notify(str(path.resolve()), title="Report written", markup=False)
        if self.is_attached:
            self.dismiss()


def proposed() -> str:
    """``phasewise-20261130T055327Z.md``: a name that sorts by time and that every system takes."""
    return f"phasewise-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.md"


def place(name: str, sources: Sequence[str]) -> tuple[Path, ReportFormat]:
    """Where to write, and in which format.

    Args:
        name: as typed; ``~`` is the home folder.
        sources: what is read.

    Raises:
        InputError: nothing can be written there.
    """
    if not name or name == "-":
        raise InputError("Name a file, such as report.md.")
    try:
        path = Path(name).expanduser()
    except RuntimeError:
        raise InputError(f"{name}: there is no such home folder.") from None
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"{name}: end the name with .md, .html or .json.")
    kind = format_of(path, None, ENDINGS, ENDINGS[".md"])
    written = target(path, [source for source in sources if "://" not in source])
    return written or path, kind
