"""Finds the lines of a block that a format may know: literals first, patterns only where one is found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from parsers.carriers import UNUSUAL
from parsers.containers import Containers
from parsers.cut import MAX_LINE, ends_of
from parsers.grams import Literals
from parsers.limits import within_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from parsers.formats.base import At, Format, Line

_LARGE = 1 << 16
"""From this size on a block is first asked for all literals at once."""


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
        self.match = within_time(line.pattern, line.who) if line.who else line.pattern.match
        self.format = fmt
        self.engine = fmt.engine
        self.since = since
        self.places = places
        self.takers: dict[bytes | None, Callable[[re.Match[bytes], At], bool | None]] = {}


class Search:
    """The formats of a source: asleep until a line identifies them, from that line on awake to its end.

    A format that a container's line identifies is awake for that container only, and for lines of none.

    Args:
        formats: the formats to look for, in the order they are tried.
        awake: try all of their lines from the first byte on.

    Attributes:
        awake: since which offset.
        containers: whose lines the block's are.
        plain: the block holds nothing `UNUSUAL`.
    """

    def __init__(self, formats: list[Format], *, awake: bool = False) -> None:
        self.awake: dict[Format, int] = dict.fromkeys(formats, 0) if awake else {}
        self.containers = Containers()
        self.plain = False
        self._formats = formats
        self._places = {fmt: Places(everywhere=True) for fmt in self.awake}
        self._gather()

    def _gather(self) -> None:
        """The needles of the formats that are awake, in their order, and the words that wake the others."""
        self._trials: dict[bytes, list[Trial]] = {}
        self._words: dict[bytes, list[Format]] = {}
        for fmt in self._formats:
            places = self._places.get(fmt)
            if places is None or not places.everywhere:
                for word in _spellings(*fmt.identify):
                    self._words.setdefault(word, []).append(fmt)
            for line in fmt.lines if places else ():
                for needle in _spellings(line.needle):
                    trial = Trial(line, fmt, self.awake[fmt], self._places[fmt])
                    self._trials.setdefault(needle, []).append(trial)
        self._rank = {needle: rank for rank, needle in enumerate(self._trials)}
        self._literals = Literals((*self._words, *self._trials, *UNUSUAL))

    def wake(self, fmt: Format, label: bytes | None, start: int, offset: int) -> bool:
        """The line that starts here identifies a format, in its container.

        Returns:
            Whether lines are tried now that were not before: `hits` yields this one again.
        """
        outer = None if label is None else self.containers.label(start) or label
        places = self._places.get(fmt)
        if places is not None and outer is not None:
            places.add(outer)
            return False
        self.awake.setdefault(fmt, offset)
        self._places.setdefault(fmt, Places(everywhere=outer is None)).add(outer)
        self._gather()
        return True

    def hits(self, block: bytes) -> Iterator[Hit]:
        """The lines of a block that hold a needle, or a word that may wake a format, in their order."""
        self.containers.begin(block)
        may_hold = (self._literals.maybe_in(block) if len(block) >= _LARGE else block).__contains__
        self.plain = not any(may_hold(literal) and literal in block for literal in UNUSUAL)
        found = _Found(block)
        lacking = self._lacking()
        for needle in filter(may_hold, dict.fromkeys((*self._trials, *self._words))):
            found.add(needle, 0, None if needle in self._trials else lacking.get(needle))
        at, starts = 0, sorted(found.needles)
        while at < len(starts):
            start, known = starts[at], self._trials
            kept, needles = block[start : found.ends[start]], found.needles[start]
            if len(kept) > MAX_LINE:
                kept = ends_of(kept)
                needles = [needle for needle in needles if needle in kept]
            mine = sorted((needle for needle in needles if needle in known), key=self._rank.__getitem__)
            words = [needle for needle in needles if needle in self._words]
            asleep = self._may_wake(words, start) if words else []
            if mine or asleep:
                yield Hit(start, kept, [(needle, known[needle]) for needle in mine], asleep)
            if known is self._trials:
                at += 1
                continue
            for needle in self._trials.keys() - known.keys():
                found.add(needle, start)
            at, starts = 0, sorted(one for one in found.needles if one >= start)

    def _lacking(self) -> dict[bytes, list[tuple[int, int]]]:
        """Where the containers stand that lack formats known in others, for each word of these formats."""
        if not self._places or all(places.everywhere for places in self._places.values()):
            return {}
        labels = self.containers.labels()
        spans: dict[bytes, list[tuple[int, int]]] = {}
        for word, formats in self._words.items():
            if all(fmt in self._places for fmt in formats):
                some = set[bytes | None]().union(*(self._places[fmt].lacking(labels) for fmt in formats))
                spans[word] = list(self.containers.spans(some))
        return spans

    def _may_wake(self, words: list[bytes], start: int) -> list[Format]:
        """The formats that this line may still identify."""
        formats = dict.fromkeys(fmt for word in words for fmt in self._words[word])
        return [fmt for fmt in formats if self._may_be_new(fmt, start)]

    def _may_be_new(self, fmt: Format, start: int) -> bool:
        places = self._places.get(fmt)
        return places is None or bool(places.lacking({self.containers.label(start)}))


class Hit(NamedTuple):
    """A line that may be an engine's.

    Attributes:
        start: where it starts in its block.
        line: what is kept of it.
        found: each needle that it holds with the lines that have this needle, in the order of the formats.
        asleep: the formats that it may identify.
    """

    start: int
    line: bytes
    found: list[tuple[bytes, list[Trial]]]
    asleep: list[Format]


class _Found:
    """The lines of a block that hold literals: where each ends, and which it holds."""

    def __init__(self, block: bytes) -> None:
        self.ends: dict[int, int] = {}
        self.needles: dict[int, list[bytes]] = {}
        self._block = block

    def add(self, literal: bytes, begin: int, spans: list[tuple[int, int]] | None = None) -> None:
        """Look for a literal from a place on, or in some places only."""
        for first, last in [(begin, len(self._block))] if spans is None else spans:
            for start, end in _lines(self._block, literal, first, last):
                self.ends[start] = end
                held = self.needles.setdefault(start, [])
                if literal not in held:
                    held.append(literal)


def _spellings(*literals: bytes) -> set[bytes]:
    """Literals as they may stand in a log: JSON escapes quotes and backslashes, docker's three signs more."""
    escaped = [literal.replace(b"\\", b"\\\\").replace(b'"', b'\\"') for literal in literals]
    return {*literals, *escaped, *(_IN_HTML.sub(_as_code, literal) for literal in escaped)}


_IN_HTML = re.compile(rb"[<>&]")
"""What Go's JSON never writes as it is: moby, daemon/logger/jsonfilelog/jsonlog/jsonlogbytes.go."""


def _as_code(sign: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(sign[0])


def _lines(block: bytes, literal: bytes, begin: int, stop: int) -> Iterator[tuple[int, int]]:
    """Where the lines that hold a literal start and end, of those between two places."""
    at = block.find(literal, begin, stop)
    while at >= 0:
        start, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
        end = end if end >= 0 else len(block)
        yield start, end
        at = block.find(literal, end, stop)
