"""A source in parts: each is read by itself, here or elsewhere, and together they are what the source holds.

A part knows where the one before it stopped: the bytes that were read, and the reader as it was then. So the
parts of one source are read one after the other, and different sources at once. Joined from the first to the
last, they are exactly what one reader would have found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from advisor.errors import EmptyError, InputError, UnrecognisedError
from advisor.interrupt import Stopped
from advisor.model import Source
from advisor.redact import printable
from advisor.sources.checksum import EMPTY, checksum
from advisor.sources.files import STDIN, Input, blocks, last_written
from parsers import FORMATS, SourceReader, Stream
from parsers.formats.process import Counts
from parsers.limits import SlowPatternError
from parsers.saved import resumed, saved
from parsers.setup import Setups
from parsers.tables import Batches
from parsers.unparsed import DebugStream, Shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import polars as pl

    from parsers.documents.reader import DocumentReader
    from parsers.formats import Format
    from parsers.setup import Setup


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be read.

    Attributes:
        source: of which.
        engine: read it as this engine's log.
        formats: what to look for.
        begin: where, in bytes of the source.
        size: how much of it at least; ``None`` for all that comes.
        state: the reader as it was there; ``None`` for a new one.
        keep: keep the reader as it is at the end, in a part of its own before that with the ending.
        checksum: of the bytes before ``begin``, where what is read is kept.
        check: require those bytes to have it still; an empty part says that they do.
    """

    source: Input
    engine: str | None = None
    formats: Sequence[Format] = FORMATS
    begin: int = 0
    size: int | None = None
    state: bytes | None = None
    keep: bool = False
    checksum: int = EMPTY
    check: bool = False


@dataclass(slots=True)
class Ending:
    """What is known of a source at its end.

    Attributes:
        found: how much it held; ``None`` where no log was recognised.
        problem: why it was read no further, or nothing was found.
    """

    found: Source | None = None
    problem: InputError | None = None
    setups: Setups = field(default_factory=Setups)
    counts: Counts = field(default_factory=Counts)


@dataclass(slots=True)
class Part:
    """What some of a source's bytes told.

    Attributes:
        frames: rows, each with the name of its table; ``run`` counts from the source's first process.
        read: where its bytes end.
        state: the reader as it is then; ``None`` where that can't be kept, or was not asked for.
        checksum: with the state of a source that is kept, that of all bytes before.
        ending: with the last of the source's bytes only.
    """

    frames: list[tuple[str, pl.DataFrame]] = field(default_factory=list)
    read: int = 0
    state: bytes | None = None
    checksum: int = EMPTY
    ending: Ending | None = None


def parts(
    task: Task, *, shapes: Shapes | None = None, took: Callable[[int], None] | None = None
) -> Iterator[Part]:
    """Read what is to be read, and give rows as they come.

    Args:
        task: what.
        shapes: counts the lines that look like timings and are not read.
        took: told of bytes as they are taken from the source, packed as they lie there.

    Yields:
        Parts; the last one has the ending, or the state where the task's size came first. After Ctrl-C it is
        the ending of what was read.

    Raises:
        InputError: a user's pattern takes too long.
    """
    source, name = task.source, printable(task.source.name)
    reader = resumed(task.state, task.formats) if task.state is not None else _new(task, name, shapes)
    part = Part(read=task.begin)
    rows = Batches(lambda table, frame: part.frames.append((table, frame)))
    problem: InputError | None = None
    stopped, total = False, task.checksum
    enough = math.inf if task.size is None else task.begin + task.size
    try:
        for block in blocks(source, task.begin, took, task.checksum if task.check else None):
            if not block:
                yield Part(read=task.begin)
                continue
            rows.extend(reader.feed_many(block))
            part.read += len(block)
            if task.keep:
                total = checksum(block, total)
            if part.read >= enough and (state := saved(reader, task.formats)) is not None:
                rows.flush()
                part.state, part.checksum = state, total
                yield part
                return
            if part.frames:
                yield part
                part = Part(read=part.read)
    except Stopped:
        stopped = True
    except InputError as error:
        problem = error
    except SlowPatternError as error:
        raise InputError(f"{error} of {name}; `phasewise formats check` helps to mend it.") from None
    if task.keep and problem is None and not stopped:
        rows.flush()
        part.state, part.checksum = saved(reader, task.formats), total
        yield part
        part = Part(read=part.read)
    rows.extend(reader.close())
    rows.flush()
    part.ending = _ending(name, reader, problem, task.engine)
    if stopped and part.ending.found is None:
        part.ending.problem = None
    yield part


def ended(task: Task) -> Part:
    """The last part of a source that holds no more than its reader has read."""
    if task.state is None:
        raise ValueError("nothing was read")
    reader, part = resumed(task.state, task.formats), Part(read=task.begin)
    rows = Batches(lambda table, frame: part.frames.append((table, frame)))
    rows.extend(reader.close())
    rows.flush()
    part.ending = _ending(printable(task.source.name), reader, None, task.engine)
    return part


def _new(task: Task, name: str, shapes: Shapes | None) -> SourceReader:
    engine, formats, latest = task.engine, task.formats, last_written(task.source)
    if shapes is None:
        log = Stream(name, engine=engine, latest=latest, formats=formats)
    else:
        log = DebugStream(name, engine=engine, latest=latest, formats=formats, shapes=shapes)
    return SourceReader(log, engine=engine, formats=formats)


def _ending(name: str, reader: SourceReader, problem: InputError | None, engine: str | None) -> Ending:
    by = reader.reader
    if problem is None and reader.problem is not None:
        problem = InputError(f"{name} {reader.problem}.")
    if by.engine is None or (engine is not None and not by.matched[engine]):
        return Ending(problem=problem or _nothing(name, by))
    return Ending(summary(name, by), problem, by.setup_of_run, by.counts)


def _nothing(name: str, by: Stream | DocumentReader) -> UnrecognisedError:
    if by.bytes:
        return UnrecognisedError(f"{name}: no engine's log that I know")
    empty = "nothing came in on standard input" if name == STDIN else f"{name}: the file is empty"
    return EmptyError(empty)


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
