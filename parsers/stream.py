"""The one incremental core: bytes in, rows out.

A file, a pipe, a tail and a part of a big file differ only in who supplies the bytes. State is small: the
torn last line, and for each process the requests still open. Literals are searched first, in whole blocks;
patterns are tried only on the lines that hold one. What is read depends on the lines alone, never on where
the supplier of the bytes happened to cut them.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from parsers.blocks import Blocks, width
from parsers.carriers import Carried, may_be_json_record
from parsers.formats import FORMATS
from parsers.formats.base import At
from parsers.formats.process import Counts, Process, engine_of
from parsers.lines import has_parts, identifying, texts_of, unindented
from parsers.quotes import Quotes
from parsers.search import Search, formats_of
from parsers.setup import Setups
from parsers.torn import may_go_on

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence

    from parsers.blocks import Block
    from parsers.formats.base import Format, Reader
    from parsers.records import Columns, Row
    from parsers.search import Known, Place, Trial
    from parsers.setup import Setup
    from parsers.usual import FastWay

_LARGE = 1 << 16
"""Smaller blocks are read line by line: a terminal or a pipe gives such, and they cost little."""

Watch: TypeAlias = "Callable[[int, bytes, list[Taken] | None], None]"
"""Sees every line with its number and its break, and what was read of it: nothing, if that is empty; ``None``
where no pattern was tried."""


class Taken(NamedTuple):
    """What a line was read by.

    Attributes:
        trial: the line of a format, and who took it.
        match: its match; of what was unwrapped, so it may hold less than the line.
    """

    trial: Trial
    match: re.Match[bytes]


class Stream:
    """Reads one source.

    Args:
        source: the name rows carry.
        engine: read only this engine's formats, without looking for others.
        year: the year of clocks that print none (vLLM); default that of ``latest``.
        latest: when the source was last written; default now. A clock without a year does not begin after it.
        formats: the formats to look for, in the order they are tried.
        watch: is shown every line once it is read.

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
        watch: Watch | None = None,
    ) -> None:
        self.source = source
        self.bytes = 0
        self.matched: Counter[str] = Counter()
        self._year = year
        self._latest = latest or datetime.now(UTC)
        self._blocks = Blocks()
        self._no_newline = False
        self._out: list[Row | Columns] = []
        self._setups = Setups()
        self._processes: dict[bytes | None, Process] = {}
        self._readers: dict[tuple[bytes | None, Format], Reader] = {}
        self._quotes = Quotes()
        self._search = Search(formats_of(engine, formats), awake=engine is not None)
        self._watch = watch
        self._taken: dict[int, list[Taken]] = {}
        self._clean = self._together = False
        self._fast_way: FastWay | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_fast_way": None}

    def written(self, latest: datetime) -> None:
        """It goes on, and was last written at another time than is known of it.

        Raises:
            ValueError: a clock without a year would begin in another one now.
        """
        self._latest = latest
        for process in self._processes.values():
            process.latest = latest
            if process.dated_before is not None and latest >= process.dated_before:
                raise ValueError("its year is unsure")

    @property
    def lines(self) -> int:
        """Lines seen, a last one without newline included."""
        return self._blocks.lines

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
    def setup_of_run(self) -> Setups:
        """All setups, indexed by the rows' ``run``."""
        return self._setups

    @property
    def engine(self) -> str | None:
        """The engine that most recognised lines belong to; ``None`` when nothing was recognised."""
        return engine_of(self._processes.values(), self.matched)

    def feed(self, data: bytes) -> list[Row]:
        """Take the next bytes; return the rows that they complete."""
        return cast("list[Row]", self._feed(data))

    def feed_many(self, data: bytes) -> list[Row | Columns]:
        """The same, in a fraction of the time: rows come many together where the log is as usual."""
        self._together = self._watch is None
        try:
            first = 0 if self._search.awake else _LARGE  # what wakes a format stands among the first lines
            return self._feed(data[:first]) + self._feed(data[first:])
        finally:
            self._together = False

    def _feed(self, data: bytes) -> list[Row | Columns]:
        self.bytes += len(data)
        for block in self._blocks.feed(data):
            self._read_block(block)
        return self._take()

    def flush(self) -> list[Row]:
        """Rows that are whole and only waited for lines that might still belong to them."""
        for reader in self._readers.values():
            reader.flush()
        return cast("list[Row]", self._take())

    def close(self) -> list[Row]:
        """The source ends: read a last line without newline too, unless its last value may be cut.

        Then what stayed open is counted.
        """
        for block in self._blocks.close():
            self._read_block(block)
        for reader in self._readers.values():
            reader.close()
        return cast("list[Row]", self._take())

    def _take(self) -> list[Row | Columns]:
        rows, self._out[:] = list(self._out), []
        return rows

    def _read_block(self, block: Block) -> None:
        """Read whole lines."""
        text, offset, last = block.text, block.offset, 0
        self._no_newline = block.no_newline
        self._clean = b"\x1b" not in text and b"\r" not in text
        way = self._way(block)
        others = way.begin(block) if way else None
        way = way if others else None
        for before, start, raw, found, asleep in self._search.hits(text, others):
            if block.offsets:
                offset = block.offsets[before]
            elif block.encoding:
                offset += width(text[last:start], block.encoding)
                last = start
            else:
                offset = block.offset + start
            if way:
                way.read(before)
            self._read_line((block.number + before, offset, start), raw, (found, asleep))
        if way:
            way.read()
        if self._watch:
            self._show(block, self._watch)

    def _way(self, block: Block) -> FastWay | None:
        """The fast way through a block; ``None`` where it would not be one."""
        usual = self._together and self._clean and len(block.text) >= _LARGE
        if not usual or block.offsets or block.encoding or block.no_newline:
            return None
        if self._fast_way is None:
            from parsers.usual import FastWay

            self._fast_way = FastWay(self._search, self._readers, self._read_line, self.matched)
        return self._fast_way

    def _read_line(self, place: Place, raw: bytes, known: Known) -> None:
        """Read a line that may be an engine's; one that wakes formats is searched for again."""
        found, asleep = known
        if asleep and self._wakes(raw, asleep, self._clean, place):
            return
        if self._watch and found:
            self._taken.setdefault(place[0], [])
        self._line(raw, found, self._clean, place)

    def _show(self, block: Block, watch: Watch) -> None:
        """Show the lines of a block to who watches, with what was read of them."""
        for number, line in enumerate(BytesIO(block.text), block.number):
            watch(number, line, self._taken.get(number))
        self._taken.clear()

    def _wakes(self, raw: bytes, asleep: list[Format], clean: bool, place: Place) -> bool:
        """Whether a line identifies formats that are asleep; one in a text that is being printed doesn't."""
        woken = False
        for fmt in asleep:
            text = identifying(fmt, raw.rstrip(b"\r"), clean and self._search.plain, self._search.held)
            if text is not None and not self._is_quoted(text, fmt.engine, place):
                woken |= self._search.wake(fmt, text.label, place[2], place[1])
        return woken

    def _is_quoted(self, text: Carried, engine: str, place: Place) -> bool:
        return bool(self._quotes) and self._quotes.hold(text.label, self._at(text.body, text, place), engine)

    def _line(self, raw: bytes, found: list[tuple[bytes, list[Trial]]], clean: bool, place: Place) -> None:
        """Hand a line to the first reader one of whose patterns it matches: bare, unwrapped or unindented."""
        plain = clean and self._search.plain
        if not clean:
            raw = raw.rstrip(b"\r")
            clean = b"\x1b" not in raw and b"\r" not in raw
        bare = clean and not (raw[:1] == b"{" and may_be_json_record(raw))
        texts: list[Carried] | None = None
        for needle, trials in found:
            if bare and self._try(trials, raw, None, place):
                return
            if texts is None or has_parts(raw):
                texts = texts_of(raw, needle, plain)
            for text in texts:
                if text.more:
                    self._message(text, found, place)
                    return
                if not (bare and text.body is raw) and self._try(trials, text.body, text, place):
                    return

    def _message(self, text: Carried, found: list[tuple[bytes, list[Trial]]], place: Place) -> None:
        """Hand each line of a message that holds several to its reader."""
        for line in (text.body, *text.more):
            any(self._try(trials, body, text, place) for _, trials in found for body in unindented(line))

    def _at(self, body: bytes, text: Carried | None, place: Place) -> At:
        number, offset, start = place
        if text is None:
            return At(number, offset, None, body, number)
        own_number = None if text.label is None else self._search.containers.number(start)
        return At(number, offset, text.time, body, own_number or number)

    def _try(self, trials: list[Trial], body: bytes, text: Carried | None, place: Place) -> bool:
        """True if one matched; a number in it that is none, or can't be, costs the line and no more.

        The body stands bare in the log, or is of a text that was unwrapped.
        """
        at, label, offset = None, text.label if text else None, place[1]
        for trial in trials:
            if offset < trial.since or (trial.word and trial.word not in body):
                continue
            match = trial.match(body)
            if match is None:
                continue
            if at is None:
                at = self._at(body, text, place) if text else At(place[0], place[1], None, body, place[0])
            if self._quotes and self._quotes.hold(label, at, trial.engine):
                continue
            taker = trial.takers.get(label)
            if taker is None:
                if label not in trial.places:
                    continue
                reader = self._reader(label, trial.format, offset)
                taker = trial.takers[label] = getattr(reader, trial.name), self._processes[label]
            if not (self._no_newline and may_go_on(trial.match, body)):
                take, process = taker
                process.at = at
                try:
                    if take(match, at) is False:
                        continue
                except (ValueError, ArithmeticError):
                    process.counts.impossible_values += 1
            self.matched[trial.engine] += 1
            if self._watch:
                self._taken.setdefault(place[0], []).append(Taken(trial, match))
            return True
        return False

    def _reader(self, label: bytes | None, fmt: Format, offset: int) -> Reader:
        if reader := self._readers.get((label, fmt)):
            return reader
        process = self._processes.get(label)
        if process is None:
            process = Process(self.source, Counts(), self._out, self._setups, label)
            process.year, process.latest = self._year, self._latest
            process.quotes = self._quotes
            self._processes[label] = process
            for host, since in self._search.awake.items():
                if (
                    host.host
                    and since <= offset
                    and host is not fmt
                    and (label is None or host.engine.encode() in label)
                ):
                    self._add_reader(label, host, process)
        return self._add_reader(label, fmt, process)

    def _add_reader(self, label: bytes | None, fmt: Format, process: Process) -> Reader:
        reader = self._readers[label, fmt] = fmt.reader(process)
        process.readers.append(reader)
        return reader
