"""From what the user named to what a session reads: files, pipes, programs, addresses."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.errors import InputError, MissingError
from advisor.live.tails import TailedLog
from advisor.redact import printable
from advisor.sources.files import STDIN, Input, expand, last_written
from advisor.sources.stores import is_store
from parsers import SourceReader, Stream

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from advisor.live.tails import Tail
    from advisor.options import Programs
    from advisor.sources.growing import Growing
    from parsers.formats import Format

TOKEN = "PHASEWISE_TOKEN"
"""Holds the bearer token that an engine's addresses ask for."""


_ROTATED = re.compile(r"[.-]\d[\d.T:_-]*(?:\.(?:gz|zst|bz2|xz))?")
"""What is put after the name of a file that is rotated away."""


def is_address(named: str) -> bool:
    """Whether what the user named is an engine's address, not a path."""
    return named.startswith(("http://", "https://"))


def tailed(
    named: Sequence[str],
    programs: Programs,
    *,
    engine: str | None,
    formats: Sequence[Format],
    token: str | None,
) -> list[Tail]:
    """What goes on, each thing once; a file that isn't there yet is waited for.

    Args:
        named: paths, ``-`` or addresses.
        programs: the programs that know a log.
        engine: read logs as this engine's.
        formats: what to look for in logs.
        token: the bearer token for addresses.

    Raises:
        InputError: one of them can't be followed.
    """
    tails: list[Tail] = []
    files: dict[str, Input] = {}
    for one in dict.fromkeys(named):
        if is_address(one):
            from advisor.sources.served import Served

            tails.append(Served(one, token=token, formats=formats))
        elif "://" in one and not is_store(one):
            raise InputError(f"{one}: give a server as http://HOST:PORT or https://HOST:PORT.")
        elif one == STDIN:
            tails.append(_log(_standard_input(), engine, formats))
        else:
            for found in _files(one):
                files.setdefault(str(Path(found.name).resolve()), found)
    if files:
        from advisor.sources.follow import Followed

        followed = [found.name for at, found in files.items() if not _is_rotated(at, files)]
        tails.extend(_log(Followed(name), engine, formats, Path(name)) for name in followed)
    if programs.named:
        from advisor.sources.started import Started, container, pod, unit

        kinds = ((unit, programs.unit), (container, programs.container), (pod, programs.pod))
        commands = [command(name) for command, names in kinds for name in names or ()]
        tails.extend(_log(Started(command), engine, formats) for command in commands)
    return tails


def _log(
    growing: Growing, engine: str | None, formats: Sequence[Format], path: Path | None = None
) -> TailedLog:
    """A log that is being written; a result file of a benchmark is complete, so none is looked for."""
    return TailedLog(growing, Stream(growing.name, engine=engine, formats=formats), path=path)


def _files(named: str) -> list[Input]:
    """The files of a path, a folder or a pattern; a file that isn't there yet is one too.

    Raises:
        InputError: there can be none.
    """
    if is_store(named):
        raise InputError(f"{named}: an object in a store doesn't grow; read it with `phasewise analyze`.")
    inputs, problems = expand([named])
    for problem in problems:
        if not isinstance(problem, MissingError):
            raise InputError(str(problem))
    return inputs or [Input(named)]


def _is_rotated(path: str, files: Collection[str]) -> bool:
    """Whether a file is an older part of another one that is followed: ``server.log.1`` of ``server.log``."""
    return any(path != other and _ROTATED.fullmatch(path.removeprefix(other)) for other in files)


def _standard_input() -> Growing:
    """The pipe, by a number of its own: the screens put the terminal in its place.

    Raises:
        InputError: it is closed.
    """
    from advisor.sources.pipe import Piped

    try:
        return Piped(os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0), STDIN)
    except (AttributeError, OSError, ValueError):
        raise InputError("standard input is closed; pipe a log into it.") from None


def finished(
    paths: Sequence[str], *, engine: str | None, formats: Sequence[Format]
) -> tuple[list[Tail], list[InputError]]:
    """Logs that are complete, and why some of the paths give none."""
    from advisor.sources.finished import Finished

    inputs, problems = expand(paths)
    tails: list[Tail] = []
    for source in inputs:
        log = Stream(printable(source.name), engine=engine, latest=last_written(source), formats=formats)
        reader = SourceReader(log, engine=engine, formats=formats)
        complete = _standard_input() if source.name == STDIN else Finished(source)
        tails.append(TailedLog(complete, reader, grows=False, path=Path(source.name)))
    return tails, problems
