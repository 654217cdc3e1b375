"""Reads sources in threads of their own, and keeps what they say: rows, totals, setups."""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Condition, Event
from typing import TYPE_CHECKING

import polars as pl

from advisor.filters import redacted
from advisor.live.history import PLACED_AT, History
from advisor.live.pump import Pump, threads
from advisor.live.totals import Totals
from advisor.parts import summary
from advisor.reading import Reading
from advisor.redact import clean
from advisor.report.rows import DERIVED
from parsers.formats import FORMATS
from parsers.formats.process import Counts
from parsers.records import TABLES
from parsers.setup import Setups
from parsers.tables import CLOCKS, Batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.analysis import Options
    from advisor.live.tails import Tail
    from parsers.formats import Format
    from parsers.records import Row

HISTORY = 20_000
"""Rows of each table that a tail keeps."""

_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_MOST_WAITING, _JOIN_S, _GIVE_WAY_S = 200_000, 2.0, 0.15


@dataclass(frozen=True, slots=True)
class Status:
    """How far a source has been read.

    Attributes:
        name: in words that may be shown.
        engine: as far as it is known.
        note: what happened to it last, a sentence; empty if nothing did.
    """

    name: str
    engine: str | None
    bytes: int
    lines: int
    is_live: bool
    ended: bool
    note: str


class Session:
    """What has been read so far, and goes on being read.

    `start` begins. `settle` makes the rows that have come part of what the other members tell; whoever shows
    them calls it a few times a second.

    Args:
        tails: what is read.
        options: which rows count, and in which words they may be shown.
        history: most rows of each table that are kept.
        last: leave out rows older than this when the session begins.
        in_turn: the sources are complete: read one after the other, as `advisor.reading.read` does.
        formats: what the logs are read as, for the sentences about them.

    Attributes:
        problems: why sources could not be read to their end, a sentence each.
        clockless: rows left out because nothing tells whether they are of the time that was asked for.
    """

    def __init__(
        self,
        tails: Sequence[Tail],
        options: Options,
        *,
        history: int = HISTORY,
        last: timedelta | None = None,
        in_turn: bool = False,
        formats: Sequence[Format] = FORMATS,
    ) -> None:
        self.options = options
        self.stopped = Event()
        self.totals = Totals()
        self.notes: list[str] = []
        self.problems: list[str] = []
        self.clockless = 0
        self.formats = formats
        self._in_turn = in_turn
        self._since = datetime.now(UTC) - last if last is not None else options.filters.since
        self._until = options.filters.until
        self._history = History(history, DERIVED)
        self._changed = Condition()
        self._turn_at_s = 0.0
        self._waiting = 0
        self._settled: list[tuple[str, pl.DataFrame]] = []
        self._batches = {live: Batches(partial(self._settle, live)) for live in (False, True)}
        self._runs: list[tuple[Pump, int]] = []
        self._pumps = [Pump(tail, self) for tail in tails]
        self._threads = threads(self._pumps, in_turn=in_turn)

    def start(self) -> None:
        """Begin to read."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop reading; what was read stays."""
        self.stopped.set()
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(_JOIN_S)

    @property
    def ended(self) -> bool:
        """Whether every source has come to its end."""
        return all(pump.ended for pump in self._pumps)

    def tail_of(self, run: int) -> Tail:
        """The source of the rows with this ``run``."""
        return self._runs[run][0].tail

    @property
    def tails(self) -> list[Tail]:
        """What is read."""
        return [pump.tail for pump in self._pumps]

    def give_way(self) -> None:
        """Read nothing for a moment: somebody waits for the screen."""
        self._turn_at_s = time.monotonic() + _GIVE_WAY_S

    # --- from the sources' threads

    def wait_turn(self) -> None:
        """Let the screen go first."""
        if (left_s := self._turn_at_s - time.monotonic()) > 0:
            self.stopped.wait(left_s)

    def take(self, pump: Pump, rows: list[Row], notes: list[str]) -> None:
        """Take a source's next rows; waits while too many have not settled."""
        with self._changed:
            for row in rows:
                row.run = self._run_of(pump, row.run)
            self._waiting += len(rows)
            self._batches[pump.tail.is_live].extend(rows)
            for note in notes:
                pump.note = self.options.text(note)
                self.notes.append(pump.note)
            while self._waiting > _MOST_WAITING and not self.stopped.is_set():
                self._changed.wait()

    def fail(self, pump: Pump, problem: str) -> None:
        """A source can't be read any further."""
        self.problems.append(problem)
        self.take(pump, [], [problem])

    def _run_of(self, pump: Pump, run: int) -> int:
        """A source's process start among all sources'."""
        if run not in pump.runs:
            pump.runs[run] = len(self._runs)
            self._runs.append((pump, run))
        return pump.runs[run]

    def _settle(self, live: bool, table: str, frame: pl.DataFrame) -> None:
        """Count rows, and keep them: those that were seen to happen, or those that were there before."""
        frame = frame.with_columns(self._place(live, CLOCKS[table]).alias(PLACED_AT))
        if self._since is not None or self._until is not None:
            self.clockless += frame[PLACED_AT].null_count() if table != "events" else 0
            frame = frame.filter(pl.col(PLACED_AT).is_between(self._since or _FIRST, self._until or _LAST))
        frame = self.options.at_any_time.filters.passing(table, frame)
        if frame.height:
            frame = redacted(frame, self.options.words)
            self.totals.add(table, frame)
            self._settled.append((table, self._history.add(table, frame)))

    def _place(self, live: bool, clock: str) -> pl.Expr:
        """When rows were of; a log's clock that is ahead of ours is of another zone, and tells nothing."""
        now = pl.lit(datetime.now(UTC), pl.Datetime("us", "UTC"))
        if live:
            return now
        return pl.col(clock) if self._in_turn else pl.when(pl.col(clock) <= now).then(clock)

    # --- for those who show it

    def settle(self) -> list[tuple[str, pl.DataFrame]]:
        """Count the rows that have come; gives them by table, as they may be shown."""
        with self._changed:
            for batches in self._batches.values():
                batches.flush()
            self._waiting = 0
            self._changed.notify_all()
            settled, self._settled = self._settled, []
            return settled

    def so_far(self) -> tuple[dict[str, pl.DataFrame], Totals]:
        """The rows that are kept of each table, with what is derived from them; and the totals of all."""
        with self._changed:
            return {table: self._history.frame(table) for table in TABLES}, deepcopy(self.totals)

    def statuses(self) -> list[Status]:
        """How far each source has been read."""
        return [
            Status(
                self.options.text(pump.tail.name),
                pump.tail.engine,
                pump.tail.bytes,
                pump.tail.lines,
                pump.tail.is_live,
                pump.ended,
                pump.note,
            )
            for pump in self._pumps
        ]

    def said(self) -> list[str]:
        """What happened to the sources since this was last asked: a sentence each."""
        with self._changed:
            notes, self.notes = self.notes, []
            return notes

    def reading(self) -> Reading:
        """What is kept, as if it had been read from finished logs."""
        with self._changed:
            tables, runs = self._history.tables(), list(self._runs)
        told = {pump: pump.tail.setups for pump in self._pumps}
        setups, counts = Setups(), Counts()
        for pump, run in runs:
            setups.add(told[pump], run)
        for tail in self.tails:
            counts.add(tail.counts)
        sources = [summary(clean(tail.name), tail) for tail in self.tails]
        return Reading(tables, sources, setups, counts, formats=self.formats)
