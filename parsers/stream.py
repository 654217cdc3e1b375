"""The one incremental core: bytes in, rows out.

A file, a pipe, a tail and a part of a big file differ only in who supplies the bytes. State is small: the
torn last line, and for each process the requests still open. Literals are searched first, in whole blocks;
patterns are tried only on the lines that hold one.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from parsers.carriers import unwrap
from parsers.formats import FORMATS
from parsers.formats.base import At, Counts, Process

if TYPE_CHECKING:
    from parsers.formats.base import Format, Line, Reader
    from parsers.records import Row
    from parsers.setup import Setup

_MAX_LINE = 1 << 20
_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


class UnknownEngineError(ValueError):
    """No format is called that."""


class Stream:
    """Reads one source.

    Args:
        source: the name rows carry.
        engine: read only this engine's formats, without looking for others.
        year: the year of clocks that print none (vLLM); default this year.

    Attributes:
        bytes: bytes fed so far.
        lines: lines begun so far.
        counts: rows and losses so far.
        setups: what each process start said of itself.
        matched: how many lines each engine's formats have recognised.
    """

    def __init__(self, source: str, *, engine: str | None = None, year: int | None = None) -> None:
        self.source = source
        self.bytes = 0
        self.counts = Counts()
        self.matched: Counter[str] = Counter()
        self._year = year if year is not None else datetime.now(UTC).year
        self._newlines = 0
        self._offset = 0
        self._torn: list[bytes] = []
        self._torn_size = 0
        self._skipping = False
        self._decoder: codecs.IncrementalDecoder | None = None
        self._out: list[Row] = []
        self._setups: list[Setup] = []
        self._processes: dict[bytes | None, Process] = {}
        self._readers: dict[tuple[bytes | None, str], Reader] = {}
        self._asleep = [f for f in FORMATS if engine is None or f.engine == engine or f.grain == "setup"]
        self._awake: list[Format] = []
        self._by_needle: dict[bytes, list[tuple[Format, Line]]] = {}
        self._needles: re.Pattern[bytes] | None = None
        if engine is not None:
            if not any(f.engine == engine for f in FORMATS):
                raise UnknownEngineError(engine)
            self._wake(list(self._asleep))

    @property
    def lines(self) -> int:
        """Lines seen, a last one without newline included."""
        return self._newlines + (1 if self._torn_size else 0)

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
        return named.most_common(1)[0][0] if named else None

    def feed(self, data: bytes) -> list[Row]:
        """Take the next bytes; return the rows that they complete."""
        if self.bytes == 0:
            data = self._begin(data)
        self.bytes += len(data)
        if self._decoder is not None:
            data = self._decoder.decode(data).encode()
        cut = data.rfind(b"\n") + 1
        if cut:
            self._whole_lines(b"".join((*self._torn, data[:cut])))
            self._offset += self._torn_size + cut
            self._torn, self._torn_size, self._skipping = [], 0, False
            data = data[cut:]
        if data:
            self._keep_torn(data)
        return self._take()

    def flush(self) -> list[Row]:
        """Rows that are whole and only waited for lines that might still belong to them."""
        for reader in self._readers.values():
            reader.flush()
        return self._take()

    def close(self) -> list[Row]:
        """The source ends: read the last line even without its newline, and count what stayed open."""
        if self._torn_size:
            self._whole_lines(b"".join(self._torn))
            self._newlines += 1
            self._torn, self._torn_size = [], 0
        for reader in self._readers.values():
            reader.close()
        return self._take()

    def _begin(self, data: bytes) -> bytes:
        for bom, encoding in _UTF16.items():
            if data.startswith(bom):
                self._decoder = codecs.getincrementaldecoder(encoding)("replace")
                return data[len(bom) :]
        return data.removeprefix(codecs.BOM_UTF8)

    def _keep_torn(self, data: bytes) -> None:
        self._torn_size += len(data)
        if not self._skipping:
            self._torn.append(data)
            self._skipping = self._torn_size > _MAX_LINE

    def _take(self) -> list[Row]:
        rows, self._out[:] = list(self._out), []
        return rows

    def _wake(self, formats: list[Format]) -> None:
        self._awake = [f for f in FORMATS if f in self._awake or f in formats]
        self._asleep = [f for f in self._asleep if f not in formats]
        self._by_needle = {}
        for fmt in self._awake:
            for line in fmt.lines:
                self._by_needle.setdefault(line.needle, []).append((fmt, line))
        longest_first = sorted(self._by_needle, key=len, reverse=True)
        self._needles = re.compile(b"|".join(re.escape(n) for n in longest_first)) if longest_first else None

    def _whole_lines(self, block: bytes) -> None:
        woken = [f for f in self._asleep if any(word in block for word in f.identify)]
        if woken:
            self._wake(woken)
        if self._needles is not None:
            self._search(block, self._needles, self._newlines + 1, self._offset)
        self._newlines += block.count(b"\n")

    def _search(self, block: bytes, needles: re.Pattern[bytes], number: int, offset: int) -> None:
        position = line_start = 0
        while found := needles.search(block, position):
            start = block.rfind(b"\n", line_start, found.start()) + 1 or line_start
            number += block.count(b"\n", line_start, start)
            line_start = start
            end = block.find(b"\n", found.end())
            end = len(block) if end < 0 else end
            raw = block[start:end].rstrip(b"\r")
            while not self._line(raw, found.group(), number, offset + start):
                if (again := needles.search(block, found.end(), end)) is None:
                    break
                found = again
            position = end

    def _line(self, raw: bytes, needle: bytes, number: int, offset: int) -> bool:
        carried = unwrap(raw, needle)
        for fmt, line in self._by_needle[needle]:
            if match := line.pattern.match(carried.body):
                reader = self._reader(carried.label, fmt)
                self.matched[fmt.engine] += 1
                getattr(reader, line.name)(match, At(number, offset, carried.time, carried.body))
                return True
        return False

    def _reader(self, label: bytes | None, fmt: Format) -> Reader:
        key = (label, fmt.engine)
        if reader := self._readers.get(key):
            return reader
        process = self._processes.get(label)
        if process is None:
            process = Process(self.source, self.counts, self._out, self._setups, self._year)
            self._processes[label] = process
            for host in self._awake:
                if host.host and host is not fmt and (label is None or host.engine.encode() in label):
                    self._add_reader(label, host, process)
        return self._add_reader(label, fmt, process)

    def _add_reader(self, label: bytes | None, fmt: Format, process: Process) -> Reader:
        reader = self._readers[label, fmt.engine] = fmt.reader(process)
        process.readers.append(reader)
        return reader
