"""The two readings and the writing between them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

import polars as pl

from advisor.anonymize.documents import DocumentMasker
from advisor.anonymize.lines import Rewriter
from advisor.anonymize.mask import Masker
from advisor.anonymize.names import Names
from advisor.anonymize.prose import Prose
from advisor.anonymize.vocabulary import WORD, spellings, texts_of, words_of
from advisor.filters import redacted
from advisor.redact import Redactor
from advisor.redact.order import number_secrets
from advisor.redact.setups import redacted_setup
from advisor.sources.files import Input, blocks
from parsers import SourceReader, Stream, Tables
from parsers.documents.reader import DocumentReader
from parsers.records import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from parsers.formats.base import Format
    from parsers.setup import Setup
    from parsers.stream import Watch

_MOVED = ("source", "offset", "label")
"""Columns that say where the file is, and where in it."""


_SPELLINGS: tuple[Callable[[str], str], ...] = (
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: text.replace('"', '""'),
    str,
)
"""As JSON, CSV and other lines spell a text."""
_ROOT = re.compile(r"(?:[A-Za-z]:)?[/\\]?(?:(?:home|root|mnt|srv|Users|usr/share)/)?")


@dataclass(frozen=True, slots=True)
class Asked:
    """How a log is read.

    Attributes:
        name: what the user calls it.
        engine: read it as this engine's log.
        formats: what to look for.
        latest: when it was last written; clocks without a year depend on it.
    """

    name: str
    engine: str | None
    formats: Sequence[Format]
    latest: datetime


Rows: TypeAlias = "tuple[dict[str, pl.DataFrame], list[Setup]]"
"""Tables by their names, and setups."""


@dataclass(slots=True)
class Parsed:
    """What was read of a log, and why it could not be read to its end, if so."""

    tables: Tables = field(default_factory=Tables)
    setups: Sequence[Setup] = ()
    engine: str | None = None
    is_document: bool = False
    problem: str | None = None

    @property
    def frames(self) -> dict[str, pl.DataFrame]:
        """The rows by their tables."""
        return {name: getattr(self.tables, name) for name in TABLES}


def parse(path: Path, asked: Asked, watch: Watch | None = None) -> Parsed:
    """Read a file; who watches is shown every line of it.

    Raises:
        InputError: it can't be read.
    """
    stream = Stream(asked.name, engine=asked.engine, latest=asked.latest, formats=asked.formats, watch=watch)
    source = SourceReader(stream, engine=asked.engine, formats=asked.formats)
    parsed = Parsed()
    for block in blocks(Input(str(path))):
        parsed.tables.extend(source.feed(block))
    parsed.tables.extend(source.close())
    parsed.problem = source.problem
    parsed.setups, parsed.engine = source.reader.setup_of_run, source.reader.engine
    parsed.is_document = isinstance(source.reader, DocumentReader)
    return parsed


def redacted_rows(parsed: Parsed, words: Redactor | None = None) -> Rows:
    """The rows and setups as every output shows them."""
    words = words or Redactor()
    number_secrets(words, parsed.tables, parsed.setups)
    frames = {name: redacted(frame, words) for name, frame in parsed.frames.items()}
    return frames, [redacted_setup(setup, words) for setup in parsed.setups]


def rewrite(path: Path, out: BinaryIO, asked: Asked, parsed: Parsed) -> str | None:
    """Write the log anew, and read that; with more of its lines, where the least says something else.

    Args:
        path: the log.
        out: takes the new one; a file that can be read by its name.
        asked: how it is read.
        parsed: what was read of it.

    Returns:
        Where the new log's rows are others than the old one's, in words; ``None`` where they are the same.
    """
    redactor = Redactor()
    rows = redacted_rows(parsed, redactor)
    where = None
    for strict in (True,) if parsed.is_document else (True, False):
        out.seek(0)
        out.truncate()
        _write(path, out, asked, parsed, _masker(asked, parsed, rows, redactor, strict=strict))
        new = parse(Path(out.name), asked)
        where = "where it breaks" if new.problem != parsed.problem else _difference(rows, redacted_rows(new))
        if where is None:
            break
    return where


def _write(path: Path, out: BinaryIO, asked: Asked, parsed: Parsed, masker: Masker) -> None:
    if parsed.is_document:
        document = DocumentMasker(masker)
        for line in _lines(path):
            out.write(document.line(line).encode("utf-8", "replace"))
    else:
        parse(path, asked, Rewriter(asked, masker, out.write).line)
    out.flush()


def _masker(asked: Asked, parsed: Parsed, rows: Rows, redactor: Redactor, *, strict: bool) -> Masker:
    """What masks the log's texts and keeps those of its rows."""
    names: dict[str, str] = {}
    ids: set[str] = set()
    for column, raw, shown in _pairs(parsed, *rows):
        if raw != shown:
            kept = _root(raw) + shown if column == "model" else shown
            names |= {spell(raw): spell(kept) for spell in _SPELLINGS}
        if column == "request_id":
            ids |= {shown, shown.rpartition("-")[0]}  # engines number what a request asks for
    shown_texts = [shown for column, _, shown in _pairs(parsed, *rows) if column != "request_id"]
    texts = texts_of(asked.formats)
    words = {*words_of(texts), *(word.lower() for text in shown_texts for word in WORD.findall(text))}
    prose = Prose((*(spelled for text in texts for spelled in spellings(text)), *shown_texts))
    private = redactor.private
    return Masker(words, prose, Names(names), ids, private, kept=frozenset(shown_texts), strict=strict)


def _pairs(
    parsed: Parsed, frames: dict[str, pl.DataFrame], setups: list[Setup]
) -> Iterator[tuple[str, str, str]]:
    """The texts of rows and setups with their columns, as they were read and as they are shown."""
    for name, frame in parsed.frames.items():
        for column, dtype in frame.schema.items():
            if dtype == pl.String and column not in _MOVED:
                pairs = pl.DataFrame({"raw": frame[column], "shown": frames[name][column]}).drop_nulls()
                yield from ((column, raw, shown) for raw, shown in pairs.unique().iter_rows())
    for raw, shown in zip(parsed.setups, setups, strict=True):
        for column, value in raw:
            if isinstance(value, str) and column not in _MOVED:
                yield column, value, getattr(shown, column)
        for before, after in zip(raw.devices, shown.devices, strict=True):
            yield "device", before.name, after.name


def _root(path: str) -> str:
    """How the path of a model begins: that says which system it is on."""
    found = _ROOT.match(path)
    return found[0] if found else ""


def _lines(path: Path) -> Iterator[str]:
    """The lines of a file with their breaks."""
    torn = b""
    for block in blocks(Input(str(path))):
        *whole, torn = (torn + block).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace") + "\n"
    yield torn.decode("utf-8", "replace")


def _difference(old: Rows, new: Rows) -> str | None:
    """Where two readings differ first, in words."""
    for name, frame in old[0].items():
        before, after = (one.drop(_MOVED, strict=False) for one in (frame, new[0][name]))
        if not before.equals(after):
            return _first_difference(name, before, after)
    for one, other in zip_longest(old[1], new[1]):
        said, says = (setup.model_dump(exclude={*_MOVED}) if setup else {} for setup in (one, other))
        if said != says:
            fact = next(name for name in said or says if said.get(name) != says.get(name))
            return f"the setup of line {(said or says)['line']}, {fact}"
    return None


def _first_difference(table: str, before: pl.DataFrame, after: pl.DataFrame) -> str:
    for at in range(max(before.height, after.height)):
        old, now = (one.row(at, named=True) if at < one.height else {} for one in (before, after))
        if old != now:
            column = next(name for name in (old or now) if old.get(name) != now.get(name))
            return f"the {table} of line {(old or now)['line']}, {column}"
    return f"the {table}"
