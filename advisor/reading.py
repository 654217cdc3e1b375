"""Inputs to rows: feeds every input to a stream of its own and gathers what comes out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from advisor.errors import InputError, UnrecognisedError
from advisor.model import Source
from advisor.redact import printable
from advisor.sources.files import STDIN, Input, blocks, expand, last_written
from parsers import FORMATS, SourceReader, Stream, Tables
from parsers.formats import engines_of
from parsers.formats.process import Counts
from parsers.limits import SlowPatternError
from parsers.setup import Setups
from parsers.unparsed import DebugStream, Shapes
from rules.words import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from parsers.documents.reader import DocumentReader
    from parsers.formats import Format
    from parsers.records import Row
    from parsers.setup import Setup


@dataclass(slots=True)
class Reading:
    """Everything that was read.

    Attributes:
        sources: one for each recognised input.
        setups: one for each process start, indexed by the rows' ``run``.
        problems: a sentence for each input that could not be read; exit status 2.
        unrecognised: a sentence for each input that holds no known log; exit status 3 if nothing was read.
        formats: what was looked for.
        unparsed: the shapes of lines that look like timings and were not read, where that was asked for.
    """

    tables: Tables = field(default_factory=Tables)
    sources: list[Source] = field(default_factory=list)
    setups: Setups = field(default_factory=Setups)
    counts: Counts = field(default_factory=Counts)
    problems: list[str] = field(default_factory=list)
    unrecognised: list[str] = field(default_factory=list)
    formats: Sequence[Format] = FORMATS
    unparsed: Shapes | None = None


def read(
    paths: Sequence[str],
    *,
    engine: str | None = None,
    formats: Sequence[Format] = FORMATS,
    debug: bool = False,
    take: Callable[[Iterable[Row]], None] | None = None,
) -> Reading:
    """Read all inputs.

    Args:
        paths: files, folders, patterns, or ``-``.
        engine: read them as this engine's logs.
        formats: what to look for, in the order it is tried.
        debug: count the shapes of lines that look like timings and are not read.
        take: takes the rows as they come; default the reading's own tables.

    Raises:
        UnknownEngineError: no format is called ``engine``.
    """
    reading = Reading(formats=formats, unparsed=Shapes(formats) if debug else None)
    inputs, unusable = expand(paths)
    for error in unusable:
        _note(error, reading, engine)
    useless: Counter[str] = Counter()
    for source in inputs:
        problem = _read_one(source, reading, engine, take or reading.tables.extend)
        if source.folder is not None and isinstance(problem, UnrecognisedError):
            useless[source.folder] += 1
        elif problem is not None:
            _note(problem, reading, engine)
    read_paths = {source.path for source in reading.sources}
    useful = {source.folder for source in inputs if printable(source.name) in read_paths}
    for folder, files in useless.items():
        if folder not in useful:
            among = f"{folder}: no engine's log that I know among {plural(files, 'log file')} in there"
            _note(UnrecognisedError(among), reading, engine)
    return reading


def _note(problem: InputError, reading: Reading, engine: str | None) -> None:
    if isinstance(problem, UnrecognisedError):
        reading.unrecognised.append(f"{problem} ({_tried(engine, reading.formats)}).")
    else:
        reading.problems.append(str(problem))


def _read_one(
    source: Input, reading: Reading, engine: str | None, take: Callable[[Iterable[Row]], None]
) -> InputError | None:
    """Read one input as far as it goes; returns why it went no further, if so."""
    name = printable(source.name)
    log = _stream(name, engine, last_written(source), reading)
    reader = SourceReader(log, engine=engine, formats=reading.formats)
    first_run = len(reading.setups)
    problem: InputError | None = None
    try:
        for block in blocks(source):
            take(_numbered(reader.feed(block), first_run))
    except InputError as error:
        problem = error
    except SlowPatternError as error:
        raise InputError(f"{error} of {name}; `phasewise formats check` helps to mend it.") from None
    take(_numbered(reader.close(), first_run))
    if problem is None and reader.problem is not None:
        problem = InputError(f"{name} {reader.problem}.")
    stream = reader.reader
    if stream.engine is None or (engine is not None and not stream.matched[engine]):
        return problem or _nothing(name, stream)
    reading.setups.extend(stream.setup_of_run)
    reading.counts.add(stream.counts)
    reading.sources.append(summary(name, stream))
    return problem


def _stream(name: str, engine: str | None, latest: datetime, reading: Reading) -> Stream:
    if reading.unparsed is None:
        return Stream(name, engine=engine, latest=latest, formats=reading.formats)
    return DebugStream(name, engine=engine, latest=latest, formats=reading.formats, shapes=reading.unparsed)


def _nothing(name: str, stream: Stream | DocumentReader) -> UnrecognisedError:
    if stream.bytes:
        return UnrecognisedError(f"{name}: no engine's log that I know")
    empty = "nothing came in on standard input" if name == STDIN else f"{name}: the file is empty"
    return UnrecognisedError(empty)


def _numbered(rows: list[Row], first_run: int) -> list[Row]:
    """A source's rows with the numbers that their process starts have among all sources'."""
    for row in rows:
        row.run += first_run
    return rows


def _tried(engine: str | None, formats: Sequence[Format]) -> str:
    if engine is not None:
        return f"read as {engine}"
    return f"tried {', '.join(engines_of(formats))}; name it with --engine if it is one of these"


class Told(Protocol):
    """Whatever has read a source."""

    @property
    def engine(self) -> str | None:
        """Whose log it is."""

    @property
    def setups(self) -> Sequence[Setup]:
        """Each process start's."""

    @property
    def counts(self) -> Counts:
        """Rows and losses."""

    @property
    def bytes(self) -> int:
        """Bytes read."""

    @property
    def lines(self) -> int:
        """Lines read."""


def summary(name: str, stream: Told) -> Source:
    """How much a source held, and of which engine it is."""
    counts = stream.counts
    own = [s for s in reversed(stream.setups) if s.engine in (None, stream.engine)]
    return Source(
        path=name,
        engine=stream.engine,
        engine_version=next((s.engine_version for s in own if s.engine_version), None),
        bytes=stream.bytes,
        lines=stream.lines,
        requests=counts.requests,
        intervals=counts.intervals,
        events=counts.events,
        aggregates=counts.aggregates,
        incomplete_requests=counts.incomplete_requests,
        aborted_requests=counts.aborted_requests,
        failed_requests=counts.failed_requests,
    )
