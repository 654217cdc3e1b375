"""What a verb writes: to a file, whole or not at all, or to standard output."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from advisor.errors import InputError
from advisor.sources.files import STDIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic import BaseModel

_LONGEST_NAME = 200


def target(path: Path | None, inputs: Sequence[str]) -> Path | None:
    """Where to write; ``None`` is standard output, which ``-`` means too.

    Raises:
        InputError: it is one of the logs themselves.
    """
    if path is None or str(path) == STDIN:
        return None
    if path.resolve() in {Path(one).resolve() for one in inputs if one != STDIN}:
        raise InputError(f"{path}: this is the log itself; name another file to write.")
    return path


def json_text(said: BaseModel, *, unicode: bool = True) -> str:
    """A model as indented JSON, in ASCII without ``unicode``."""
    text = said.model_dump_json(by_alias=True, indent=2)
    return (text if unicode else json.dumps(json.loads(text), indent=2)) + "\n"


def write_text(text: str, path: Path | None) -> None:
    """Write a text to a file, or to standard output without one.

    Raises:
        InputError: the file can't be written.
    """
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
    beside = path.with_name(f".{path.name[:_LONGEST_NAME]}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            yield file
        if path.exists():
            shutil.copymode(path, beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
