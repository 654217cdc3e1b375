"""Formats that a user writes as a TOML file: the same parts as a built-in one, without Python.

- `spec.py`: the shape of the file, and what can be wrong with it; `places.py`: where in it.
- `columns.py`: what a group may fill, and in which units it may be printed.
- `reader.py`: joins lines to rows with `parsers.formats.joins`.
- `ambiguous.py`: patterns that never end.
- `samples.py`: runs the file's own samples; `partial.py`: how far a pattern matches a line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.user.reader import format_of
from parsers.formats.user.spec import FormatFileError, Problem, parse

if TYPE_CHECKING:
    from parsers.formats.base import Format


def load(text: str, file: str = "a format file") -> Format:
    """The format that a TOML text describes.

    Args:
        text: what the file holds.
        file: its name.

    Raises:
        FormatFileError: the text can't be used; the error holds all that is wrong with it.
    """
    return format_of(parse(text), file)


__all__ = ["FormatFileError", "Problem", "format_of", "load", "parse"]
