"""Packed bytes, unpacked as they come: gzip, Zstandard, bzip2, xz, within limits that no log comes near."""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable

ENDINGS = frozenset({".gz", ".zst", ".bz2", ".xz"})
"""How the names of packed files end."""

MOST_TIMES, FREE_BYTES = 500, 1 << 30
"""A file that unpacks to so many times its size is no log: logs shrink to a tenth or a hundredth.

What comes first is free: a short file of one line over and over harms nobody.
"""
MEMORY_BYTES = 128 << 20
"""The most that unpacking may take: what `zstd` allows too, and twice what `xz -9` takes."""

BROKEN = "the compressed file is broken or cut off"
_TOO_MUCH = f"unpacks to more than {MOST_TIMES} times its size, which no log does"
_TOO_LARGE = f"takes more than {MEMORY_BYTES >> 20} MiB of memory to unpack"
_STEP = 1 << 16
_ZSTD_STEP = 1 << 10
"""Zstandard gives all that its input holds at once; of so little that is 32 MiB at most."""


class PackedError(Exception):
    """It can't be unpacked further: why, as a sentence without its end.

    Attributes:
        program: the command that could go on, if that is for a limit of ours.
    """

    def __init__(self, why: str, program: str | None = None) -> None:
        super().__init__(why)
        self.program = program


class _Member(Protocol):
    """Unpacks one of the members that a file consists of."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def needs_input(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Wrapped:
    """One whose package names things otherwise."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property
    def eof(self) -> bool:
        return bool(self._inner.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._inner.unused_data)

    @property
    def needs_input(self) -> bool:
        return True


class _Zlib(_Wrapped):
    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return bytes(self._inner.decompress(self._inner.unconsumed_tail + data, max_length))


class _Isal(_Wrapped):
    @property
    def needs_input(self) -> bool:
        return bool(self._inner.needs_input)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        from isal.igzip_lib import IsalError

        try:
            return bytes(self._inner.decompress(data, max_length))
        except IsalError as error:
            raise zlib.error(str(error)) from None


class _Zstd(_Wrapped):
    def decompress(self, data: bytes, max_length: int) -> bytes:
        return bytes(self._inner.decompress(data))


def _gzip() -> _Member:
    try:
        from isal.igzip_lib import DECOMP_GZIP, IgzipDecompressor
    except ImportError:  # no wheel for this machine
        return _Zlib(zlib.decompressobj(zlib.MAX_WBITS | 16))
    return _Isal(IgzipDecompressor(flag=DECOMP_GZIP))


def _zstd() -> _Member:
    return _Zstd(zstandard.ZstdDecompressor(max_window_size=MEMORY_BYTES).decompressobj())


def _xz() -> _Member:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY_BYTES)


_KINDS: dict[bytes, Callable[[], _Member]] = {
    b"\x1f\x8b": _gzip,
    b"\x28\xb5\x2f\xfd": _zstd,
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ": _xz,
    **{bytes([0x50 + n]) + b"\x2a\x4d\x18": _zstd for n in range(16)},  # frames to be skipped
}
_PROGRAMS: dict[Callable[[], _Member], str] = {
    _gzip: "gzip -dc",
    _zstd: "zstd -dc --long=31",
    bz2.BZ2Decompressor: "bzip2 -dc",
    _xz: "xz -dc",
}


def kind_of(first: bytes) -> Callable[[], _Member] | None:
    """What unpacks a file that begins so; ``None`` if it is not packed."""
    return next((kind for magic, kind in _KINDS.items() if first.startswith(magic)), None)


class Unpacked(io.RawIOBase):
    """Members one after the other, with zeros between and after them, as one stream.

    Args:
        kind: what unpacks a member.
        packed: the bytes as they lie there.
    """

    def __init__(self, kind: Callable[[], _Member], packed: BinaryIO) -> None:
        self._kind = kind
        self._packed = packed
        self._program = _PROGRAMS[kind]
        self._step = _ZSTD_STEP if kind is _zstd else _STEP
        self._member: _Member | None = None
        self._taken = self._given = 0
        self._rest = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill a buffer with what comes next.

        Raises:
            PackedError: the file is broken, or goes beyond a limit.
        """
        while not self._ready:
            if self._member is None and not self._begin():
                return 0
            self._ready = memoryview(self._more(len(buffer)))
            self._given += len(self._ready)
            if self._given > FREE_BYTES and self._given > MOST_TIMES * self._taken:
                raise PackedError(_TOO_MUCH, self._program)
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    def _begin(self) -> bool:
        """Open the next member; ``False`` at the end."""
        rest = self._rest.lstrip(b"\0")
        while not rest:
            if not (more := self._next()):
                return False
            rest = more.lstrip(b"\0")
        self._rest = rest
        self._member = self._kind()
        return True

    def _more(self, size: int) -> bytes:
        member = self._member
        assert member is not None
        data = b""
        if member.needs_input:
            data, self._rest = self._rest or self._next(), b""
            if not data:
                raise PackedError(BROKEN)
        try:
            out = member.decompress(data, size)
        except (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error, zstandard.ZstdError) as error:
            if "memory" in str(error).lower():
                raise PackedError(_TOO_LARGE, self._program) from None
            raise PackedError(BROKEN) from None
        if member.eof:
            self._rest, self._member = member.unused_data, None
        return out

    def _next(self) -> bytes:
        data = getattr(self._packed, "read1", self._packed.read)(self._step) or b""
        self._taken += len(data)
        return data
