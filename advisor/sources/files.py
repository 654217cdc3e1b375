"""Files, folders, globs, compressed files and standard input, as named streams of bytes."""

from __future__ import annotations

import glob
import io
import os
import re
import shlex
import stat
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from advisor.errors import ChangedError, InputError, MissingError, UnrecognisedError
from advisor.interrupt import check, waiting
from advisor.sources import stores
from advisor.sources.checksum import EMPTY, checksum
from advisor.sources.packed import ENDINGS, PackedError, Unpacked, kind_of
from advisor.sources.ranges import Ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

STDIN = "-"
BLOCK = 1 << 21
MAGIC = 6
"""First bytes that say whether and how it is packed."""

_LOG_SUFFIXES = {".log", ".txt", ".out", ".err", ".json", ".jsonl", ".ndjson", *ENDINGS}
_WRITTEN = {".md", ".markdown", ".html", ".htm", ".xml", ".svg", ".parquet"}
_SNIFF = 8192
_LONG = 80
_HOLE = re.compile(rb"\0{512,}")
_CONTROLS, _BINARY_SHARE = bytes(set(range(32)) - set(b"\b\t\n\f\r\x1b")), 0.05


@dataclass(frozen=True, slots=True)
class Input:
    """One thing to read.

    Attributes:
        name: as the user gave it, or as it was found in a folder; ``-`` for standard input.
        folder: the folder it was found in; ``None`` for what the user named itself.
        version: of an object in a store, the one to read; ``None`` for the newest.
    """

    name: str
    folder: str | None = None
    version: str | None = None


def expand(paths: Sequence[str]) -> tuple[list[Input], list[InputError]]:
    """Inputs for what the user named, each once, and an error for each name that gives none."""
    inputs: dict[str, Input] = {}
    problems: list[InputError] = []
    for given in paths:
        try:
            found = _expand_one(given)
        except InputError as error:
            problems.append(error)
            continue
        for one in found:
            elsewhere = one.name == STDIN or stores.is_store(one.name)
            key = one.name if elsewhere else str(Path(one.name).resolve())
            inputs[key] = inputs.get(key, one) if one.folder else one
    return list(inputs.values()), [_hinted(one) for one in problems] if inputs else problems


def _hinted(problem: InputError) -> InputError:
    """What stands beside a log and is named like a page was meant to be written."""
    if isinstance(problem, MissingError) and Path(problem.name).suffix.lower() in _WRITTEN:
        return InputError(f"{problem.name}: no such file or folder; to write it, say -o {problem.name}.")
    return problem


def _expand_one(given: str) -> list[Input]:
    if given == STDIN:
        return [Input(STDIN)]
    if not given:
        raise InputError("an empty path was given; name a log file, a folder, or - for standard input.")
    if stores.is_store(given):
        names, folder = stores.found(given, _is_log_name)
        return [Input(name, folder) for name in names]
    path = Path(given)
    try:
        if path.is_dir():
            return _in_folder(path)
        if path.exists():
            return [Input(given)]
    except PermissionError:
        raise InputError(f"{given}: no permission to look there.") from None
    except OSError as error:
        raise InputError(f"{_short(given)}: can't be opened ({error.strerror or error}).") from None
    if glob.has_magic(given):
        if matches := _matches(given):
            return [one for match in matches for one in _expand_one(match)]
        raise InputError(f"{given}: no file matches this pattern.")
    raise MissingError(given)


def _matches(pattern: str) -> list[str]:
    """What a pattern names; ``**`` follows no links to folders, which may lead around in circles."""
    parts = Path(pattern).parts
    if "**" not in parts:
        return sorted(glob.glob(pattern))  # noqa: PTH207 - absolute patterns too
    at = parts.index("**")
    tops = glob.glob(str(Path(*parts[:at]))) if at else ["."]  # noqa: PTH207
    below = "/".join(parts[at:])
    found = ((path, path.relative_to(top)) for top in tops for path in Path(top).glob(below))
    hidden = any(part.startswith(".") for part in parts[at:])
    return sorted(
        str(path) for path, inside in found if hidden or not any(p.startswith(".") for p in inside.parts)
    )


def _in_folder(folder: Path) -> list[Input]:
    """Everything below that is named like a log.

    Raises:
        UnrecognisedError: nothing is.
        OSError: the folder itself can't be listed.
    """
    with os.scandir(folder):
        pass
    found = sorted(
        Path(at) / name for at, _, names in os.walk(folder) for name in names if _is_log_name(name)
    )
    files = [path for path in found if path.is_file()]
    if not files:
        raise UnrecognisedError(f"{folder}: no file in there is named like a log")
    return [Input(str(path), folder=str(folder)) for path in files]


def _is_log_name(name: str) -> bool:
    path = Path(name.lower())
    rotated = any(part in {".log", ".out"} for part in path.suffixes)
    return rotated or path.suffix in _LOG_SUFFIXES


def last_written(source: Input) -> datetime:
    """When a source was last written: clocks that print no year are not after it."""
    if source.name == STDIN:
        return datetime.now(UTC)
    if stores.is_store(source.name):
        return stores.last_written(source.name)
    try:
        return datetime.fromtimestamp(Path(source.name).stat().st_mtime, UTC)
    except OSError:
        return datetime.now(UTC)


def _short(given: str) -> str:
    return given if len(given) <= _LONG else f"{given[:_LONG]}..."


def blocks(
    source: Input, begin: int = 0, took: Callable[[int], None] | None = None, before: int | None = None
) -> Generator[bytes, None, None]:
    """The decompressed bytes of an input, in blocks.

    Args:
        source: the input.
        begin: how many of its first bytes to leave out: what stood there was read before.
        took: told of bytes as they are taken from the input, packed as they lie there.
        before: the checksum that those first bytes must have; if they do, an empty block comes first.

    Raises:
        InputError: it can't be opened or read; what came before a break has been given.
        ChangedError: what stood there was other bytes; nothing has been given.
        UnrecognisedError: it is no text.
        Stopped: Ctrl-C came.
    """
    with _opened(source) as raw:
        first = b""
        while len(first) < MAGIC and (more := _read(source, _Rejoined(b"", raw, None), _SNIFF)):
            first += more
        ends, kind = _is_regular(raw), kind_of(first)
        if before is not None:
            if not ends or kind is not None or _checksum(source, raw, begin) != before:
                raise ChangedError(f"{source.name}: it changed while it was read.")
            yield b""
        if begin and ends and kind is None:
            first, begin = b"", raw.seek(begin) - begin
        elif took is not None:
            took(len(first))
        plain = cast("BinaryIO", io.BufferedReader(_Rejoined(first, raw, took), BLOCK))
        stream = plain if kind is None else io.BufferedReader(Unpacked(kind, plain), BLOCK)
        begun = begin > 0 or not first
        while begin > 0 and (block := _read(source, stream, min(begin, BLOCK))):
            begin -= len(block)
        in_hole = False
        while block := _read(source, stream, BLOCK):
            in_hole = not begun and ends and not block.strip(b"\0")
            if not begun and not in_hole and _is_binary(block):
                raise _binary(source)
            begun = not in_hole
            yield block
        if in_hole:
            raise _binary(source)


def _checksum(source: Input, file: BinaryIO, size: int) -> int | None:
    """That of a file's first bytes; ``None`` if it holds fewer."""
    found = EMPTY
    file.seek(0)
    while size > 0 and (data := _read(source, file, min(size, BLOCK))):
        found = checksum(data, found)
        size -= len(data)
    return found if size == 0 else None


def _binary(source: Input) -> UnrecognisedError:
    return UnrecognisedError(f"{source.name}: this is a binary file, not a log")


def _is_regular(raw: BinaryIO) -> bool:
    """Whether it ends: the hole that a truncated rotated log begins with may be as long as the log was."""
    try:
        return isinstance(raw, Ranges) or stat.S_ISREG(os.fstat(raw.fileno()).st_mode)
    except (OSError, ValueError):
        return False


@contextmanager
def _opened(source: Input) -> Iterator[BinaryIO]:
    if source.name == STDIN:
        if sys.stdin is None:
            raise InputError("standard input is closed; pipe a log into it.")
        yield sys.stdin.buffer
        return
    if stores.is_store(source.name):
        with stores.opened(source.name, source.version) as remote:
            yield cast("BinaryIO", remote)
        return
    try:
        with waiting():  # a FIFO opens with its writer
            file = Path(source.name).open("rb")  # noqa: SIM115 - closed below, after the last block
    except PermissionError:
        raise InputError(f"{source.name}: no permission to read it.") from None
    except OSError as error:
        raise InputError(f"{source.name}: can't be opened ({error.strerror or error}).") from None
    with file:
        yield file


def _read(source: Input, stream: BinaryIO | io.BufferedIOBase | io.RawIOBase, size: int) -> bytes:
    """Up to ``size`` bytes: what is there, without waiting for the block to fill."""
    check()
    try:
        return getattr(stream, "read1", stream.read)(size) or b""
    except PackedError as error:
        raise InputError(f"{source.name}: {error}{_way_on(source, error.program)}.") from None
    except OSError as error:
        raise InputError(f"{source.name}: can't be read ({error.strerror or error}).") from None


def _way_on(source: Input, program: str | None) -> str:
    if program is None:
        return ""
    if source.name == STDIN or stores.is_store(source.name):
        return "; if it is one, unpack it first"
    return f"; if it is one: `{program} {shlex.quote(source.name)} | phasewise analyze -`"


class _Rejoined(io.RawIOBase):
    """The bytes looked at first, then the rest of the stream; not seekable, as pipes aren't."""

    def __init__(self, first: bytes, rest: BinaryIO, took: Callable[[int], None] | None) -> None:
        self._first = first
        self._rest = rest
        self._took = took

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._first or self._more(len(buffer))
        data, self._first = data[: len(buffer)], data[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)

    def _more(self, size: int) -> bytes:
        with waiting():
            data: bytes = getattr(self._rest, "read1", self._rest.read)(size)
        if self._took is not None:
            self._took(len(data))
        return data


def _is_binary(block: bytes) -> bool:
    """Many control bytes; holes that a truncated or a crashed log has do not count."""
    head = _HOLE.sub(b"", block.lstrip(b"\x00"))
    if block.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return not head or head.startswith(b"\x89PNG") or controls > _BINARY_SHARE * len(head)
