"""What the commands share: exit statuses, sentences on standard error, inputs and options."""

from __future__ import annotations

import os
import shlex
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn, TextIO

import typer

from advisor.errors import InputError, UnrecognisedError
from advisor.redact import Redactor, clean
from advisor.sources.files import STDIN, expand
from rules.words import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from advisor.analysis import Options
    from advisor.filters import Timed
    from advisor.live.session import Session
    from advisor.options import Given, GroupBy, Inputs, Selection
    from advisor.reading import Reading, Take
    from parsers.formats import Format

_SHAPES = 30
_LONGEST = timedelta(days=36_500)
OK, LIMIT_BROKEN, BAD_USAGE, NOTHING_RECOGNISED, INTERRUPTED = 0, 1, 2, 3, 130


def warn(message: str) -> None:
    """One sentence on standard error, if anybody hears it."""
    try:
        print(f"phasewise: {clean(message)}", file=sys.stderr)
    except OSError:
        discard(sys.stderr)


def fail(message: str, status: int) -> NoReturn:
    """One sentence on standard error, and the end."""
    warn(message)
    raise SystemExit(status)


def writes_unicode() -> bool:
    """Whether standard output takes any character."""
    return (sys.stdout.encoding or "").lower().startswith("utf")


def discard(stream: TextIO) -> None:
    """Send what is still buffered nowhere: this standard stream is closed or full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def command_line(words: Sequence[str]) -> str:
    """Words as they are typed into this system's shell."""
    if sys.platform == "win32":
        from subprocess import list2cmdline

        return list2cmdline(words)
    return shlex.join(words)


def words(context: typer.Context) -> list[str]:
    """The command line as it was given, word by word."""
    root = context.find_root()
    return [str(root.info_name), *root.obj]


def require(paths: Sequence[str]) -> None:
    """End the command when no path leads anywhere, before anything heavy is imported."""
    inputs, problems = expand(paths)
    if inputs or any(isinstance(problem, UnrecognisedError) for problem in problems):
        return
    for problem in problems:
        warn(str(problem))
    raise SystemExit(BAD_USAGE)


def require_one_stdin(*sides: Sequence[str]) -> None:
    """Refuse standard input on more than one side: it can be read once.

    Raises:
        InputError: it is on two.
    """
    if sum(STDIN in side for side in sides) > 1:
        raise InputError("standard input can be one of the sides only.")


def looked_for(engine: str | None, format_file: Path | None) -> Sequence[Format]:
    """The formats that logs are read as.

    Raises:
        InputError: none of them is this engine's, or the user's format file is wrong.
    """
    from advisor.user_formats import all_formats
    from parsers.formats import engines_of

    formats = all_formats(format_file)
    if engine is not None and engine not in {fmt.engine for fmt in formats}:
        raise InputError(f"--engine {engine}: no such format; there are {', '.join(engines_of(formats))}.")
    return formats


def read(
    paths: Sequence[str],
    inputs: Inputs,
    take: Take | None = None,
    *,
    whole: bool = False,
    keeps: Path | None = None,
) -> Reading:
    """Read all inputs; without anything recognised this ends the command with its sentences.

    Args:
        paths: as given.
        inputs: how to read them.
        take: takes the rows as they come; default the reading's own tables.
        whole: half of it tells nothing, as in a comparison.
        keeps: what is to be written there only when everything was read.

    Raises:
        KeyboardInterrupt: reading was interrupted, and nothing can be said.
    """
    from advisor.interrupt import heeded
    from advisor.progress import metered
    from advisor.reading import read as read_all

    if STDIN in paths and sys.stdin and sys.stdin.isatty():
        warn("reading standard input; paste the log, then press Ctrl-D (Windows: Ctrl-Z, Enter).")
    with heeded(), metered() as meter:
        reading = read_all(
            paths,
            engine=inputs.engine,
            formats=looked_for(inputs.engine, inputs.format_file),
            debug=inputs.debug_unparsed,
            take=take,
            jobs=inputs.jobs,
            on=inputs.on,
            meter=meter,
            cached=warn if inputs.cache else None,
        )
    if reading.interrupted and (whole or not reading.sources):
        raise KeyboardInterrupt
    if reading.interrupted and keeps is not None:
        fail(f"interrupted after {reading.interrupted}; nothing is written to {keeps}.", INTERRUPTED)
    for sentence in reading.problems + reading.unrecognised + reading.notes:
        warn(sentence)
    if not reading.sources:
        tell_unparsed(reading)
        raise SystemExit(BAD_USAGE if reading.problems else NOTHING_RECOGNISED)
    if reading.interrupted:
        warn(f"interrupted after {reading.interrupted}; what follows is of what was read.")
    return reading


def end(reading: Reading, asked: Options, rows: Timed | None = None) -> None:
    """Say what the filters could not place; status 2 when one of the inputs gave nothing, 130 after Ctrl-C.

    Args:
        reading: what was read.
        asked: with which filters.
        rows: what took the rows; default the reading's own tables.
    """
    tell_unparsed(reading)
    if lost := asked.filters.clockless(rows or reading.tables):
        warn(f"{plural(lost, 'row')} without a wall clock left out by --since and --until.")
    if reading.interrupted:
        raise typer.Exit(INTERRUPTED)
    if reading.problems or reading.unrecognised:
        raise typer.Exit(BAD_USAGE)


def end_session(session: Session) -> None:
    """Say what no time could place; status 2 where a source could not be read, 3 where none is known."""
    if lost := session.clockless:
        warn(f"{plural(lost, 'row')} without a wall clock left out by --since, --until and --last.")
    if session.problems:
        raise typer.Exit(BAD_USAGE)
    if session.ended and not any(status.engine for status in session.statuses()):
        names = ", ".join(status.name for status in session.statuses())
        fail(f"{names}: no engine's log that I know; `phasewise formats` lists them.", NOTHING_RECOGNISED)


def span(option: str, text: str | None) -> timedelta | None:
    """A stretch of time as the user wrote it.

    Raises:
        InputError: it is none.
    """
    from advisor.check.units import duration

    try:
        found = None if text is None else timedelta(milliseconds=duration(text)[0])
    except (ValueError, OverflowError):
        found = timedelta.max
    if found is not None and found > _LONGEST:
        raise InputError(f"{option} {text}: give a time such as 30s, 10m or 2h.")
    return found


def tell_unparsed(reading: Reading) -> None:
    """Print the shapes of lines that look like timings and were not read, the most frequent first."""
    shapes = reading.unparsed
    if shapes is None:
        return
    sys.stdout.flush()
    if not shapes.lines:
        warn("every line that looks like a timing was read.")
        return
    lines = plural(shapes.lines, "line")
    warn(f"{lines} looked relevant and were not read; N is a number, … any other text.")
    masked = Redactor()
    for shape, seen in shapes.most(_SHAPES):
        print(f"{seen.count:7}  {masked.text(f'{seen.source}:{seen.line}')}  {clean(shape)}", file=sys.stderr)
    if len(shapes) > _SHAPES:
        print(f"         and {len(shapes) - _SHAPES} more shapes", file=sys.stderr)


def hint_at_other_tables(sizes: Mapping[str, int], table: str) -> None:
    """Say where the rows are when the table asked for has none."""
    others = [f"{n} {name}: use --table {name}" for name, n in sizes.items() if n]
    if not sizes[table] and others:
        warn(f"no {table} in this log, but {'; '.join(others)}.")


def options(
    selection: Selection, given: Given | None = None, *, no_redact: bool = False, by: GroupBy | None = None
) -> Options:
    """The options of a command, completed by ``phasewise.toml``.

    Raises:
        InputError: one of them is no time or size, or the file is wrong.
    """
    from advisor.analysis import Options
    from advisor.config import machine, settings
    from advisor.filters import Filters
    from advisor.options import Given
    from rules.hardware import Machine
    from rules.physics.devices import find_device

    filters = Filters(
        _time("--since", selection.since), _time("--until", selection.until), selection.model, selection.slot
    )
    g = given or Given()
    vram_bytes, memory_bytes = _size("--vram", g.vram), _size("--memory", g.memory)
    known = machine(Machine(g.device, g.bandwidth, vram_bytes, memory_bytes, g.cores, g.sockets))
    if known.device and known.bandwidth_gb_s is None and find_device(known.device, known.vram_bytes) is None:
        warn(f"{known.device}: no facts known of this device; give its memory's speed with --bandwidth GB/s.")
    if no_redact:
        warn("--no-redact: what follows may hold keys, paths, and names of people and machines.")
    return Options(filters, known, settings(), g.gguf, g.props, by, redact=not no_redact)


def _size(option: str, text: str | None) -> int | None:
    from advisor.config import parse_size

    try:
        return None if text is None else parse_size(text)
    except ValueError:
        raise InputError(f"{option} {text}: give a size such as 24GiB.") from None


def _time(option: str, text: str | None) -> datetime | None:
    from advisor.filters import parse_time

    try:
        return None if text is None else parse_time(text)
    except ValueError:
        raise InputError(f"{option} {text}: give a time such as 2026-11-29T19:39.") from None
