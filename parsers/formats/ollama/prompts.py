"""What Ollama's log says of a prompt before its request ends: that it was cut, and what was cached."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from parsers.formats.ollama.access import Access
    from parsers.records import Request

_KEPT = 64


class Prompts:
    """The last cuts and slots that no request has claimed."""

    def __init__(self) -> None:
        self._cuts: deque[tuple[int, int]] = deque(maxlen=_KEPT)
        self._slots: deque[tuple[datetime, dict[str, int]]] = deque(maxlen=_KEPT)

    def cut(self, line: int, tokens_left: int) -> None:
        """A prompt was cut to this length."""
        self._cuts.append((line, tokens_left))

    def slot(self, time: datetime, counts: dict[str, int]) -> None:
        """A Go engine chose a slot: ``prompt`` tokens, of them ``used`` again, and ``remaining``."""
        self._slots.append((time, counts))

    def mark_cut(self, row: Request) -> None:
        """A prompt of just the length that Ollama cut one to, since, is that one."""
        for cut in self._cuts:
            if cut[1] == row.prompt_tokens and cut[0] < row.line:
                self._cuts.remove(cut)
                row.truncated = True
                return

    def add_reuse(self, row: Request, access: Access) -> None:
        """Add what was cached, where exactly one slot was chosen while the request ran."""
        chosen = [slot for slot in self._slots if access.may_hold(slot[0])]
        if len(chosen) == 1:
            self._slots.remove(chosen[0])
            counts = chosen[0][1]
            row.prompt_tokens, row.cached_tokens = counts["prompt"], counts["used"]
            row.prefill_tokens = counts["remaining"]
            self.mark_cut(row)
