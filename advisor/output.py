"""What a verb writes: to a file, whole or not at all, or to standard output."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from advisor.errors import InputError
from advisor.sources.files import STDIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import BaseModel

T = TypeVar("T")


def target(path: Path | None, inputs: Sequence[str]) -> Path | None:
    """Where to write; ``None`` is standard output, which ``-`` means too.

    Raises:
        InputError: it is one of the logs themselves, or can't be a file there.
    """
    if path is None or str(path) == STDIN:
        return None
    if path.resolve() in {Path(one).resolve() for one in inputs if one != STDIN}:
        raise InputError(f"{path}: this is the log itself; name another file to write.")
    try:
        if path.is_dir():
            raise InputError(f"{path}: can't be written (it is a folder).")
    except OSError as error:
        raise InputError(f"{path}: can't be written ({error.strerror or error}).") from None
    require_folder(path)
    return path


def old(*paths: Path | None) -> Path | None:
    """The first of them that is there, and would be replaced."""
    return next((path for path in paths if path is not None and path.exists()), None)


def require_folder(path: Path) -> None:
    """Say before the work that a file or folder has nothing to stand in.

    Raises:
        InputError: the folder around it isn't there.
    """
    if not path.resolve().parent.is_dir():
        raise InputError(f"{path}: can't be written (no such folder: {path.parent}).")


def format_of(path: Path | None, asked: T | None, endings: Mapping[str, T], default: T) -> T:
    """The format asked for, else by the file's ending; on standard output the default.

    Raises:
        InputError: the ending says nothing that can be written.
    """
    if asked is not None:
        return asked
    if path is None or str(path) == STDIN:
        return default
    kind = endings.get(path.suffix.lower())
    if kind is None:
        firsts = {kind: ending for ending, kind in reversed(list(endings.items()))}
        *others, last = (ending for ending in endings if ending in firsts.values())
        raise InputError(f"{path}: name it {', '.join(others)} or {last}, or say --format.")
    return kind


def json_text(said: BaseModel, *, unicode: bool = True) -> str:
    """A model as indented JSON, in ASCII without ``unicode``."""
    text = said.model_dump_json(by_alias=True, indent=2)
    return (text if unicode else json.dumps(json.loads(text), indent=2)) + "\n"


def write_text(text: str, path: Path | None, *, exactly: bool = False) -> None:
    """Write a text to a file, or to standard output without one.

    Args:
        text: what to write; a file gets it in UTF-8.
        path: where.
        exactly: standard output gets it in UTF-8 too, whatever the terminal's encoding.

    Raises:
        InputError: the file can't be written.
    """
    if path is None and exactly:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8"))
        return
    if path is None:
        sys.stdout.write(text)
        return
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file beside another one: put in its place when the block ends well, removed when it doesn't.

    Raises:
        InputError: the file can't be written.
    """
    try:
        with _beside(path.resolve()) as file:
            yield file
    except OSError as error:
        raise InputError(f"{path}: can't be written ({error.strerror or error}).") from None


@contextmanager
def _beside(path: Path) -> Iterator[BinaryIO]:
    if path.exists() and not path.is_file():
        with path.open("wb") as device:
            yield device
        return
    beside = path.with_name(f".phasewise-{os.urandom(6).hex()}.part")
    try:
        with beside.open("xb") as file:  # never through a link that somebody else put there
            if path.exists():
                shutil.copymode(path, beside)
            yield file
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
