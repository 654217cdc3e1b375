"""Whether a GGUF file holds what its header says, before a reader counts on it.

`gguf.GGUFReader` takes counts as they stand: a file of a hundred bytes may claim an array of 2^60 elements,
and the reader makes that many.
"""

from __future__ import annotations

import os
import stat
import struct
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from pathlib import Path

CUT_OFF = "the file is cut off"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of each type that is one number."""
_MOST_ELEMENTS = 1 << 22
"""Of all arrays together; a tokenizer of 262 thousand tokens and its merges has 1.3 million."""
_MOST_DIMENSIONS = 4


def check_bounds(path: Path) -> None:
    """Walk the header.

    Raises:
        OSError: the file can't be read.
        ValueError: it is no GGUF, or does not hold what it says.
    """
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("not a regular file")
        _Walk(file, status.st_size).header()


class _Walk:
    """A place in a header, and how much may still be claimed."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size
        self._order = "<"
        self._elements = _MOST_ELEMENTS

    def header(self) -> None:
        """All of the metadata, and the descriptions of the tensors."""
        if self._bytes(4) != b"GGUF":
            raise ValueError("GGUF magic invalid")
        version = self._bytes(4)
        if version[:2] == b"\0\0":
            self._order, version = ">", version[::-1]
        if int.from_bytes(version, "little") not in _VERSIONS:
            raise ValueError(f"version {int.from_bytes(version, 'little')} is not known")
        tensors, facts = self._number("Q"), self._number("Q")
        for _ in range(self._some(facts)):
            self._skip(self._number("Q"))
            self._value(self._number("I"))
        for _ in range(self._some(tensors)):
            self._skip(self._number("Q"))
            dimensions = self._number("I")
            if dimensions > _MOST_DIMENSIONS:
                raise ValueError(f"a tensor of {dimensions} dimensions")
            self._skip(8 * dimensions + 4 + 8)

    def _value(self, kind: int) -> None:
        if kind == _STRING:
            self._skip(self._number("Q"))
        elif kind == _ARRAY:
            self._array(self._number("I"), self._some(self._number("Q")))
        else:
            self._skip(self._size_of(kind))

    def _array(self, kind: int, count: int) -> None:
        if kind != _STRING:
            self._skip(self._size_of(kind) * count)
            return
        for _ in range(count):
            self._skip(self._number("Q"))

    def _size_of(self, kind: int) -> int:
        if kind not in _SIZES:
            raise ValueError(
                "an array of arrays" if kind == _ARRAY else f"a value of the unknown type {kind}"
            )
        return _SIZES[kind]

    def _some(self, count: int) -> int:
        """So many of anything, if they may be; each takes a byte at least."""
        if count > self._left:
            raise ValueError(CUT_OFF)
        self._elements -= count
        if self._elements < 0:
            raise ValueError(f"more than {_MOST_ELEMENTS:,} values beside its tensors")
        return count

    def _number(self, form: str) -> int:
        number: int = struct.unpack(self._order + form, self._bytes(struct.calcsize(form)))[0]
        return number

    def _bytes(self, size: int) -> bytes:
        self._take(size)
        return self._file.read(size)

    def _skip(self, size: int) -> None:
        self._take(size)
        self._file.seek(size, os.SEEK_CUR)

    def _take(self, size: int) -> None:
        if size > self._left:
            raise ValueError(CUT_OFF)
        self._left -= size
