"""The shape of a format: what identifies an engine's log, its lines, and the reader that joins them.

A format is mostly data. Each `Line` names a method of the format's `Reader`; the core finds lines by their
literal ``needle``, unwraps them, and calls that method with the match. Readers hand over finished rows with
``self.process.emit``. They hold little: the requests still open, nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from parsers.formats.possible import is_possible, leave_out_impossible
from parsers.records import Aggregate, Event, Interval, Request
from parsers.setup import Setup

if TYPE_CHECKING:
    from collections.abc import Callable

    from parsers.documents.base import Document
    from parsers.records import Row


@dataclass(frozen=True, slots=True)
class Line:
    """One kind of line.

    Attributes:
        name: the reader's method that takes it.
        needle: a literal that every such line holds, and few others; the core searches whole blocks for it
            before any pattern is tried. Each costs a search of the whole log, so alike lines share one.
        pattern: matched at the start of the unwrapped line; named groups carry the values.
        word: another literal that every such line holds; tells lines with the same needle apart.
    """

    name: str
    needle: bytes
    pattern: re.Pattern[bytes]
    word: bytes = b""


def line(name: str, needle: bytes, pattern: bytes, word: bytes = b"") -> Line:
    """A `Line` from its parts."""
    return Line(name, needle, re.compile(pattern), word)


@dataclass(frozen=True, slots=True)
class Format:
    """One engine's log format, in one file.

    Attributes:
        engine: the name rows carry and ``--engine`` takes.
        title: for people.
        versions: the engine versions whose layouts are read.
        grain: what one record of the log is: `request`, `interval`, `aggregate` or `setup`.
        identify: literals; the format's lines are tried from the first line on that holds one of them.
        lines: the lines it reads.
        reader: makes the object that joins lines to rows.
        host: true for a program that runs another engine and logs around it, so both logs are one.
        inside: the engines whose lines stand in its log; ``--engine`` reads them with it.
        splits: the phases that such a log times for each request, in words for people.
        documents: whole files that it writes; one is claimed by its first bytes instead.
    """

    engine: str
    title: str
    versions: str
    grain: str
    identify: tuple[bytes, ...]
    lines: tuple[Line, ...]
    reader: Callable[[Process], Reader]
    host: bool = False
    inside: tuple[str, ...] = ()
    splits: str = ""
    documents: tuple[Document, ...] = ()


class At(NamedTuple):
    """Where a matched line stands.

    Attributes:
        number: 1-based line number in the source.
        offset: byte offset of the line in the source.
        time: the carrier's clock, UTC, or ``None``.
        body: the unwrapped line.
        own_number: its number among the lines of its container, which says what stands next to what; the
            same as ``number`` where the line names no container.
    """

    number: int
    offset: int
    time: datetime | None
    body: bytes
    own_number: int


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
        clocked: its lines have a clock of its own, so that like ones without it are quotes.
        partners: engines that may log in it side by side, about the same model.
    """

    def __init__(self, source: str, counts: Counts, out: list[Row], setups: list[Setup]) -> None:
        self.source = source
        self.year: int | None = None
        self.latest = datetime.now(UTC)
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
        self._out = out
        self._setups = setups
        self.setup = self._new_setup(1)
        self._served = self._begun = False
        self._announced: list[Event] = []

    def _new_setup(self, number: int) -> Setup:
        setup = Setup(source=self.source, line=number)
        self._setups.append(setup)
        self.run = len(self._setups) - 1
        self._strangers: dict[str, int] = {}
        return setup

    def learn(self, at: At, **facts: object) -> None:
        """Record setup facts that this line states."""
        if self.setup.is_empty and not self._begun:
            self._begin(at)
        known = {name: value for name, value in facts.items() if is_possible(value)}
        self.counts.impossible_values += len(facts) - len(known)
        self.setup.learn(f"log line {at.number}", **known)

    def forget(self, *facts: str) -> None:
        """Drop setup facts that no longer hold."""
        for fact in facts:
            setattr(self.setup, fact, None)
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
        if self._served or not self.setup.is_empty:
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
        self.counts.impossible_values += leave_out_impossible(row)
        row.source = self.source
        row.engine = self.name_of(row.engine)
        setup = self._setup_of(row)
        self._tell_announced(row.engine)
        if isinstance(row, Request):
            self.counts.requests += 1
            row.model = row.model or setup.model
        elif isinstance(row, Interval):
            self.counts.intervals += 1
        elif isinstance(row, Aggregate):
            self.counts.aggregates += 1
        else:
            self.counts.events += 1
        self._out.append(row)

    def _setup_of(self, row: Row) -> Setup:
        """The setup that a row is about: one of another engine shares no facts with the process's own."""
        if self.setup.engine is None:
            self.setup.engine = row.engine
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


class Reader:
    """Joins a format's lines to rows. One method for each `Line.name`, called with match and place.

    A method that returns ``False`` says that the line is not its engine's after all: others may take it.
    """

    engine: ClassVar[str] = ""

    def __init__(self, process: Process) -> None:
        self.process = process

    def flush(self) -> None:
        """Emit rows that are whole and only waited for lines that might still belong to them."""

    def joined(self) -> None:
        """Another process begins, and the one so far may live on beside it."""
        self.close()

    def close(self) -> None:
        """The source or the process ends here: emit what is whole, count what is not."""


def number(text: bytes | None) -> float | None:
    """A printed number; ``None`` for ``inf``, ``nan`` and nothing."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value == value and abs(value) != float("inf") else None


def integer(text: bytes | None) -> int | None:
    """A printed integer, thousands separators allowed; ``None`` for nothing."""
    return None if text is None else int(text.replace(b",", b""))


def text(value: bytes | None) -> str | None:
    """A printed word as str; ``None`` for nothing."""
    return None if value is None else value.decode("utf-8", "replace").strip() or None
