"""gin's access lines, and which finished task of llama-server each of them is about.

gin prints a line when a request has ended: when (local time, whole seconds), how it ended, and how long
it took from arrival. It names neither model nor task. A task's timings stand close to the line, before
or, since llama-server prints through a thread of its own, sometimes after it. The two are one request
only where nothing else could be meant.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, NamedTuple

from parsers.formats.ollama.durations import go_duration_ms, plausible

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from parsers.formats.base import At
    from parsers.records import Request
    from parsers.setup import Setup

_SLACK_MS = 5.0
_WHOLE_SECONDS_FROM_MS = 60_000.0
_NEAR_LINES = 8
_LONG_MS = 1_000.0
_MAX_WAITING = 32


class Run(NamedTuple):
    """One process start of a source: its setup, and the number rows carry."""

    setup: Setup
    number: int


@dataclass(frozen=True, slots=True)
class Access:
    """One gin line.

    Attributes:
        at: where it stands.
        status: the HTTP status.
        route: the path.
        latency_ms: arrival to end; beyond a minute gin drops the fraction of a second.
        finished_at: UTC; the carrier's clock where it has one, else gin's whole second.
        second_ms: how much later than ``finished_at`` it may have ended.
    """

    at: At
    status: int
    route: str
    latency_ms: float
    finished_at: datetime
    second_ms: float

    @property
    def slack_ms(self) -> float:
        """How much longer than ``latency_ms`` it may have taken."""
        return 1_000.0 if self.latency_ms >= _WHOLE_SECONDS_FROM_MS else _SLACK_MS

    @property
    def embeds(self) -> bool:
        """True for the embedding routes."""
        return "embed" in self.route

    @property
    def started_at(self) -> datetime:
        """Arrival, UTC, as exact as the line allows."""
        return self.finished_at - timedelta(milliseconds=self.latency_ms)

    def covers(self, busy_ms: float) -> bool:
        """Can this much work have been done within the request?"""
        return self.latency_ms + self.slack_ms >= busy_ms

    def may_begin_by(self, moment: datetime) -> bool:
        """Can the request have arrived by then?"""
        return self.started_at - timedelta(milliseconds=self.slack_ms) <= moment

    def may_hold(self, moment: datetime) -> bool:
        """Can this moment lie within the request?"""
        return self.may_begin_by(moment) and moment <= self.finished_at + timedelta(
            milliseconds=self.second_ms
        )


def read_access(m: re.Match[bytes], at: At, zone: tzinfo) -> Access | None:
    """The gin line in values; ``None`` where its clock or latency can't be read."""
    latency_ms = go_duration_ms(m["latency"])
    try:
        printed = datetime.strptime(m["time"].decode(), "%Y/%m/%d - %H:%M:%S").replace(tzinfo=zone)
    except ValueError:
        return None
    finished_at = plausible(at.time or printed)
    if latency_ms is None or finished_at is None:
        return None
    second_ms = 0.0 if at.time else 1_000.0
    return Access(
        at, int(m["status"]), m["route"].decode(), latency_ms, finished_at.astimezone(UTC), second_ms
    )


def busy_ms(row: Request) -> float:
    """Prefill and decode of a row together."""
    return (row.prefill_ms or 0.0) + (row.decode_ms or 0.0)


class Pairing:
    """Pairs finished tasks with access lines; gives up rather than guess.

    Args:
        release: lets a row go, with its access line where it is certain.
        losses: how many requests have been counted as aborted or failed so far.
        missed: how many ended well so far of which the log holds only a part: they will never wait here.
    """

    def __init__(
        self,
        release: Callable[[Request, Run, Access | None], None],
        losses: Callable[[], int],
        missed: Callable[[], int],
    ) -> None:
        self._release = release
        self._losses = losses
        self._missed = missed
        self._missed_seen = 0
        self._waiting: deque[tuple[Request, Run]] = deque()
        self._early: Access | None = None
        self._owed = 0
        self._losses_seen = 0

    def row(self, row: Request, run: Run, at: At | None) -> None:
        """A task's timings are whole.

        Args:
            row: them.
            run: the model that served it.
            at: the line that completes them, where there is one.
        """
        self._let_go_of_stale(row)
        early = self._early
        if early is not None and row.line > early.at.number:
            self._early = None
            if self._is_about(early, row, at):
                self._release(row, run, early)
                return
        self._waiting.append((row, run))
        if len(self._waiting) > _MAX_WAITING:
            self._release(*self._waiting.popleft(), None)

    def access(self, access: Access, *, told: bool) -> None:
        """A generation request ended well.

        Args:
            access: its line.
            told: a task has all its timings and is not seen to have ended: it may be about that one.
        """
        lost = told or self._losses() != self._losses_seen
        self._losses_seen = self._losses()
        missed, self._missed_seen = self._missed() - self._missed_seen, self._missed()
        fitting = [pair for pair in self._waiting if access.covers(busy_ms(pair[0]))]
        if missed or (told and fitting):
            for pair in fitting:
                self._waiting.remove(pair)
                self._release(*pair, None)
            self._owed += max(missed + len(fitting) - 1, 0)
        elif len(fitting) == 1:
            self._waiting.remove(fitting[0])
            self._release(*fitting[0], access)
        elif fitting:
            for pair in fitting:
                self._waiting.remove(pair)
                self._release(*pair, None)
            self._owed += len(fitting) - 1
        elif self._owed:
            self._owed -= 1
        elif not lost and not self._waiting:
            self._early = access

    def lost(self) -> None:
        """A request ended badly; what was counted so far is told."""
        self._losses_seen = self._losses()

    def flush(self) -> None:
        """Let all go that still wait."""
        while self._waiting:
            self._release(*self._waiting.popleft(), None)
        self._early, self._owed = None, 0

    def _is_about(self, early: Access, row: Request, at: At | None) -> bool:
        """Launched before the access line, timed right after it, and nothing was lost in between."""
        return (
            row.first_line < early.at.number
            and _lines_between(early.at, row, at) <= _NEAR_LINES
            and early.covers(busy_ms(row))
            and self._losses() == self._losses_seen
        )

    def _let_go_of_stale(self, row: Request) -> None:
        """A task that ended before this one began, a second ago or more, won't get its access line."""
        if busy_ms(row) < _LONG_MS:
            return
        while self._waiting and self._waiting[0][0].line < row.first_line:
            self._release(*self._waiting.popleft(), None)


def _lines_between(access: At, row: Request, at: At | None) -> int:
    """From the access line to the row's, without what other containers print between them."""
    lines = row.line - access.number
    return lines if at is None else min(lines, at.own_number - access.own_number)
