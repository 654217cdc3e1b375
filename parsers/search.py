"""Finds the lines of a block that a format may know: literals first, patterns only where one is found."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from parsers.carriers import UNUSUAL
from parsers.containers import Containers
from parsers.cut import MAX_LINE, ends_of
from parsers.finding import find, lines_at, places_of
from parsers.grams import Literals
from parsers.limits import Limited

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from parsers.formats.base import At, Format, Line
    from parsers.formats.process import Process
    from parsers.printed import Ints

_UNUSUAL = frozenset(UNUSUAL)
_ALL = ((0, None),)
_GATHERED = {"_literals", "_trials", "_words", "_rank", "_known"}

_DIGITS, _BLANKS = re.compile(rb"[0-9]+"), re.compile(rb" +")

_MOST_KNOWN = 4096
"""Sets of literals that lines hold together; a log has some hundred."""

Found: TypeAlias = "list[tuple[bytes, list[Trial]]]"
"""Each needle of a line with the lines of formats that have it, in the order of the formats."""

Known: TypeAlias = "tuple[Found, list[Format]]"
"""What was found in a line, and the formats that are asleep and may wake by it."""

Hit: TypeAlias = "tuple[int, int, bytes, Found, list[Format]]"
"""A line that may be an engine's: how many are before it in its block, where it starts there, what is kept of
it, and what is `Known`."""


Place: TypeAlias = tuple[int, int, int]
"""A line's number, its offset in the source, and where it starts in its block."""

Taker: TypeAlias = "tuple[Callable[[re.Match[bytes], At], bool | None], Process]"
"""A reader's method, and the process it reads."""


class Others(NamedTuple):
    """The lines of a block that are left to be searched.

    Attributes:
        text: these lines.
        lines: which of the block's lines they are.
        starts: where each line of the block starts.
        reach: reads the block's lines before one, which are not searched for.
    """

    text: bytes
    lines: Ints
    starts: Ints
    reach: Callable[[int], None]


class UnknownEngineError(ValueError):
    """No format is called that."""


def formats_of(engine: str | None, formats: Sequence[Format]) -> list[Format]:
    """The formats of an engine, of what it runs inside, and of setups; all of them for ``None``."""
    if engine is None:
        return list(formats)
    named = [fmt for fmt in formats if fmt.engine == engine]
    if not named:
        raise UnknownEngineError(engine)
    wanted = {engine, *(inside for fmt in named for inside in fmt.inside)}
    return [fmt for fmt in formats if fmt.engine in wanted or fmt.grain == "setup"]


class Places:
    """The containers whose lines have identified a format; all of them, once a line of none has."""

    def __init__(self, *, everywhere: bool) -> None:
        self.everywhere = everywhere
        self._labels: set[bytes | None] = set()

    def add(self, label: bytes | None) -> None:
        """A line with this outermost label identifies the format."""
        if label is None:
            self.everywhere = True
        else:
            self._labels.add(label)

    def lacking(self, labels: set[bytes | None]) -> set[bytes | None]:
        """Those of these outermost labels whose lines may still tell something."""
        return set() if self.everywhere else labels - self._labels

    def __contains__(self, label: bytes | None) -> bool:
        """Whether lines with these labels are tried; what a container tells apart inside it belongs to it."""
        if label is None or self.everywhere or label in self._labels:
            return True
        return any(label.startswith(place + b"/") for place in self._labels if place)


class Trial:
    """A line of a format that is awake: since which offset, where, and who takes it for each label."""

    __slots__ = ("engine", "format", "match", "name", "places", "since", "takers", "word")

    def __init__(self, line: Line, fmt: Format, since: int, places: Places) -> None:
        self.name = line.name
        self.word = line.word
        self.match = Limited(line.pattern, line.who) if line.who else line.pattern.match
        self.format = fmt
        self.engine = fmt.engine
        self.since = since
        self.places = places
        self.takers: dict[bytes | None, Taker] = {}


class Search:
    """The formats of a source: asleep until a line identifies them, from that line on awake to its end.

    A format that a container's line identifies is awake for that container only, and for lines of none.

    Args:
        formats: the formats to look for, in the order they are tried.
        awake: try all of their lines from the first byte on.

    Attributes:
        awake: since which offset.
        generation: how often formats woke.
        wakes: the same, and how often known ones woke in another container.
        containers: whose lines the block's are.
        plain: the block holds nothing `UNUSUAL`.
        held: which literals of all formats, awake or not, the block may hold.
    """

    def __init__(self, formats: list[Format], *, awake: bool = False) -> None:
        self.awake: dict[Format, int] = dict.fromkeys(formats, 0) if awake else {}
        self.containers = Containers()
        self.generation = self.wakes = 0
        self.plain = False
        self.held: frozenset[bytes] = frozenset()
        self._formats = formats
        self._literals = _literals(tuple(formats))
        self._places = {fmt: Places(everywhere=True) for fmt in self.awake}
        self._gather()

    def __getstate__(self) -> dict[str, Any]:
        """What lines have shown; what formats are searched for is made anew of it."""
        return {name: value for name, value in self.__dict__.items() if name not in _GATHERED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _literals=_literals(tuple(state["_formats"])))
        self._gather()

    @property
    def is_builtin(self) -> bool:
        """No format of others is looked for, whose patterns may depend on any sign of a line."""
        return all(fmt in _builtin() for fmt in self._formats)

    def _gather(self) -> None:
        """The needles of the formats that are awake, in their order, and the words that wake the others."""
        self._trials: dict[bytes, list[Trial]] = {}
        asleep = []
        for fmt in self._formats:
            places = self._places.get(fmt)
            if places is None or not places.everywhere:
                asleep.append(fmt)
            for line in fmt.lines if places else ():
                for needle in _spellings(line.needle):
                    trial = Trial(line, fmt, self.awake[fmt], self._places[fmt])
                    self._trials.setdefault(needle, []).append(trial)
        self._words = _words(tuple(asleep))
        self._rank = {literal: rank for rank, literal in enumerate({**self._trials, **self._words})}
        self._known: dict[tuple[bytes, ...], Known] = {}

    def wake(self, fmt: Format, label: bytes | None, start: int, offset: int) -> bool:
        """The line that starts here identifies a format, in its container.

        Returns:
            Whether lines are tried now that were not before: `hits` yields this one again.
        """
        outer = None if label is None else self.containers.label(start) or label
        self.wakes += 1
        places = self._places.get(fmt)
        if places is not None and outer is not None:
            places.add(outer)
            return False
        self.awake.setdefault(fmt, offset)
        self._places.setdefault(fmt, Places(everywhere=outer is None)).add(outer)
        self.generation += 1
        self._gather()
        return True

    def hits(self, block: bytes, others: Others | None = None) -> Iterator[Hit]:
        """The lines of a block that hold a needle, or a word that may wake a format, in their order.

        Args:
            block: whole lines.
            others: those of its lines that are to be searched; all of them for ``None``.
        """
        self.containers.begin(block)
        first: int | None = 0
        while first is not None:
            text = block if others is None else others.text
            self.held = self._literals.maybe_in(text) if text else frozenset()
            self.plain = not any(find(text, literal) >= 0 for literal in self.held & _UNUSUAL)
            first = yield from self._hits(text, first, others)
            others = None  # what woke may know the usual lines too

    def _hits(self, text: bytes, first: int, others: Others | None) -> Generator[Hit, None, int | None]:
        """Those from a place on; once formats wake, where in the block to go on: at the line that did it."""
        generation = self.generation
        wanted = self._rank.keys() & self.held
        if not wanted:
            return None
        lacking = self._lacking(wanted - self._trials.keys())
        if others is not None:  # which containers its lines are of is asked for each
            lacking = {word: [(0, None)] if spans else [] for word, spans in lacking.items()}
        places = {literal: places_of(literal, text, lacking.get(literal, _ALL), first) for literal in wanted}
        known: dict[int, Known] = {}
        literals = [literal for literal in wanted if places[literal]]
        for before, begin, end, held in lines_at([places[literal] for literal in literals], text):
            line = text[begin:end]
            number, start = before, begin
            if others is not None:
                number = int(others.lines[before])
                start = int(others.starts[number])
            if len(line) > MAX_LINE:
                line = ends_of(line)
                found, asleep = self._learn([one for one in _of(held, literals) if one in line])
            else:
                if held not in known:
                    known[held] = self._learn(_of(held, literals))
                found, asleep = known[held]
            if asleep:
                if others is not None:
                    others.reach(number)
                asleep = [fmt for fmt in asleep if self._may_be_new(fmt, start)]
            if found or asleep:
                yield number, start, line, found, asleep
                if self.generation != generation:
                    return start
        return None

    def known_of_like(self, line: bytes) -> Known | None:
        """What all lines are tried as that differ from this one in their numbers, and in blanks before these.

        ``None`` where a literal with digits might be in one of them.
        """
        like = _numberless(line)
        if any(_numberless(literal) in like for literal in self._rank if _DIGITS.search(literal)):
            return None
        return self._learn([literal for literal in self._rank if literal in line])

    def _learn(self, literals: list[bytes]) -> Known:
        """What lines that hold these literals are tried as."""
        if known := self._known.get(tuple(literals)):
            return known
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        ranked = sorted(self._rank.keys() & literals, key=self._rank.__getitem__)
        found = [(needle, self._trials[needle]) for needle in ranked if needle in self._trials]
        may_wake = {fmt for word in literals for fmt in self._words.get(word, ())}
        asleep = [fmt for fmt in self._formats if fmt in may_wake]
        known = self._known[tuple(literals)] = found, asleep
        return known

    def _lacking(self, words: set[bytes]) -> dict[bytes, list[tuple[int, int | None]]]:
        """Where the containers stand that lack formats known in others, for each word of these formats."""
        if not self._places or all(places.everywhere for places in self._places.values()):
            return {}
        labels = self.containers.labels()
        spans: dict[bytes, list[tuple[int, int | None]]] = {}
        for word in words:
            formats = self._words[word]
            if all(fmt in self._places for fmt in formats):
                some = set[bytes | None]().union(*(self._places[fmt].lacking(labels) for fmt in formats))
                spans[word] = list(self.containers.spans(some)) if some else []
        return spans

    def _may_be_new(self, fmt: Format, start: int) -> bool:
        """Whether the line that starts here may still identify this format."""
        places = self._places.get(fmt)
        return places is None or bool(places.lacking({self.containers.label(start)}))


@cache
def _builtin() -> frozenset[Format]:
    from parsers.formats import BUILTIN

    return frozenset(BUILTIN)


@lru_cache(maxsize=8)
def _literals(formats: tuple[Format, ...]) -> Literals:
    """Whatever blocks are asked for: what formats wake by, their needles, and what is `UNUSUAL`."""
    known = (word for fmt in formats for word in (*fmt.identify, *(line.needle for line in fmt.lines)))
    return Literals((*_spellings(*known), *UNUSUAL))


def _numberless(text: bytes) -> bytes:
    """What is the same in texts that differ in their numbers and blanks."""
    return _BLANKS.sub(b" ", _DIGITS.sub(b"0", text))


@lru_cache(maxsize=64)
def _words(formats: tuple[Format, ...]) -> dict[bytes, list[Format]]:
    """What formats wake by; a log wakes few, so others of the same engines share it."""
    words: dict[bytes, list[Format]] = {}
    for fmt in formats:
        for word in _spellings(*fmt.identify):
            words.setdefault(word, []).append(fmt)
    return words


def _of(held: int, literals: list[bytes]) -> list[bytes]:
    """Those of the literals whose bits are set."""
    return [literal for bit, literal in enumerate(literals) if held >> bit & 1]


@cache
def _spellings(*literals: bytes) -> set[bytes]:
    """Literals as they may stand in a log: JSON escapes quotes and backslashes, docker's three signs more."""
    escaped = [literal.replace(b"\\", b"\\\\").replace(b'"', b'\\"') for literal in literals]
    return {*literals, *escaped, *(_IN_HTML.sub(_as_code, literal) for literal in escaped)}


_IN_HTML = re.compile(rb"[<>&]")
"""What Go's JSON never writes as it is: moby, daemon/logger/jsonfilelog/jsonlog/jsonlogbytes.go."""


def _as_code(sign: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(sign[0])
