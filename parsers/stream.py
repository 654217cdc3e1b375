"""The one incremental core: bytes in, rows out.

A file, a pipe, a tail and a part of a big file differ only in who supplies the bytes. State is small: the
torn last line, and for each process the requests still open. Literals are searched first, in whole blocks;
patterns are tried only on the lines that hold one. What is read depends on the lines alone, never on where
the supplier of the bytes happened to cut them.
"""

from __future__ import annotations

import codecs
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from parsers.carriers import may_be_json_record, unwrap
from parsers.cut import drop_middle
from parsers.formats import FORMATS
from parsers.formats.base import At, Counts, Process
from parsers.own_lines import OwnLines
from parsers.search import Search
from parsers.torn import may_go_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parsers.formats.base import Format, Reader
    from parsers.records import Row
    from parsers.search import Trial
    from parsers.setup import Setup

_BOMS = {codecs.BOM_UTF8: None, codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class UnknownEngineError(ValueError):
    """No format is called that."""


def _formats_of(engine: str | None, formats: Sequence[Format]) -> list[Format]:
    """The formats of an engine, of what it runs inside, and of setups; all of them for ``None``."""
    if engine is None:
        return list(formats)
    named = [fmt for fmt in formats if fmt.engine == engine]
    if not named:
        raise UnknownEngineError(engine)
    wanted = {engine, *(inside for fmt in named for inside in fmt.inside)}
    return [fmt for fmt in formats if fmt.engine in wanted or fmt.grain == "setup"]


def _unindented(line: bytes) -> tuple[bytes, ...]:
    """The line, and without its indentation where it has one."""
    return (line, line.lstrip(b" \t")) if line[:1] in (b" ", b"\t") else (line,)


class Stream:
    """Reads one source.

    Args:
        source: the name rows carry.
        engine: read only this engine's formats, without looking for others.
        year: the year of clocks that print none (vLLM); default that of ``latest``.
        latest: when the source was last written; default now. A clock without a year does not begin after it.
        formats: the formats to look for, in the order they are tried.

    Attributes:
        bytes: bytes fed so far.
        lines: lines begun so far.
        setups: what each process start said of itself.
        matched: how many lines each engine's formats have recognised.
    """

    def __init__(
        self,
        source: str,
        *,
        engine: str | None = None,
        year: int | None = None,
        latest: datetime | None = None,
        formats: Sequence[Format] = FORMATS,
    ) -> None:
        self.source = source
        self.bytes = 0
        self.matched: Counter[str] = Counter()
        self._year = year
        self._latest = latest or datetime.now(UTC)
        self._newlines = 0
        self._offset = 0
        self._head: bytes | None = b""
        self._torn = bytearray()
        self._torn_size = 0
        self._no_newline = False
        self._encoding: str | None = None
        self._decoder: codecs.IncrementalDecoder | None = None
        self._out: list[Row] = []
        self._setups: list[Setup] = []
        self._processes: dict[bytes | None, Process] = {}
        self._readers: dict[tuple[bytes | None, Format], Reader] = {}
        self._own_lines = OwnLines()
        self._search = Search(_formats_of(engine, formats), awake=engine is not None)

    @property
    def lines(self) -> int:
        """Lines seen, a last one without newline included."""
        return self._newlines + (1 if self._torn_size else 0)

    @property
    def counts(self) -> Counts:
        """Rows and losses so far."""
        total = Counts()
        for process in self._processes.values():
            total.add(process.counts)
        return total

    @property
    def setups(self) -> list[Setup]:
        """Setups that hold at least one fact."""
        return [s for s in self._setups if not s.is_empty or s.engine]

    @property
    def setup_of_run(self) -> list[Setup]:
        """All setups, indexed by the rows' ``run``."""
        return self._setups

    @property
    def engine(self) -> str | None:
        """The engine that most recognised lines belong to; ``None`` when nothing was recognised."""
        hosts = [p.host for p in self._processes.values() if p.host]
        if hosts:
            return hosts[0]
        named = Counter({e: n for e, n in self.matched.items() if e != "llama.cpp"}) or self.matched
        if not named:
            return None
        engine = named.most_common(1)[0][0]
        return next((fork for p in self._processes.values() if (fork := p.forks.get(engine))), engine)

    def feed(self, data: bytes) -> list[Row]:
        """Take the next bytes; return the rows that they complete."""
        self.bytes += len(data)
        if self._head is not None:
            data = self._begin(self._head + data)
        if self._decoder is not None:
            data = self._decoder.decode(data).encode()
        if self._torn_size and (cut := data.find(b"\n") + 1):
            self._tear(data[:cut])
            self._end_torn()
            data = data[cut:]
        if cut := data.rfind(b"\n") + 1:
            lines = data[:cut]
            self._whole_lines(lines, lines.count(b"\n"), self._width(lines))
            data = data[cut:]
        self._tear(data)
        return self._take()

    def flush(self) -> list[Row]:
        """Rows that are whole and only waited for lines that might still belong to them."""
        for reader in self._readers.values():
            reader.flush()
        return self._take()

    def close(self) -> list[Row]:
        """The source ends: read a last line without newline too, unless its last value may be cut.

        Then what stayed open is counted.
        """
        if self._head:
            self._tear(self._begin(self._head, last=True))
        if self._torn_size:
            self._end_torn()
        for reader in self._readers.values():
            reader.close()
        return self._take()

    def _begin(self, data: bytes, *, last: bool = False) -> bytes:
        """Take the byte order mark off the first bytes; keep them back while it may still be coming."""
        if not last and any(mark.startswith(data) and mark != data for mark in _BOMS):
            self._head = data
            return b""
        self._head = None
        for mark, encoding in _BOMS.items():
            if data.startswith(mark):
                self._offset = len(mark)
                if encoding:
                    self._encoding = encoding
                    self._decoder = codecs.getincrementaldecoder(encoding)("replace")
                return data[len(mark) :]
        return data

    def _tear(self, data: bytes) -> None:
        """Keep what may still be the beginning of a line, but no more of it than is ever read."""
        self._torn += data
        drop_middle(self._torn)
        self._torn_size += self._width(data)

    def _end_torn(self) -> None:
        line, size = bytes(self._torn), self._torn_size
        self._torn, self._torn_size = bytearray(), 0
        self._no_newline = not line.endswith((b"\n", b"\r"))
        self._whole_lines(line, 1, size)
        self._no_newline = False

    def _take(self) -> list[Row]:
        rows, self._out[:] = list(self._out), []
        return rows

    def _whole_lines(self, block: bytes, lines: int, size: int) -> None:
        number, offset, line_start = self._newlines + 1, self._offset, 0
        clean = b"\x1b" not in block and b"\r" not in block
        self._own_lines.begin(block)
        for start, raw, found in self._search.hits(block, lambda at: self._offset + self._width(block[:at])):
            number += block.count(b"\n", line_start, start)
            offset += self._width(block[line_start:start]) if self._encoding else start - line_start
            line_start = start
            self._own_lines.start = start
            self._line(raw, found, clean, number, offset)
        self._own_lines.end()
        self._newlines += lines
        self._offset += size

    def _width(self, text: bytes) -> int:
        """How many bytes of the source this text was."""
        return len(text.decode().encode(self._encoding, "replace")) if self._encoding else len(text)

    def _line(
        self, raw: bytes, found: list[tuple[bytes, list[Trial]]], clean: bool, number: int, offset: int
    ) -> None:
        """Hand a line to the first reader one of whose patterns it matches: bare, unwrapped or unindented."""
        if not clean:
            raw = raw.rstrip(b"\r")
            clean = b"\x1b" not in raw and b"\r" not in raw
        clean = clean and not may_be_json_record(raw)
        own_number = 0
        for needle, trials in found:
            if clean and self._try(trials, At(number, offset, None, raw, number), None):
                return
            for text in _unindented(raw):
                carried, label, time = unwrap(text, needle)
                if label is not None and not own_number:
                    own_number = self._own_lines.number() or number
                for body in _unindented(carried):
                    if clean and body is raw:
                        continue
                    at = At(number, offset, time, body, own_number if label else number)
                    if self._try(trials, at, label):
                        return

    def _try(self, trials: list[Trial], at: At, label: bytes | None) -> bool:
        """True if one matched; a number in it that is none, or can't be, costs the line and no more."""
        offset, body = at.offset, at.body
        for trial in trials:
            if offset >= trial.since and trial.word in body and (match := trial.match(body)) is not None:
                take = trial.takers.get(label)
                if take is None:
                    if label not in trial.places:
                        continue
                    take = trial.takers[label] = getattr(self._reader(label, trial.format), trial.name)
                if self._no_newline and may_go_on(trial.match, body):
                    self.matched[trial.engine] += 1
                    return True
                try:
                    mine = take(match, at) is not False
                except (ValueError, ArithmeticError):
                    self._processes[label].counts.impossible_values += 1
                    mine = True
                if mine:
                    self.matched[trial.engine] += 1
                    return True
        return False

    def _reader(self, label: bytes | None, fmt: Format) -> Reader:
        if reader := self._readers.get((label, fmt)):
            return reader
        process = self._processes.get(label)
        if process is None:
            process = Process(self.source, Counts(), self._out, self._setups)
            process.year, process.latest = self._year, self._latest
            self._processes[label] = process
            for host in self._search.awake:
                if host.host and host is not fmt and (label is None or host.engine.encode() in label):
                    self._add_reader(label, host, process)
        return self._add_reader(label, fmt, process)

    def _add_reader(self, label: bytes | None, fmt: Format, process: Process) -> Reader:
        reader = self._readers[label, fmt] = fmt.reader(process)
        process.readers.append(reader)
        return reader
