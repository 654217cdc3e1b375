"""A log that can be shared: it parses to the same rows, and holds nothing else of its own.

Lines that no format reads are empty. In the others stays what formats read by: their words, numbers, clocks,
ids of requests, and the names that rows carry, as redaction leaves them. Prompts, answers, chat templates,
paths, addresses, and the names of machines and people are gone. The new log is read again before it is handed
over: where its rows are not those of the old one, it is refused.
"""

from __future__ import annotations

import gzip
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import zstandard

from advisor.anonymize.rewrite import Asked, parse, rewrite
from advisor.errors import InputError, UnrecognisedError
from advisor.output import replacing
from advisor.redact import printable
from advisor.sources.files import STDIN, Input, blocks, expand, last_written
from advisor.sources.stores import is_store
from parsers import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from parsers.formats.base import Format


def anonymize(
    given: str, output: Path | None, *, engine: str | None = None, formats: Sequence[Format] = FORMATS
) -> None:
    """Write a log anew.

    Args:
        given: the log, an object in a store, or ``-``.
        output: the new one, compressed if it is called ``.gz`` or ``.zst``; ``None`` for standard output.
        engine: read it as this engine's log.
        formats: what to look for.

    Raises:
        InputError: the log can't be read, the new one would parse to other rows, or it can't be written.
        UnrecognisedError: it is no log that a format knows.
    """
    source = _the_one(given)
    with _folder() as folder:
        path = _on_disk(source, Path(folder) / "log")
        latest = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        asked = Asked(printable(source.name), engine, formats, latest)
        parsed = parse(path, asked)
        if parsed.engine is None:
            raise UnrecognisedError(f"{asked.name}: no engine's log that I know.")
        new = Path(folder) / "new"
        with _spooled(folder), new.open("w+b") as file:
            where = rewrite(path, file, asked, parsed)
        if where is not None:
            raise InputError(
                f"{asked.name}: masked, it would not say the same ({where}); nothing was written."
            )
        _hand_over(new, output, latest)


@contextmanager
def _folder() -> Iterator[str]:
    try:
        folder = tempfile.TemporaryDirectory(prefix="phasewise-")
    except OSError as error:
        raise InputError(f"{tempfile.gettempdir()}: can't be written ({error.strerror or error}).") from None
    with folder as name:
        yield name


@contextmanager
def _spooled(folder: str) -> Iterator[None]:
    """Name the folder that is full: what is written there is on its way to somewhere else.

    Raises:
        InputError: it can't be written to.
    """
    try:
        yield
    except OSError as error:
        raise InputError(f"{folder}: can't be written ({error.strerror or error}).") from None


def _the_one(given: str) -> Input:
    inputs, problems = expand([given])
    if problems:
        raise problems[0]
    if len(inputs) > 1:
        raise InputError(f"{given}: {len(inputs)} files; name one log.")
    return inputs[0]


def _on_disk(source: Input, spool: Path) -> Path:
    """Where the log can be read twice, as old as it is: a file lies there already."""
    if source.name != STDIN and not is_store(source.name):
        return Path(source.name)
    with _spooled(str(spool.parent)):
        with spool.open("wb") as file:
            file.writelines(blocks(source))
        written = last_written(source).timestamp()
        os.utime(spool, (written, written))
    return spool


def _hand_over(new: Path, output: Path | None, latest: datetime) -> None:
    """Put the new log where it is wanted, whole or not at all; its age sets the year of its clocks."""
    if output is None:
        with new.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        return
    with replacing(output) as part, new.open("rb") as file, _packed(part, output.suffix) as packed:
        shutil.copyfileobj(file, packed)
    if output.is_file():
        os.utime(output, (latest.timestamp(), latest.timestamp()))


@contextmanager
def _packed(file: BinaryIO, suffix: str) -> Iterator[BinaryIO]:
    if suffix == ".gz":
        with gzip.GzipFile("", "wb", fileobj=file) as packed:
            yield cast("BinaryIO", packed)
    elif suffix == ".zst":
        with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as packed:
            yield cast("BinaryIO", packed)
    else:
        yield file
