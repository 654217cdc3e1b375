"""The line on top: what is read, how far, and whether it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.widgets import Static

from rules.words import plural, size

if TYPE_CHECKING:
    from advisor.live.view import View


class StatusLine(Static):
    """One line about the sources."""

    def show(self, view: View, *, paused: bool) -> None:
        """Say what is read, how far, and whether it goes on."""
        state = "paused" if paused else "ended" if view.ended else "live" if _is_live(view) else "reading"
        mark = {"paused": "⏸", "ended": "■", "live": "●", "reading": "…"}[state]
        names = [status.name for status in view.statuses]
        what = (
            "standard input" if names == ["-"] else names[0] if len(names) == 1 else f"{len(names)} sources"
        )
        engines = sorted({status.engine for status in view.statuses if status.engine})
        read = sum(status.bytes for status in view.statuses)
        said = [
            ", ".join(engines) or "no engine recognised yet",
            _model(view),
            plural(view.totals.requests, "request") if view.totals.requests else "",
            plural(view.totals.rows["intervals"], "interval") if view.totals.rows["intervals"] else "",
            f"{size(read)} read" if state == "reading" else "",
        ]
        self.update(
            Text(f"{mark} {state}  {what}  ", style="bold", no_wrap=True, overflow="ellipsis")
            + Text(" · ".join(filter(None, said)), style="not bold")
        )


def _is_live(view: View) -> bool:
    return all(status.is_live or status.ended for status in view.statuses)


def _model(view: View) -> str:
    return (view.judged.analysis.setup.model or "") if view.judged else ""
