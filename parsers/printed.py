"""Lines as an engine prints them, many at a time: fixed words, and numbers between them.

A pattern tells whether one line is of a kind. Here a layout does so for all lines of a block at once, in
numpy: the lines are the rows of a matrix of bytes, its words are compared with the layout's, and its numbers
are sums over columns. A layout is narrower than a pattern. It knows in which width a number usually is
printed, and a line with a wider one, or with ``nan``, is not of it: that one is left to the pattern.
"""

from __future__ import annotations

from string import Formatter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Bools: TypeAlias = NDArray[np.bool_]
    Bytes: TypeAlias = NDArray[np.uint8]
    Ints: TypeAlias = NDArray[np.int64]
    Words: TypeAlias = NDArray[np.uint64]
    Floats: TypeAlias = NDArray[np.float64]
    Values: TypeAlias = dict[str, Ints | Floats]

_BEFORE, _AFTER = 16, 256
"""So many bytes around a block may be looked at from a place in it."""

_ROW = 40
_MOST_DIGITS = 12
_WORD = 8
_ZERO = np.uint8(ord("0"))
_EACH = 0x0101010101010101
_LOW, _HIGH, _TENS, _ZEROS, _SIXES = (np.uint64(_EACH * byte) for byte in (0x0F, 0xF0, 0x10, 0x30, 0x06))
"""In each of eight bytes: the two halves, the bit that a digit has and a blank has not, the digit 0, and what
takes every other byte that begins like a digit out of these."""

_PAIRS, _FIRST, _SECOND = np.uint64(0xFF000000FF), np.uint64(0xF424000000064), np.uint64(0x271000000001)
"""Every second pair, and what it counts: a million and a hundred; ten thousand and one."""


class Text:
    """A block of lines, in memory that serves one block after the other: fresh pages cost more than the work.

    Attributes:
        size: how many bytes it has.
        starts: where each line starts.
        ends: where its newline is.
    """

    def __init__(self) -> None:
        self._bytes = np.zeros(0, np.uint8)
        self._marks = np.zeros(0, np.bool_)
        self.load(b"")

    def load(self, block: bytes) -> None:
        """Be this block: whole lines."""
        self.size = len(block)
        if len(self._marks) <= self.size:
            self._bytes = np.zeros(_BEFORE + self.size + _AFTER, np.uint8)
            self._marks = np.zeros(self.size + 1, np.bool_)
        end = _BEFORE + self.size
        self._bytes[_BEFORE:end] = np.frombuffer(block, np.uint8)
        self._bytes[end : end + _AFTER] = 0
        self.ends = self.places(b"\n")
        self.starts = np.append(0, self.ends + 1)[:-1]

    def rows(self, at: Ints, width: int) -> Bytes:
        """The bytes from each of these places on: (places, width)."""
        runs = np.ndarray((len(self._bytes) - width + 1,), f"V{width}", self._bytes, strides=(1,))
        return runs[at + _BEFORE].view(np.uint8).reshape(len(at), width)

    def numbers(self, ends: Ints, widths: Ints | int) -> Ints:
        """What up to eight digits before each of these places say; a blank is a 0.

        Three multiplications add up the eight: pairs, then fours, then all.
        """
        unused = np.asarray(8 * (_WORD - widths), np.uint64)
        words = self.rows(ends - _WORD, _WORD).view("<u8")[:, 0] >> unused << unused & _LOW
        pairs = words * 10 + (words >> 8)
        fours = (pairs & _PAIRS) * _FIRST + (pairs >> 16 & _PAIRS) * _SECOND
        return (fours >> 32).astype(np.int64)

    def places(self, sign: bytes) -> Ints:
        """Where a sign stands."""
        marks = self._marks[: self.size]
        np.equal(self._bytes[_BEFORE : _BEFORE + self.size], ord(sign), out=marks)
        return np.flatnonzero(marks)

    def all_of(self, starts: Ints, ends: Ints, signs: bytes) -> Bools:
        """Between which of these places nothing but these signs stands, and no more than a row's width."""
        known = np.zeros(256, np.bool_)
        known[list(signs)] = True
        sizes = ends - starts
        beyond = np.arange(_ROW) >= sizes[:, None]
        return (sizes >= 0) & (sizes <= _ROW) & (known[self.rows(starts, _ROW)] | beyond).all(axis=1)


class Found(NamedTuple):
    """The lines that a layout fits.

    Attributes:
        rows: which of the places that were asked about.
        ends: where each of these lines goes on.
        values: each number by its name, one for each of the rows.
    """

    rows: Ints
    ends: Ints
    values: Values


class _Field(NamedTuple):
    """A number of known width: where it begins, where its point or end is, and how many decimals it has."""

    name: str
    first: int
    point: int
    decimals: int


class _Columns:
    """What each column of a part holds: masks over its signs."""

    def __init__(self) -> None:
        self.signs = bytearray()
        self.said = bytearray()
        self.digits = bytearray()
        self.blanks = bytearray()
        self.choices: list[tuple[int, bytes]] = []
        self.fields: list[_Field] = []

    def literal(self, text: str) -> None:
        """What is always so."""
        self._add(text.encode(), said=True)

    def choice(self, signs: str) -> None:
        """One of these."""
        self.choices.append((len(self.signs), signs.encode()))
        self.any(1)

    def any(self, width: int) -> None:
        """So many signs."""
        self._add(bytes(width))

    def number(self, name: str, width: int, decimals: int, *, zeros: bool) -> None:
        """A number that is printed in so many columns, with blanks before it or zeros."""
        first, whole = len(self.signs), width - decimals - (decimals > 0)
        blanks = 0 if zeros else whole - 1
        self._add(bytes(blanks), digit=True, blank=True)
        self._add(bytes(whole - blanks), digit=True)
        if decimals:
            self.literal(".")
            self._add(bytes(decimals), digit=True)
        if name:
            self.fields.append(_Field(name, first, first + whole, decimals))

    def _add(self, signs: bytes, *, said: bool = False, digit: bool = False, blank: bool = False) -> None:
        self.signs += signs
        for mask, is_set in ((self.said, said), (self.digits, digit), (self.blanks, blank)):
            mask += (b"\xff" if is_set else b"\0") * len(signs)


class _Fixed:
    """A part of a layout in which everything has its column: eight of them at a time are one number."""

    def __init__(self, columns: _Columns) -> None:
        self._size = len(columns.signs)
        self._padding = bytes(-self._size % _WORD)
        self._choices, self._fields = columns.choices, columns.fields
        self._signs, self._said = self._words(columns.signs), self._words(columns.said)
        digits, blanks = self._words(columns.digits), self._words(columns.blanks)
        self._numeric = np.flatnonzero(digits)
        self._digits, self._blanks = digits[self._numeric], blanks[self._numeric] & _TENS

    def _words(self, columns: bytearray) -> Words:
        return np.frombuffer(bytes(columns) + self._padding, "<u8")[:, None]

    def read(self, text: Text, at: Ints) -> Found:
        """The places where it stands."""
        rows = text.rows(at, self._size + len(self._padding))
        words = np.ascontiguousarray(rows.view("<u8").T)
        fits = np.bitwise_or.reduce((words ^ self._signs) & self._said, axis=0) == 0
        if len(self._numeric):
            fits &= np.bitwise_or.reduce(self._not_numbers(words[self._numeric]), axis=0) == 0
        for column, choice in self._choices:
            one = rows[:, column]
            fits &= np.logical_or.reduce([one == sign for sign in choice])
        kept = np.flatnonzero(fits)
        at = at[kept]
        values = {field.name: _value(text, at, field) for field in self._fields}
        return Found(kept, at + self._size, values)

    def _not_numbers(self, words: Words) -> Words:
        """Bits that are set if there is anything but numbers, with blanks before them."""
        wrong = _not_digits(words | self._blanks, self._digits)  # which makes a blank a 0
        if self._blanks.any():
            blank = ~words & self._blanks
            wrong |= words & (blank - (blank >> 4))  # what has no digit's bit is a blank, and no other sign
            after = blank >> 8
            after[:-1] |= blank[1:] << 56
            wrong |= after & ~blank & self._blanks  # no blank behind a digit
        return wrong


def _not_digits(words: Words, where: Words) -> Words:
    """Bits that are set if there is anything but a digit in some of the bytes."""
    high, zeros = where & _HIGH, where & _ZEROS
    wrong: Words = ((words & high) ^ zeros) | ((((words & where) + (where & _SIXES)) & high) ^ zeros)
    return wrong


def _value(text: Text, at: Ints, field: _Field) -> Ints | Floats:
    """The number of a field; with decimals the float that is nearest to it, as `float` gives it."""
    whole = text.numbers(at + field.point, field.point - field.first)
    if not field.decimals:
        return whole
    part = text.numbers(at + field.point + 1 + field.decimals, field.decimals)
    scale = 10**field.decimals
    value: Floats = (whole * scale + part) / scale
    return value


class _Whole(NamedTuple):
    """A whole number of any width."""

    name: str

    def read(self, text: Text, at: Ints) -> Found:
        """The places where one stands."""
        digits = text.rows(at, _MOST_DIGITS + 1) - _ZERO
        is_digit = digits < 10
        widths = is_digit[:, 0].astype(np.int64)
        goes_on, value = is_digit[:, 0], digits[:, 0].astype(np.int64)
        for column in range(1, _MOST_DIGITS + 1):
            goes_on = goes_on & is_digit[:, column]
            if not goes_on.any():
                break
            widths += goes_on
            if self.name:
                value = np.where(goes_on, 10 * value + digits[:, column], value)
        kept = np.flatnonzero((widths > 0) & (widths <= _MOST_DIGITS))
        if len(kept) < len(at):
            at, widths, value = at[kept], widths[kept], value[kept]
        return Found(kept, at + widths, {self.name: value} if self.name else {})


class Layout:
    """How a kind of line is printed.

    Args:
        layout: its words, and its numbers as Python's format strings have them: ``{ms:10.2f}`` is
            right-aligned in ten columns, ``{:02d}`` filled with zeros, ``{tokens:d}`` as wide as it is,
            ``{:[IWED]}`` one of these signs, ``{:12s}`` twelve signs of any kind. What has no name is looked
            at and not kept.
    """

    def __init__(self, layout: str) -> None:
        self._parts = list(_parts(layout))

    def read(self, text: Text, at: Ints) -> Found:
        """The places, of these, where such a line stands."""
        rows: Ints = np.arange(len(at))
        values: Values = {}
        for part in self._parts:
            kept, at, more = part.read(text, at)
            if len(kept) < len(rows):
                rows, values = rows[kept], {name: known[kept] for name, known in values.items()}
            values |= more
        return Found(rows, at, values)


def _parts(layout: str) -> Iterator[_Fixed | _Whole]:
    fixed = _Columns()
    for literal, name, spec, _ in Formatter().parse(layout):
        fixed.literal(literal)
        if spec is None:
            continue
        if spec.startswith("["):
            fixed.choice(spec[1:-1])
        elif spec.endswith("s"):
            fixed.any(int(spec[:-1]))
        elif spec == "d":
            if fixed.signs:
                yield _Fixed(fixed)
            fixed = _Columns()
            yield _Whole(name or "")
        else:
            width, _, decimals = spec[:-1].partition(".")
            fixed.number(name or "", int(width), int(decimals or 0), zeros=width.startswith("0"))
    if fixed.signs:
        yield _Fixed(fixed)


__all__ = ["Found", "Layout", "Text"]
