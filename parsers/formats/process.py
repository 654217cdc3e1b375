"""A running engine seen in a source: what its lines have told so far, and the way out for its rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from parsers.formats.possible import is_possible, leave_out_impossible
from parsers.quotes import Quotes
from parsers.records import Aggregate, Event, Interval, Request
from parsers.setup import Setup, Setups

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from parsers.formats.base import At, Reader
    from parsers.records import Columns, Row


@dataclass(slots=True)
class Counts:
    """What a source held besides its rows."""

    requests: int = 0
    intervals: int = 0
    events: int = 0
    aggregates: int = 0
    incomplete_requests: int = 0
    aborted_requests: int = 0
    failed_requests: int = 0
    impossible_values: int = 0
    repeated_requests: int = 0

    def add(self, more: Counts) -> None:
        """Take in what another process or source counted."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(more, name))


_START_FACTS = {"devices", "engine_version", "os"}
"""What a process may have said before a line that announces it: backends name devices when they load."""


class Process:
    """One running engine seen in a source: its setup, its restarts, and the way out for its rows.

    Readers of several formats share it, since one process may log in several of them: the model's header,
    the server's lines, and a host such as Ollama around both.

    Attributes:
        host: engine that logs around others (Ollama around llama-server); their rows carry its name.
        hosted: those engines.
        forks: what rows call an engine that the log shows to be a fork of it.
        host_has_clock: it hosts them with llama.cpp's own clock, which others switch off.
        on_request: a hook that takes requests before they leave; it emits them itself, maybe later.
        on_event: the same for events.
        year: the year of clocks that print none, where it is known.
        latest: when the source was last written.
        dated_before: had it been written at this time or later, clocks that print no year would begin in
            another one.
        clocked: its lines have a clock of its own, so that like ones without it are quotes.
        partners: engines that may log in it side by side, about the same model.
        missed: requests of which the log holds only a part, as far as their lines have shown.
        label: which container it is in.
        quotes: the texts that are being printed in the source.
        at: the line that is being read.
    """

    def __init__(
        self, source: str, counts: Counts, out: list[Any], setups: Setups, label: bytes | None = None
    ) -> None:
        self.source = source
        self.year: int | None = None
        self.latest = datetime.now(UTC)
        self.dated_before: datetime | None = None
        self.counts = counts
        self.host: str | None = None
        self.hosted: frozenset[str] = frozenset()
        self.host_has_clock = False
        self.forks: dict[str, str] = {}
        self.on_request: Callable[[Request], None] | None = None
        self.on_event: Callable[[Event], None] | None = None
        self.readers: list[Reader] = []
        self.clocked = False
        self.partners: frozenset[str] = frozenset()
        self.missed = 0
        self.label = label
        self.quotes = Quotes()
        self.at: At | None = None
        self._out = out
        self._setups = setups
        self.setup = self._new_setup(1)
        self._served = self._begun = False
        self._announced: list[Event] = []

    def _new_setup(self, number: int) -> Setup:
        label = None if self.label is None else self.label.decode("utf-8", "replace")
        setup = Setup(source=self.source, line=number, label=label)
        self._setups.append(setup)
        self.run = len(self._setups) - 1
        self._strangers: dict[str, int] = {}
        self._family: frozenset[str] | None = None
        return setup

    def belong(self, engines: frozenset[str]) -> None:
        """The facts so far are of one of these engines, whichever speaks first."""
        self._family = engines

    def ends_other(self, engines: frozenset[str], at: At) -> bool:
        """Whether a line of one of these engines is about this process, or shows that it is over.

        One that has begun and not served yet may still do so: then the line is another's, unknown whose.
        """
        if self.setup.engine in (None, *engines):
            return True
        if self._served:
            self.restart(at)
        return self.setup.engine is None

    def _is_other(self, engine: str) -> bool:
        """Whether the facts so far name no engine, and can't be of this one."""
        return self.setup.engine is None and self._family is not None and engine not in self._family

    def learn(self, at: At, **facts: object) -> None:
        """Record setup facts that this line states."""
        if isinstance(engine := facts.get("engine"), str) and self._is_other(engine):
            self._announced.clear()
            self.setup = self._new_setup(at.number)
            self._begin(at)
        if self.setup.is_empty and not self._begun:
            self._begin(at)
        known = {name: value for name, value in facts.items() if is_possible(value)}
        self.counts.impossible_values += len(facts) - len(known)
        self.setup.learn(f"log line {at.number}", **known)

    def forget(self, *facts: str) -> None:
        """Drop setup facts that no longer hold."""
        for fact in facts:
            setattr(self.setup, fact, Setup.model_fields[fact].get_default(call_default_factory=True))
            self.setup.origin.pop(fact, None)

    def start(self, at: At) -> None:
        """This line stands among the first of a process: a new one begins, unless it just has."""
        if self._served or set(self.setup.origin) - _START_FACTS:
            self.restart(at)
        elif self.setup.is_empty:
            self._begin(at)

    def restart(self, at: At, *, beside: bool = False) -> None:
        """A new process begins at this line; open requests of the old one, unless it lives on, never end."""
        for reader in self.readers:
            reader.joined() if beside else reader.close()
        if self.host_has_clock and not beside:
            self._unhost()
        self._announced.clear()
        self.clocked = False
        if not beside:
            self.unquote()
        if self._served or not self.setup.is_empty:
            for run in (self.run, *self._strangers.values()):
                self._setups.seal(run)
            self.setup = self._new_setup(at.number)
            self._served = False
        self._begin(at)

    def see_clock(self) -> None:
        """A line has llama.cpp's own clock: where the host switches it off, what it hosted is over."""
        self.clocked = True
        if self.host is not None and not self.host_has_clock:
            for reader in self.readers:
                reader.close()
            self._unhost()

    def leave_host(self, at: At) -> None:
        """This line is of a program that no host runs: what was logged around others is over."""
        if self.on_request is not None:
            self.restart(at)
            self._unhost()

    def _unhost(self) -> None:
        self.host = self.on_request = self.on_event = None
        self.host_has_clock = False

    def _begin(self, at: At) -> None:
        self.setup.line, self._begun = at.number, True

    def quote(self, at: At, *engines: str, inside: bool = True) -> None:
        """After this line somebody's text is printed: only these engines, and a host, are still heard."""
        heard = frozenset({*engines, self.host or engines[0]})
        self.quotes.begin(self.label, at, heard, inside=inside)

    def unquote(self) -> None:
        """The text is over."""
        self.quotes.end(self.label)

    def emit(self, row: Row) -> None:
        """Hand over a finished row; a host may take it first."""
        self._served = True
        row.run = self.run
        if isinstance(row, Request) and self.on_request is not None:
            self.on_request(row)
        elif isinstance(row, Event) and self.on_event is not None:
            self.on_event(row)
        else:
            self.release(row)

    def name_of(self, engine: str) -> str:
        """What rows call this engine: its own name, its fork's, or its host's."""
        return self.host if self.host and engine in self.hosted else self.forks.get(engine, engine)

    def release(self, row: Row) -> None:
        """Let a row out of the process."""
        self._served = True
        counts = self.counts
        counts.impossible_values += leave_out_impossible(row)
        row.source = self.source
        engine = row.engine = self.name_of(row.engine)
        setup = self.setup if engine == self.setup.engine else self._setup_of(row)
        if self._announced and not self._is_other(engine):
            self._tell_announced(engine)
        if isinstance(row, Request):
            counts.requests += 1
            row.model = row.model or setup.model
        elif isinstance(row, Interval):
            counts.intervals += 1
        elif isinstance(row, Aggregate):
            counts.aggregates += 1
        else:
            counts.events += 1
        self._out.append(row)

    def is_settled_as(self, engine: str) -> bool:
        """Whether rows of this engine leave as they are: no host takes them, and whose they are is sure."""
        alone = self.host is None and self.on_request is None and self.on_event is None
        return alone and not self._announced and self.setup.engine == self.name_of(engine)

    def emit_all(self, rows: Columns) -> None:
        """Let possible rows of an engine out that it `is_settled_as`."""
        self._served = True
        self.counts.requests += rows.count
        engine = self.name_of(rows.values["engine"])
        rows.values.update(source=self.source, engine=engine, model=self.setup.model, run=self.run)
        self._out.append(rows)

    def _setup_of(self, row: Row) -> Setup:
        """The setup that a row is about: one of another engine shares no facts with the process's own."""
        if not self._is_other(row.engine):
            self.setup.engine = self.setup.engine or row.engine
            named = {row.engine, self.setup.engine}
            if len(named) == 1 or self.setup.is_empty or named <= self.partners:
                return self.setup
        if row.engine not in self._strangers:
            self._strangers[row.engine] = len(self._setups)
            self._setups.append(Setup(source=self.source, line=row.line, engine=row.engine))
        row.run = self._strangers[row.engine]
        return self._setups[row.run]

    def announce(self, at: At, kind: str, detail: str) -> None:
        """Emit an event as soon as it is known which engine this is: its header doesn't say."""
        event = Event(
            line=at.number, time=at.time, kind=kind, detail=detail, source=self.source, run=self.run
        )
        if detail not in [known.detail for known in self._announced]:
            self._announced.append(event)
        if self.host or self.setup.engine:
            self._tell_announced(self.host or self.setup.engine or "")

    def _tell_announced(self, engine: str) -> None:
        for event in self._announced:
            event.engine = engine
            self.counts.events += 1
        self._out += self._announced
        self._announced.clear()

    def event(self, engine: str, at: At, kind: str, detail: str | None = None, **more: object) -> None:
        """Emit an event that this line tells of."""
        row = Event(line=at.number, engine=engine, time=at.time, kind=kind, detail=detail)
        for name, value in more.items():
            setattr(row, name, value)
        self.emit(row)


def engine_of(processes: Collection[Process], matched: Counter[str]) -> str | None:
    """The engine of a source: a host, else the one that most of its lines have matched, or its fork."""
    if host := next((process.host for process in processes if process.host), None):
        return host
    named = Counter({engine: lines for engine, lines in matched.items() if engine != "llama.cpp"}) or matched
    if not named:
        return None
    engine = named.most_common(1)[0][0]
    return next((fork for process in processes if (fork := process.forks.get(engine))), engine)
