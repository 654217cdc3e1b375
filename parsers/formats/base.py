"""The shape of a format: what identifies an engine's log, its lines, and the reader that joins them.

A format is mostly data. Each `Line` names a method of the format's `Reader`; the core finds lines by their
literal ``needle``, unwraps them, and calls that method with the match. Readers hand over finished rows with
``self.process.emit``. They hold little: the requests still open, nothing else.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from parsers.documents.base import Document
    from parsers.formats.process import Process
    from parsers.usual import Layouts


@dataclass(frozen=True, slots=True)
class Line:
    """One kind of line.

    Attributes:
        name: the reader's method that takes it.
        needle: a literal that every such line holds, and few others; the core searches whole blocks for it
            before any pattern is tried. Each costs a search of the whole log, so alike lines share one.
        source: of the pattern, which is compiled when it is first asked for: a log needs few formats.
        word: another literal that every such line holds; tells lines with the same needle apart.
        who: names a pattern of a user, which may not take as long as it likes; empty for the project's own.
    """

    name: str
    needle: bytes
    source: bytes
    word: bytes = b""
    who: str = ""

    @property
    def pattern(self) -> re.Pattern[bytes]:
        """Matched at the start of the unwrapped line; named groups carry the values."""
        return _compiled(self.source)


@cache
def _compiled(source: bytes) -> re.Pattern[bytes]:
    return re.compile(source)


def line(name: str, needle: bytes, pattern: bytes, word: bytes = b"") -> Line:
    """A `Line` from its parts."""
    return Line(name, needle, pattern, word)


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """One engine's log format, in one file.

    Attributes:
        engine: the name rows carry and ``--engine`` takes.
        title: for people.
        versions: the engine versions whose layouts are read.
        grain: what one record of the log is: `request`, `interval`, `aggregate` or `setup`.
        identify: literals; the format's lines are tried from the first line on that holds one of them, if it
            is one of ``lines`` or a banner.
        lines: the lines it reads.
        reader: makes the object that joins lines to rows.
        host: true for a program that runs another engine and logs around it, so both logs are one.
        inside: the engines whose lines stand in its log; ``--engine`` reads them with it.
        splits: the phases that such a log times for each request, in words for people.
        banner: a pattern, matched at the start of an unwrapped line that holds one of ``identify``: what
            identifies the engine and is none of ``lines``.
        documents: whole files that it writes; one is claimed by its first bytes instead.
        ends: how requests end without times, of ``aborted``, ``failed`` and ``incomplete``, where such a log
            surely says so: only there is a count of 0 a number.
        usual: gives the layouts of the lines that are printed most, which are read many at a time.
    """

    engine: str
    title: str
    versions: str
    grain: str
    identify: tuple[bytes, ...]
    lines: tuple[Line, ...]
    reader: Callable[[Process], Reader]
    host: bool = False
    inside: tuple[str, ...] = ()
    splits: str = ""
    banner: bytes | None = None
    documents: tuple[Document, ...] = ()
    ends: tuple[str, ...] = ()
    usual: Callable[[], Layouts] | None = None


class At(NamedTuple):
    """Where a matched line stands.

    Attributes:
        number: 1-based line number in the source.
        offset: byte offset of the line in the source.
        time: the carrier's clock, UTC, or ``None``.
        body: the unwrapped line.
        own_number: its number among the lines of its container, which says what stands next to what; the
            same as ``number`` where the line names no container.
    """

    number: int
    offset: int
    time: datetime | None
    body: bytes
    own_number: int


class Reader:
    """Joins a format's lines to rows. One method for each `Line.name`, called with match and place.

    A method that returns ``False`` says that the line is not its engine's after all: others may take it.
    """

    engine: ClassVar[str] = ""

    def __init__(self, process: Process) -> None:
        self.process = process

    @property
    def is_steady(self) -> bool:
        """Whether usual lines may be read many at a time now, as the format's layouts do."""
        return False

    def flush(self) -> None:
        """Emit rows that are whole and only waited for lines that might still belong to them."""

    def joined(self) -> None:
        """Another process begins, and the one so far may live on beside it."""
        self.close()

    def close(self) -> None:
        """The source or the process ends here: emit what is whole, count what is not."""


def number(text: bytes | None) -> float | None:
    """A printed number; ``None`` for ``inf``, ``nan`` and nothing."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def integer(text: bytes | None) -> int | None:
    """A printed integer, thousands separators allowed; ``None`` for nothing."""
    return None if text is None else int(text.replace(b",", b""))


def text(value: bytes | None) -> str | None:
    """A printed word as str; ``None`` for nothing."""
    return None if value is None else value.decode("utf-8", "replace").strip() or None
