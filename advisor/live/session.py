"""Reads sources in threads of their own, and keeps what they say: rows, totals, setups."""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from threading import Condition, Event, Thread
from typing import TYPE_CHECKING

import polars as pl

from advisor.errors import InputError
from advisor.filters import redacted
from advisor.live.history import PLACED_AT, History
from advisor.live.totals import Totals
from advisor.model import Source
from advisor.reading import Reading
from advisor.redact import clean
from advisor.report.rows import DERIVED
from parsers.formats import FORMATS
from parsers.formats.process import Counts
from parsers.limits import SlowPatternError
from parsers.records import TABLES
from parsers.setup import Setups
from parsers.tables import CLOCKS, Batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from advisor.analysis import Options
    from advisor.live.tails import Tail
    from parsers.formats import Format
    from parsers.records import Row

HISTORY = 20_000
"""Rows of each table that a tail keeps."""

WAIT_S = 0.2
"""How long a source may be silent until rows that waited for more lines are given."""

_MOST_WAITING, _JOIN_S, _GIVE_WAY_S = 200_000, 2.0, 0.15

Take = "Callable[[str, pl.DataFrame], None]"


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


class _Pump:
    """Moves one source's rows into a session."""

    def __init__(self, tail: Tail, session: Session) -> None:
        self.tail = tail
        self.note = ""
        self.ended = False
        self.runs: dict[int, int] = {}
        self._session = session

    def run(self) -> None:
        """Move all rows."""
        try:
            while not self._session.stopped.is_set() and (rows := self.tail.read(WAIT_S)) is not None:
                self._session.take(self, rows, self.tail.notes())
                self._session.wait_turn()
        except (InputError, SlowPatternError) as error:
            self._session.problems.append(str(error))
            self._session.take(self, [], [str(error)])
        finally:
            self.tail.close()
            self._session.end(self)


def _run(pumps: Sequence[_Pump]) -> None:
    for pump in pumps:
        pump.run()


class Session:
    """What has been read so far, and goes on being read.

    `start` begins. `settle` makes the rows that have come part of what the other members tell; whoever shows
    them calls it a few times a second.

    Args:
        tails: what is read.
        options: which rows count, and in which words they may be shown.
        history: most rows of each table that are kept.
        last: leave out rows older than this when the session begins.
        take: is given the new rows of a table when they settle, as they may be shown.
        in_turn: the sources are complete: read one after the other, as `advisor.reading.read` does.
        formats: what the logs are read as, for the sentences about them.

    Attributes:
        problems: why sources could not be read to their end, a sentence each.
    """

    def __init__(
        self,
        tails: Sequence[Tail],
        options: Options,
        *,
        history: int = HISTORY,
        last: timedelta | None = None,
        take: Callable[[str, pl.DataFrame], None] | None = None,
        in_turn: bool = False,
        formats: Sequence[Format] = FORMATS,
    ) -> None:
        self.options = options
        self.stopped = Event()
        self.totals = Totals()
        self.notes: list[str] = []
        self.problems: list[str] = []
        self.formats = formats
        self._take = take
        self._since = datetime.now(UTC) - last if last is not None else options.filters.since
        self._history = History(history, DERIVED)
        self._changed = Condition()
        self._turn_at_s = 0.0
        self._waiting = 0
        self._batches = Batches(self._settle_frame)
        self._live: list[bool] = []
        self._runs: list[tuple[_Pump, int]] = []
        self._pumps = [_Pump(tail, self) for tail in tails]
        groups = [self._pumps] if in_turn else [[pump] for pump in self._pumps]
        self._threads = [Thread(target=_run, args=(group,), daemon=True) for group in groups]

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

    def take(self, pump: _Pump, rows: list[Row], notes: list[str]) -> None:
        """Take a source's next rows; waits while too many have not settled."""
        with self._changed:
            for row in rows:
                row.run = self._run_of(pump, row.run)
            self._waiting += len(rows)
            self._add(rows, pump.tail.is_live)
            for note in notes:
                pump.note = self.options.text(note)
                self.notes.append(pump.note)
            while self._waiting > _MOST_WAITING and not self.stopped.is_set():
                self._changed.wait()

    def end(self, pump: _Pump) -> None:
        """A source has come to its end."""
        pump.ended = True

    def _run_of(self, pump: _Pump, run: int) -> int:
        """A source's process start among all sources'."""
        if run not in pump.runs:
            pump.runs[run] = len(self._runs)
            self._runs.append((pump, run))
        return pump.runs[run]

    def _add(self, rows: list[Row], is_live: bool) -> None:
        """Keep rows until they settle; those of one frame were all seen to happen, or none of them was."""
        if self._live[-1:] != [is_live]:
            self._batches.flush()
            self._live = [is_live]
        self._batches.extend(rows)

    def _settle_frame(self, table: str, frame: pl.DataFrame) -> None:
        placed = (
            pl.lit(datetime.now(UTC), pl.Datetime("us", "UTC")) if self._live[-1] else pl.col(CLOCKS[table])
        )
        frame = frame.with_columns(placed.alias(PLACED_AT))
        if self._since is not None:
            frame = frame.filter(pl.col(PLACED_AT) >= self._since)
        frame = replace(self.options.filters, since=None).passing(table, frame)
        frame = redacted(frame, self.options.words)
        if frame.height:
            self.totals.add(table, frame)
            self._history.add(table, frame)
            if self._take is not None:
                self._take(table, self._history.shown(table, frame))

    # --- for those who show it

    def settle(self) -> bool:
        """Count the rows that have come; whether there were any."""
        with self._changed:
            self._batches.flush()
            any_came, self._waiting = self._waiting > 0, 0
            self._changed.notify_all()
            return any_came

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
            told = {pump: pump.tail.setups for pump in self._pumps}
            setups = Setups(told[pump][run] for pump, run in self._runs)
            counts = Counts()
            for tail in self.tails:
                counts.add(tail.counts)
            return Reading(
                tables=self._history.tables(),
                sources=list(self._sources()),
                setups=setups,
                counts=counts,
                formats=self.formats,
            )

    def _sources(self) -> Iterator[Source]:
        for tail in self.tails:
            counts = tail.counts
            named = [s.engine_version for s in tail.setups if s.engine_version]
            yield Source(
                path=clean(tail.name),
                engine=tail.engine,
                engine_version=named[-1] if named else None,
                bytes=tail.bytes,
                lines=tail.lines,
                requests=counts.requests,
                intervals=counts.intervals,
                events=counts.events,
                aggregates=counts.aggregates,
                incomplete_requests=counts.incomplete_requests,
                aborted_requests=counts.aborted_requests,
                failed_requests=counts.failed_requests,
            )
