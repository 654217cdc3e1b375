"""The formats that a user wrote: ``formats/*.toml`` beside ``phasewise.toml``, and ``--format-file``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.config import user_file
from advisor.errors import InputError
from parsers import FORMATS
from parsers.formats.user import FormatFileError, load
from parsers.formats.user.messages import message

if TYPE_CHECKING:
    from pathlib import Path

    from parsers.formats import Format

_LARGEST = 1 << 20


def folder() -> Path:
    """Where the user's own formats belong on this system."""
    return user_file().parent / "formats"


def own_formats() -> tuple[Format, ...]:
    """Those of the folder, by name.

    Raises:
        InputError: a file can't be used.
    """
    return tuple(_load(path) for path in sorted(folder().glob("*.toml")))


def all_formats(file: Path | None = None) -> tuple[Format, ...]:
    """Every format in the order they are tried: the given file, the folder's, the built-in ones.

    Raises:
        InputError: a file can't be used.
    """
    given = () if file is None else (_load(file),)
    return *given, *own_formats(), *FORMATS


def text_of(path: Path) -> str:
    """A format file's text.

    Raises:
        InputError: it can't be read.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read(_LARGEST + 1)
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror or error}).") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: no text in UTF-8.") from None
    if len(text) > _LARGEST:
        raise InputError(f"{path}: too large for a format file.")
    return text


def _load(path: Path) -> Format:
    text = text_of(path)
    try:
        return load(text, str(path))
    except FormatFileError as error:
        first = message(text, str(path), error.problems[0]).splitlines()[0]
        raise InputError(f"{first}; `phasewise formats check {path}` shows where.") from None
