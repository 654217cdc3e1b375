"""The fast way through a log: an engine's most usual lines, all of a block at once.

A format may have layouts beside its patterns (`Format.usual`). Lines of a large block that they fit are not
searched for, not unwrapped and not matched one by one. Every other line goes the way that all lines could go,
and both ways give the same rows. The first line of every layout goes both ways: if they differ, no layout is
used there.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from parsers.carriers import Carried, may_be_json_record, unwrap
from parsers.framing import framing_of
from parsers.lines import texts_of
from parsers.printed import Text
from parsers.search import Others

if TYPE_CHECKING:
    import re
    from collections import Counter
    from collections.abc import Callable, Mapping, Sequence

    from parsers.blocks import Block
    from parsers.formats.base import Format, Reader
    from parsers.framing import Framed, Framing
    from parsers.printed import Bytes, Ints, Values
    from parsers.search import Found, Known, Place, Search, Trial

_FEW = 128
"""A stretch of fewer lines takes longer at once than one by one."""

_WIDER = 4
"""Of a stretch no more is looked at than so many times what was read of the one before."""

_BYTES_A_LINE = 1024
"""A block with fewer usual lines than one in so many bytes is read sooner without layouts."""

_MOST_PATIENCE, _LONGEST_PAUSE = 4096, 64

QUIET = "quiet"
"""A kind of lines that say nothing."""


class UsualLines(Protocol):
    """What layouts find in a block.

    Attributes:
        framed: the lines they were tried on.
        layouts: for each line of the block the number of its layout; 0 for none.
        values: what the lines say, by the names that the patterns give it.
    """

    framed: Framed
    layouts: Bytes
    values: Values


class Layouts(NamedTuple):
    """How the usual lines of a format are read.

    Attributes:
        kinds: by the number of a layout, the reader's method that would take such lines, or `QUIET`.
        find: finds them in a block.
        join: reads a stretch of them: the reader, the lines, the first one, and the one after the last;
            gives the line it stopped at, and how many it read.
    """

    kinds: Sequence[str]
    find: Callable[[Framed], UsualLines]
    join: Callable[[Any, Any, int, int], tuple[int, int]]


class _Block(NamedTuple):
    """What is read of a block: its usual lines, whose they are, and what they are tried as otherwise."""

    lines: UsualLines
    places: Ints
    format: Format
    layouts: Layouts
    reader: Reader
    found: dict[int, Found]
    generation: int
    offset: int
    number: int


class FastWay:
    """The fast way through one source.

    Args:
        search: of the source.
        readers: of the source, by container and format.
        read: reads a line as any other, given where it stands and what it is tried as.
        matched: counts the lines of each engine.
    """

    def __init__(
        self,
        search: Search,
        readers: Mapping[tuple[bytes | None, Format], Reader],
        read: Callable[[Place, bytes, Known], None],
        matched: Counter[str],
    ) -> None:
        self._search, self._readers, self._read, self._matched = search, readers, read, matched
        self._text = Text()
        self._framing: Framing | None = None
        self._tried: dict[int, Found | None] = {}
        self._tried_for: tuple[int, Framing | None] = 0, None
        self._block: _Block | None = None
        self._next = self._singly = 0
        self._patience, self._wait, self._width = 1, 0, _FEW
        self._pause, self._paused = 1, 0

    def begin(self, block: Block) -> Others | None:
        """Find a block's usual lines; ``None`` where they are few, or better read one by one."""
        self._block = None
        fmt = next((fmt for fmt in self._search.awake if fmt.usual is not None), None)
        if fmt is None or fmt.usual is None or not self._search.is_builtin:
            return None
        if self._paused:
            self._paused -= 1
            return None
        layouts = fmt.usual()
        self._text.load(block.text)
        lines = self._find(block, layouts)
        reader = self._readers.get((self._framing.label, fmt)) if self._framing else None
        if lines is None:
            self._rest()
            return None
        if reader is None or not reader.is_steady:
            return None
        found = self._found(fmt, layouts.kinds, lines, block.offset)
        if found is None:
            return None
        places = np.flatnonzero(lines.layouts)
        generation = self._search.generation
        self._block = _Block(
            lines, places, fmt, layouts, reader, found, generation, block.offset, block.number
        )
        self._next = self._singly = 0
        return self._others(block, lines)

    def _find(self, block: Block, layouts: Layouts) -> UsualLines | None:
        """The usual lines, in the wrapping of those before, else in that of one of the block's."""
        text = self._text
        samples = (block.text[text.starts[at] : text.ends[at]] for at in (0, len(text.starts) // 2))
        framings = chain([self._framing] if self._framing else [], map(framing_of, samples))
        for framing in framings:
            if framing is not None:
                lines = layouts.find(framing.find(block, text))
                if np.count_nonzero(lines.layouts) >= len(block.text) // _BYTES_A_LINE:
                    self._framing = framing
                    return lines
        return None

    def _rest(self) -> None:
        """Read the next blocks without layouts, more and more of them as long as that does not pay."""
        self._paused = self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _found(
        self, fmt: Format, kinds: Sequence[str], lines: UsualLines, offset: int
    ) -> dict[int, Found] | None:
        """What lines of each layout are tried as; ``None`` if one is not what its layout takes it for."""
        found = {}
        if self._tried_for != (self._search.wakes, self._framing):
            self._tried_for = self._search.wakes, self._framing
            self._tried.clear()
        for number in np.flatnonzero(np.bincount(lines.layouts)).tolist():
            if number:
                if number not in self._tried:
                    line = int(np.argmax(lines.layouts == number))
                    self._tried[number] = self._found_in(fmt, kinds[number], lines, line, offset)
                if (known := self._tried[number]) is None:
                    return None
                found[number] = known
        return found

    def _found_in(self, fmt: Format, kind: str, lines: UsualLines, line: int, offset: int) -> Found | None:
        """What lines like this one are tried as; ``None`` unless it, read by itself, is of this kind."""
        framed, raw = lines.framed, lines.framed.raw(line)
        known = self._search.known_of_like(raw)
        if known is None or any(asleep is not fmt for asleep in known[1]):
            return None
        found = known[0]
        if unwrap(raw, plain=True) != Carried(framed.body(line), framed.label, framed.time(line)):
            return None
        first = _first_match(found, raw, offset)
        if first is None or kind == QUIET:
            return found if first is None and kind == QUIET else None
        trial, match = first
        said = {name: value for name, value in match.groupdict().items() if name in lines.values and value}
        is_same = all(float(value) == lines.values[name][line] for name, value in said.items())
        is_its = trial.format is fmt and trial.name == kind and match["clock"] is not None
        return found if is_same and is_its else None

    def _others(self, block: Block, lines: UsualLines) -> Others:
        """The lines that are not usual, together."""
        text, others = self._text, np.flatnonzero(lines.layouts == 0)
        firsts = np.flatnonzero(np.diff(others, prepend=-2) > 1)
        starts = text.starts[others[firsts]]
        ends = text.ends[others[np.append(firsts[1:], len(others)) - 1]] if others.size else starts
        parts = [
            block.text[start : end + 1] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        return Others(b"".join(parts), others, text.starts, self.read)

    def read(self, line: int | None = None) -> None:
        """Read the block's usual lines before this one, or all of them; none once formats woke in it."""
        block = self._block
        if block is None or block.generation != self._search.generation:
            return
        last = len(block.lines.layouts) if line is None else line
        while self._next < last:
            if self._wait <= 0 and (stop := self._stretch(block, last)) is not None:
                self._next, count = block.layouts.join(block.reader, block.lines, self._next, stop)
                self._matched[block.format.engine] += count
                self._width = max(_WIDER * count, _FEW)
                if self._next < stop:
                    self._patience = 1 if count >= _FEW else min(2 * self._patience, _MOST_PATIENCE)
                    self._wait = self._patience
            else:
                self._read_one(block, last)
                self._wait -= 1
                self._singly += 1
        if line is None:
            if 2 * self._singly > len(block.places):
                self._rest()
            else:
                self._pause = 1

    def _stretch(self, block: _Block, last: int) -> int | None:
        """Before which line a stretch ends; ``None`` if it is short, or its lines may say more now."""
        first, after = np.searchsorted(block.places, (self._next, last)).tolist()
        if after - first < _FEW:
            self._wait = after - first
            return None
        if not block.reader.is_steady:
            return None
        return last if after - first <= self._width else int(block.places[first + self._width])

    def _read_one(self, block: _Block, last: int) -> None:
        """Read the next usual line like any other."""
        nth = int(np.searchsorted(block.places, self._next))
        line = int(block.places[nth]) if nth < len(block.places) else last
        self._next = min(line + 1, last)
        if line >= last:
            return
        start, found = int(self._text.starts[line]), block.found[int(block.lines.layouts[line])]
        place = block.number + line, block.offset + start, start
        self._read(place, block.lines.framed.raw(line), (found, []))


def _first_match(found: Found, line: bytes, offset: int) -> tuple[Trial, re.Match[bytes]] | None:
    """What takes a plain line, as a `Stream` does it: the first pattern it matches, bare or unwrapped."""
    is_record = line.startswith(b"{") and may_be_json_record(line)
    for needle, trials in found:
        if not is_record and (taken := _taken(trials, Carried(line), offset)):
            return taken
        for text in texts_of(line, needle, True):
            if taken := _taken(trials, text, offset):
                return taken
    return None


def _taken(trials: list[Trial], text: Carried, offset: int) -> tuple[Trial, re.Match[bytes]] | None:
    for trial in trials:
        may_be = offset >= trial.since and trial.word in text.body and text.label in trial.places
        if may_be and (match := trial.match(text.body)) is not None:
            return trial, match
    return None
