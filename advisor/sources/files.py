"""Files, folders, globs, compressed files and standard input, as named streams of bytes."""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import lzma
import sys
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import zstandard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STDIN = "-"
BLOCK = 1 << 20
_LOG_SUFFIXES = {".log", ".txt", ".out", ".err", ".json", ".jsonl", ".ndjson", ".gz", ".zst", ".bz2", ".xz"}
_SNIFF = 8192
_BROKEN = (EOFError, lzma.LZMAError, zlib.error, zstandard.ZstdError, gzip.BadGzipFile)


class InputError(Exception):
    """An input can't be read; the message is one clear sentence."""


class BinaryInputError(InputError):
    """The input is readable, but no text."""


@dataclass(frozen=True, slots=True)
class Input:
    """One thing to read.

    Attributes:
        name: as the user gave it, or as it was found in a folder; ``-`` for standard input.
        named: the user named it itself, so failing to recognise it is worth a warning.
    """

    name: str
    named: bool = True


def expand(paths: Sequence[str]) -> tuple[list[Input], list[str]]:
    """Inputs for what the user named, each once, and a sentence for each name that gives none."""
    inputs: dict[str, Input] = {}
    problems: list[str] = []
    for given in paths:
        found = _expand_one(given)
        if isinstance(found, str):
            problems.append(found)
            continue
        for one in found:
            key = one.name if one.name == STDIN else str(Path(one.name).resolve())
            inputs.setdefault(key, one)
    return list(inputs.values()), problems


def _expand_one(given: str) -> list[Input] | str:
    if given == STDIN:
        return [Input(STDIN)]
    path = Path(given)
    if path.is_dir():
        return [Input(str(p), named=False) for p in sorted(path.rglob("*")) if _looks_like_log(p)]
    if path.exists():
        return [Input(given)]
    if glob.has_magic(given):
        matches = sorted(glob.glob(given, recursive=True))  # noqa: PTH207 - absolute patterns too
        if matches:
            return [one for match in matches for one in _as_list(_expand_one(match))]
        return f"{given}: no file matches this pattern."
    return f"{given}: no such file or folder."


def _as_list(found: list[Input] | str) -> list[Input]:
    return found if isinstance(found, list) else []


def _looks_like_log(path: Path) -> bool:
    rotated = any(part in {".log", ".out"} for part in path.suffixes)
    return path.is_file() and (rotated or path.suffix.lower() in _LOG_SUFFIXES)


def blocks(source: Input) -> Iterator[bytes]:
    """The decompressed bytes of an input, in blocks.

    Raises:
        InputError: it can't be opened or read; what came before a break has been given.
        BinaryInputError: it is no text.
    """
    with _opened(source) as raw:
        first = _read(source, raw, _SNIFF)
        stream = _decompressed(first, raw)
        begun = False
        while block := _read(source, stream, BLOCK):
            if not begun and _is_binary(block):
                raise BinaryInputError(f"{source.name}: this is a binary file, not a log.")
            begun = True
            yield block


@contextmanager
def _opened(source: Input) -> Iterator[BinaryIO]:
    if source.name == STDIN:
        yield sys.stdin.buffer
        return
    try:
        file = Path(source.name).open("rb")  # noqa: SIM115 - closed below, after the generator's last block
    except PermissionError:
        raise InputError(f"{source.name}: no permission to read it.") from None
    except OSError as error:
        raise InputError(f"{source.name}: can't be opened ({error.strerror or error}).") from None
    with file:
        yield file


def _read(source: Input, stream: BinaryIO, size: int) -> bytes:
    """Up to ``size`` bytes: what is there, without waiting for the block to fill."""
    try:
        return getattr(stream, "read1", stream.read)(size) or b""
    except _BROKEN:
        raise InputError(f"{source.name}: the compressed file is broken or cut off.") from None
    except OSError as error:
        raise InputError(f"{source.name}: can't be read ({error.strerror or error}).") from None


def _decompressed(first: bytes, raw: BinaryIO) -> BinaryIO:
    rest = cast("BinaryIO", io.BufferedReader(_Rejoined(first, raw), BLOCK))
    if first.startswith(b"\x1f\x8b"):
        return cast("BinaryIO", gzip.GzipFile(fileobj=rest))
    if first.startswith(b"\x28\xb5\x2f\xfd"):
        return cast("BinaryIO", zstandard.ZstdDecompressor().stream_reader(rest, read_across_frames=True))
    if first.startswith(b"BZh"):
        return cast("BinaryIO", bz2.BZ2File(rest))
    if first.startswith(b"\xfd7zXZ"):
        return cast("BinaryIO", lzma.LZMAFile(rest))
    return rest


class _Rejoined(io.RawIOBase):
    """The bytes looked at first, then the rest of the stream; not seekable, as pipes aren't."""

    def __init__(self, first: bytes, rest: BinaryIO) -> None:
        self._first = first
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._first or getattr(self._rest, "read1", self._rest.read)(len(buffer))
        data, self._first = data[: len(buffer)], data[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def _is_binary(block: bytes) -> bool:
    if block.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    return b"\x00" in block[:_SNIFF] or block.startswith(b"\x89PNG")
