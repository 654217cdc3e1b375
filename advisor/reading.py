"""Inputs to rows: every input is read by itself, and what they told is gathered in their order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from advisor import interrupt
from advisor.crews.chosen import chosen
from advisor.errors import EmptyError, InputError, UnrecognisedError
from advisor.parts import Task
from advisor.progress import Meter
from advisor.redact import printable
from advisor.sources.files import expand
from advisor.unread import of_files, some
from parsers import FORMATS, Tables
from parsers.formats import engines_of
from parsers.formats.process import Counts
from parsers.setup import Setups
from parsers.unparsed import Shapes
from rules.words import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl

    from advisor.crews import Crew
    from advisor.model import Source
    from advisor.parts import Part
    from parsers.formats import Format

Take: TypeAlias = "Callable[[str, pl.DataFrame], None]"
"""Takes the next rows of a table, by its name."""


@dataclass(slots=True)
class Reading:
    """Everything that was read.

    Attributes:
        sources: one for each recognised input.
        setups: one for each process start, indexed by the rows' ``run``.
        problems: a sentence for each input that could not be read; exit status 2.
        unrecognised: a sentence for each input that holds no known log; exit status 3 if nothing was read.
        notes: a sentence for each folder in which some files hold none, and others do.
        files: how many inputs there were.
        cut, unread, no_log: names of those read in part, of those not read, and of those that hold no log.
        formats: what was looked for.
        unparsed: the shapes of lines that look like timings and were not read, where that was asked for.
        interrupted: how much was read when Ctrl-C ended the reading; ``None`` if nothing did.
    """

    tables: Tables = field(default_factory=Tables)
    sources: list[Source] = field(default_factory=list)
    setups: Setups = field(default_factory=Setups)
    counts: Counts = field(default_factory=Counts)
    problems: list[str] = field(default_factory=list)
    unrecognised: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: int = 0
    cut: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    no_log: list[str] = field(default_factory=list)
    formats: Sequence[Format] = FORMATS
    unparsed: Shapes | None = None
    interrupted: str | None = None


def read(
    paths: Sequence[str],
    *,
    engine: str | None = None,
    formats: Sequence[Format] = FORMATS,
    debug: bool = False,
    take: Take | None = None,
    jobs: int | None = 1,
    on: str | None = None,
    meter: Meter | None = None,
    cached: Callable[[str], None] | None = None,
) -> Reading:
    """Read all inputs.

    Args:
        paths: files, folders, patterns, or ``-``.
        engine: read them as this engine's logs.
        formats: what to look for, in the order it is tried.
        debug: count the shapes of lines that look like timings and are not read.
        take: takes the rows as they come; default the reading's own tables.
        jobs: how many processes may read; ``None`` for as many as pay.
        on: the cluster that reads; default this machine.
        meter: told how much is read.
        cached: keep what is read, and begin where it ended last time; takes a sentence if that can't be done.

    Raises:
        UnknownEngineError: no format is called ``engine``.
    """
    reading = Reading(formats=formats, unparsed=Shapes(formats) if debug else None)
    inputs, problems = expand(paths)
    reading.files = len(inputs)
    useless: dict[str, list[str]] = {}
    meter = meter or Meter()
    meter.begin(inputs)
    crew: Crew
    if cached is None or debug:
        crew = chosen(inputs, formats, jobs, on, reading.unparsed, meter.took)
    else:
        from advisor.cache import Cached

        crew = Cached(lambda rest: chosen(rest, formats, jobs, on, took=meter.took), meter.took, cached)
    first_run = 0
    for at, part in crew.parts([Task(source, engine, formats) for source in inputs]):
        problem = _add(part, first_run, reading, take or reading.tables.add)
        first_run = len(reading.setups)
        if problem is None:
            continue
        name, folder = printable(inputs[at].name), inputs[at].folder
        _kind(problem, part, reading).append(name)
        if folder is not None and isinstance(problem, UnrecognisedError):
            useless.setdefault(folder, []).append(name)
        else:
            problems.append(problem)
    reading.interrupted = meter.said if interrupt.asked() else None
    read_paths = {source.path for source in reading.sources}
    useful = {source.folder for source in inputs if printable(source.name) in read_paths}
    for folder, names in useless.items():
        if folder in useful:
            files = sum(source.folder == folder for source in inputs)
            said = f"{of_files(names, files, 'hold')} no engine's log: {some(names)}."
            reading.notes.append(f"{folder}: {said}")
        else:
            among = f"{folder}: no engine's log that I know among {plural(len(names), 'log file')} in there"
            problems.append(UnrecognisedError(among))
    _tell(problems, reading, engine)
    return reading


def _kind(problem: InputError, part: Part, reading: Reading) -> list[str]:
    """Where the names of sources with such a problem are."""
    if isinstance(problem, UnrecognisedError):
        return reading.no_log
    return reading.unread if part.ending is None or part.ending.found is None else reading.cut


def _tell(problems: Sequence[InputError], reading: Reading, engine: str | None) -> None:
    """Make sentences of them; the last that it concerns says what was tried."""
    unknown = [problem for problem in problems if isinstance(problem, UnrecognisedError)]
    tried = [problem for problem in unknown if not isinstance(problem, EmptyError)][-1:]
    for problem in problems:
        if not isinstance(problem, UnrecognisedError):
            reading.problems.append(str(problem))
        elif problem in tried:
            reading.unrecognised.append(f"{problem} ({_tried(engine, reading.formats)}).")
        else:
            reading.unrecognised.append(f"{problem}.")


def _add(part: Part, first_run: int, reading: Reading, take: Take) -> InputError | None:
    """Add a part of a source; returns why the source went no further, if so.

    Args:
        part: the next one.
        first_run: how many process starts the sources before it had.
        reading: so far.
        take: takes the rows.
    """
    for table, frame in part.frames:
        take(table, frame.with_columns(run=frame["run"] + first_run))
    if part.ending is None:
        return None
    ending = part.ending
    if ending.found is not None:
        reading.setups.extend(ending.setups)
        reading.counts.add(ending.counts)
        reading.sources.append(ending.found)
    return ending.problem


def _tried(engine: str | None, formats: Sequence[Format]) -> str:
    if engine is not None:
        return f"read as {engine}"
    return f"tried {', '.join(engines_of(formats))}; name it with --engine if it is one of these"
