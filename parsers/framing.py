"""Lines of a block that all stand in one wrapping, found at once.

`carriers.unwrap` takes any wrapping off a line. Here one line shows how its block is wrapped: by nothing, by
a prefix in which only the time of day differs, or as records of docker's log files. A line that is wrapped
in another way is none of these.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from parsers.carriers import ISO_CLOCK, unwrap
from parsers.formats.base import At
from parsers.printed import Layout
from parsers.times import EPOCH, MICROSECOND, microseconds, parse_iso

if TYPE_CHECKING:
    from datetime import datetime

    from numpy.typing import NDArray

    from parsers.blocks import Block
    from parsers.printed import Bools, Ints, Text

    Moments: TypeAlias = NDArray[np.datetime64]

_NO_MOMENT = np.datetime64("NaT", "us")
_NO_US = int(_NO_MOMENT.view(np.int64))
_TIME_OF_DAY = re.compile(rb"\d\d:\d\d:\d\d(?:[.,]\d+)?")
_ISO = re.compile(ISO_CLOCK)
_LONGEST = 160


def moment_of(time: datetime | None) -> np.datetime64:
    """A time as columns have it."""
    return np.int64(_us(time)).view(_NO_MOMENT.dtype)


def _us(time: datetime | None) -> int:
    return _NO_US if time is None else microseconds(time)


def datetime_of(moment: np.datetime64) -> datetime | None:
    """A time as rows have it."""
    return None if np.isnat(moment) else EPOCH + int(moment.astype(np.int64)) * MICROSECOND


class Framed:
    """Lines of a block in one wrapping.

    Args:
        block: whose lines.
        text: the same.
        label: which container they are of.
        which: which of its lines these are.
        starts: where each begins, out of its wrapping.
        ends: where it ends there.
        clock: where the wrapping's clock begins and ends before or behind it, for each; ``None`` without one.
    """

    def __init__(
        self,
        block: Block,
        text: Text,
        label: bytes | None,
        which: Ints,
        starts: Ints,
        ends: Ints,
        clock: tuple[Ints, Ints] | None = None,
    ) -> None:
        self.text, self.label, self.which, self.starts, self.ends = text, label, which, starts, ends
        self._block = block
        self._clock = clock

    @property
    def clocked(self) -> bool:
        """Whether the wrapping has a clock."""
        return self._clock is not None

    def numbers(self, lines: Ints) -> Ints:
        """The numbers of the block's lines."""
        return self._block.number + lines

    def offsets(self, lines: Ints) -> Ints:
        """Where they start in the source."""
        return self._block.offset + self.text.starts[lines]

    def times(self, lines: Ints, wanted: Bools) -> Moments:
        """What the wrapping's clock says, of those that are wanted."""
        moments = np.full(len(lines), _NO_MOMENT)
        if self._clock is not None:
            places = np.searchsorted(self.which, lines[wanted])
            begins, ends = (edge[places].tolist() for edge in self._clock)
            text = self._block.text
            us = [_us(parse_iso(text[begin:end])) for begin, end in zip(begins, ends, strict=True)]
            moments[wanted] = np.array(us, np.int64).view(moments.dtype)
        return moments

    def time(self, line: int) -> datetime | None:
        """The same of one line, which is one of these."""
        return datetime_of(self.times(np.array([line]), np.array([True]))[0])

    def at(self, line: int) -> At:
        """Where it stands."""
        number, start = self._block.number + line, int(self.text.starts[line])
        return At(number, self._block.offset + start, self.time(line), self.body(line), number)

    def raw(self, line: int) -> bytes:
        """The line as it stands in the log."""
        return self._block.text[self.text.starts[line] : self.text.ends[line]]

    def body(self, line: int) -> bytes:
        """The line out of its wrapping; docker escapes ``>``."""
        place = int(np.searchsorted(self.which, line))
        return self._block.text[self.starts[place] : self.ends[place]].replace(b"\\u003e", b">")


class Framing(Protocol):
    """A wrapping.

    Attributes:
        label: which container it names.
    """

    label: bytes | None

    def find(self, block: Block, text: Text) -> Framed:
        """The lines that stand in it."""


def framing_of(line: bytes) -> Framing | None:
    """How a line is wrapped; ``None`` where that is another way than these.

    One clock and no more, which is none of a label: of two the inner one counts, unless it is impossible.
    """
    if line.startswith(b'{"log":"'):
        return _Docker("stdout" if b'","stream":"stdout","' in line else "stderr")
    text = unwrap(line, plain=True)
    prefix = line[: len(line) - len(text.body)]
    if text.more or not line.endswith(text.body) or len(prefix) > _LONGEST or not prefix.isascii():
        return None
    if len(_TIME_OF_DAY.findall(prefix)) > 1 or _TIME_OF_DAY.search(text.label or b""):
        return None
    clock = _ISO.search(prefix)
    if (clock is None) is not (text.time is None) or (clock and parse_iso(clock[0]) != text.time):
        return None
    return _Prefix(prefix, text.label, clock.span() if clock else None)


class _Prefix:
    """The same before each line, but for the digits of a time of day; nothing, maybe."""

    def __init__(self, prefix: bytes, label: bytes | None, clock: tuple[int, int] | None) -> None:
        self.label = label
        self._size = len(prefix)
        self._clock = clock
        times = {place for found in _TIME_OF_DAY.finditer(prefix) for place in range(*found.span())}
        signs = [chr(sign).replace("{", "{{").replace("}", "}}") for sign in prefix]
        self._layout = Layout(
            "".join("{:01d}" if at in times and sign.isdigit() else sign for at, sign in enumerate(signs))
        )

    def find(self, block: Block, text: Text) -> Framed:
        """The lines that begin so."""
        if not self._size:
            return Framed(block, text, self.label, np.arange(len(text.starts)), text.starts, text.ends)
        found = self._layout.read(text, text.starts)
        begins = text.starts[found.rows]
        clock = self._clock and (begins + self._clock[0], begins + self._clock[1])
        return Framed(block, text, self.label, found.rows, found.ends, text.ends[found.rows], clock or None)


class _Docker:
    """Records of docker's log files, of one stream; of lines with escapes a layout tells what they say.

    Args:
        stream: its name.
    """

    label: bytes | None = None
    _END = '\\n","'
    _BEGINS, _BREAK, _LAST = Layout('{{"log":"'), Layout(_END), Layout('"}}')

    def __init__(self, stream: str) -> None:
        self._ends = Layout(f'\\n","stream":"{stream}","time":"')

    def find(self, block: Block, text: Text) -> Framed:
        """The lines that are such records."""
        lines, starts, _ = self._BEGINS.read(text, text.starts)
        breaks = self._BREAK.read(text, text.places(b"\\")).ends - len(self._END)
        breaks = np.append(breaks, text.size)
        ends = breaks[np.searchsorted(breaks, starts)]
        rows, clocks, _ = self._ends.read(text, ends)
        lasts = text.ends[lines[rows]] - len('"}')
        whole = self._LAST.read(text, lasts).rows
        rows, clocks, lasts = rows[whole], clocks[whole], lasts[whole]
        fits = (ends[rows] < lasts) & text.all_of(clocks, lasts, b"0123456789:TZ+.-")
        rows = rows[fits]
        return Framed(block, text, None, lines[rows], starts[rows], ends[rows], (clocks[fits], lasts[fits]))
