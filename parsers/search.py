"""Finds the lines of a block that a format may know: literals first, patterns only where one is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.carriers import SAME_CONTAINER, UNUSUAL, label_of, unwrap
from parsers.containers import Containers
from parsers.cut import MAX_LINE, ends_of
from parsers.grams import Literals
from parsers.limits import within_time

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator

    from parsers.formats.base import At, Format, Line

_LARGE = 1 << 16
"""From this size on a block is first asked for all literals at once."""


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
        """The needles of the formats that are awake, in the order of the formats."""
        self._asleep = [(fmt, _spellings(*fmt.identify)) for fmt in self._formats if fmt not in self.awake]
        self._trials: dict[bytes, list[Trial]] = {}
        for fmt in self._formats:
            if (since := self.awake.get(fmt)) is not None:
                for line in fmt.lines:
                    for needle in _spellings(line.needle):
                        self._trials.setdefault(needle, []).append(Trial(line, fmt, since, self._places[fmt]))
        self._watched: dict[bytes, list[Places]] = {}
        for fmt, places in self._places.items():
            for word in () if places.everywhere else _spellings(*fmt.identify):
                self._trials.setdefault(word, [])
                self._watched.setdefault(word, []).append(places)
        asleep = (word for _, words in self._asleep for word in words)
        self._literals = Literals((*asleep, *self._trials, *UNUSUAL))

    def hits(
        self, block: bytes, offset_of: Callable[[int], int]
    ) -> Iterator[tuple[int, bytes, list[tuple[bytes, list[Trial]]]]]:
        """The lines of a block that hold a needle, in their order.

        Args:
            block: whole lines.
            offset_of: the source's offset of a place in the block.

        Yields:
            Where the line starts, what is kept of it, and what may match it: each needle that it holds with
            the lines that have this needle, in the order of the formats.
        """
        self.containers.begin(block)
        may_hold = (self._literals.maybe_in(block) if len(block) >= _LARGE else block).__contains__
        self.plain = not any(may_hold(literal) and literal in block for literal in UNUSUAL)
        found = [
            (fmt, at) for fmt, words in self._asleep if (at := _first(block, filter(may_hold, words))) >= 0
        ]
        if found:
            self.awake |= {fmt: offset_of(at) for fmt, at in found}
            self._places |= {fmt: Places(everywhere=_label(_line_at(block, at)) is None) for fmt, at in found}
            self._gather()
            may_hold = block.__contains__
        lacking = self._lacking() if self._watched else {}
        known = [
            entry
            for entry in self._trials.items()
            if (entry[1] or entry[0] in lacking) and may_hold(entry[0])
        ]
        lines: dict[int, list[int]] = {}
        ends: dict[int, int] = {}
        for rank, (needle, trials) in enumerate(known):
            for start, end in (
                _lines(block, needle) if trials else self._lines_of(lacking[needle], block, needle)
            ):
                if start in ends:
                    lines[start].append(rank)
                else:
                    ends[start], lines[start] = end, [rank]
        for start in sorted(lines):
            kept, ranks = block[start : ends[start]], lines[start]
            if len(kept) > MAX_LINE:
                kept = ends_of(kept)
                ranks = [rank for rank in ranks if known[rank][0] in kept]
            if lacking:
                self._identify(start, kept, [known[rank][0] for rank in ranks], lacking)
            yield start, kept, [known[rank] for rank in ranks]

    def _lacking(self) -> dict[bytes, set[bytes | None]]:
        """The words of formats that are known in some containers so far, and those of the block where not."""
        labels = self.containers.labels()
        found = {
            word: set[bytes | None]().union(*(one.lacking(labels) for one in places))
            for word, places in self._watched.items()
        }
        return {word: lacking for word, lacking in found.items() if lacking}

    def _lines_of(self, labels: set[bytes | None], block: bytes, literal: bytes) -> Iterator[tuple[int, int]]:
        """Where the lines of some containers start and end that hold a literal."""
        for begin, end in self.containers.spans(labels):
            yield from _lines(block, literal, begin, end)

    def _identify(
        self, start: int, line: bytes, needles: list[bytes], lacking: dict[bytes, set[bytes | None]]
    ) -> None:
        """Note where this line stands, if it identifies a format that is known in some containers so far."""
        words = [needle for needle in needles if needle in lacking]
        if words and any((label := self.containers.label(start)) in lacking[word] for word in words):
            label = label or _label(line)
            for places in (places for word in words for places in self._watched.get(word, ())):
                places.add(label)
            if label is None:
                self._gather()


def _label(line: bytes) -> bytes | None:
    """The outermost label of a line."""
    head = SAME_CONTAINER.match(line)
    return (label_of(head) if head else None) or unwrap(line.lstrip(b" \t")).label


def _spellings(*literals: bytes) -> set[bytes]:
    """Literals as they may stand in a log: in docker's JSON lines quotes and backslashes are escaped."""
    return {*literals, *(literal.replace(b"\\", b"\\\\").replace(b'"', b'\\"') for literal in literals)}


def _first(block: bytes, literals: Iterable[bytes]) -> int:
    """Where the first line that holds one of the literals starts, or -1."""
    return min((start for literal in literals if (start := _line_of(block, literal)) >= 0), default=-1)


def _line_of(block: bytes, literal: bytes) -> int:
    """Where the first line starts of which what is kept holds the literal, or -1."""
    lines = _lines(block, literal)
    return next((start for start, end in lines if literal in ends_of(block[start:end])), -1)


def _line_at(block: bytes, start: int) -> bytes:
    end = block.find(b"\n", start)
    return ends_of(block[start : end if end >= 0 else len(block)])


def _lines(
    block: bytes, literal: bytes, begin: int = 0, stop: int | None = None
) -> Iterator[tuple[int, int]]:
    """Where the lines that hold a literal start and end, of those between two places."""
    stop = len(block) if stop is None else stop
    at = block.find(literal, begin, stop)
    while at >= 0:
        start, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
        end = end if end >= 0 else len(block)
        yield start, end
        at = block.find(literal, end, stop)
