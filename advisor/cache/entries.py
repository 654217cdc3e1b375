"""The folder of the cache: an entry for each log, which two processes may read and write at once.

Pieces are never changed, and have names that nobody else uses; the file that names them is replaced at once.
So whoever comes last has its entry stay, whole. What is missing or broken is as if it were not there.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sys
import time
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field, ValidationError

from advisor.cache.same_file import FilePrint
from advisor.calibration import file as calibration_file
from advisor.section import Section

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack
    from typing import BinaryIO

    from parsers.formats import Format

SCHEMA: Final = "phasewise.cache/1"
LARGEST = 2_000_000_000
"""What all entries may take together; those used longest ago are removed first."""

_ENTRY = "entry.json"
_LEFT_S = 3600.0
"""A file of this age that no entry names is nobody's work."""


class Piece(Section):
    """A file of an entry's folder; ``table`` says whose rows it holds, if it holds any."""

    name: str = Field(pattern=r"^[0-9a-f]{16}\.(arrow|state)$")
    digest: str
    table: Literal["requests", "intervals", "events", "aggregates"] | None = None
    rows: int = 0


class Entry(Section):
    """What is kept of a log.

    Attributes:
        file: as it was.
        read: how many bytes its reader had read; of a compressed file, unpacked ones.
        rows: those that it had given, in their order.
        state: the reader.
    """

    schema_: Literal["phasewise.cache/1"] = Field(default=SCHEMA, alias="schema")
    file: FilePrint
    read: int = Field(ge=0)
    rows: list[Piece]
    state: Piece


class CacheError(Exception):
    """The folder can't be used; the text is a sentence without its end."""


def folder() -> Path:
    """Where the entries are.

    Raises:
        CacheError: it can't be made, or is another user's.
    """
    path = calibration_file().parent / "logs"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = path.stat()
        if not _is_own(state):
            raise CacheError(f"{path}: it belongs to another user")
        if sys.platform != "win32" and state.st_mode & 0o077:
            path.chmod(0o700)
    except FileExistsError as error:
        raise CacheError(f"{error.filename}: it is no folder") from None
    except OSError as error:
        raise CacheError(f"{path}: {error.strerror or error}") from None
    return path


def _is_own(state: os.stat_result) -> bool:
    return sys.platform == "win32" or state.st_uid == os.geteuid()


def place_of(root: Path, name: str, engine: str | None, formats: Sequence[Format]) -> Path:
    """The folder of a log's entry: another one for each way to read it, and for each version of this."""
    from advisor import __version__

    told = [SCHEMA, __version__, sys.version_info[:2], str(Path(name).resolve()), name, engine]
    key = json.dumps([*told, _ways(tuple(formats))])
    return root / blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def load(place: Path) -> Entry | None:
    """What is kept, if it is whole as far as this file tells, and no other user put it there."""
    try:
        with (place / _ENTRY).open("rb") as file:
            text = file.read() if _is_own(os.fstat(file.fileno())) else b""
        digest, _, entry = text.partition(b"\n")
        return Entry.model_validate_json(entry) if digest == _digest(entry) else None
    except (OSError, ValidationError, ValueError):
        return None


def contents(place: Path, piece: Piece) -> bytes | None:
    """A piece, if it is as it was written."""
    try:
        data = (place / piece.name).read_bytes()
    except OSError:
        return None
    return data if _digest(data).decode() == piece.digest else None


def are_there(place: Path, pieces: Sequence[Piece]) -> bool:
    """Whether all of them are."""
    return all((place / piece.name).is_file() for piece in pieces)


def opened(place: Path, pieces: Sequence[Piece], files: ExitStack) -> list[tuple[str, BinaryIO]] | None:
    """Pieces as they were written, each with its table: removed or not, they can be read now.

    Args:
        place: the entry's folder.
        pieces: those with rows.
        files: closes them.
    """
    found: list[tuple[str, BinaryIO]] = []
    for piece in pieces:
        try:
            file = files.enter_context((place / piece.name).open("rb"))
            digest = file_digest(file, lambda: blake2b(digest_size=16)).hexdigest()
        except OSError:
            return None
        if digest != piece.digest or piece.table is None:
            return None
        found.append((piece.table, file))
    return found


def put(place: Path, data: bytes, table: str | None = None, rows: int = 0) -> Piece:
    """Write a piece.

    Raises:
        CacheError: it can't be written.
    """
    piece = Piece.model_validate(
        {
            "name": f"{secrets.token_hex(8)}.{'state' if table is None else 'arrow'}",
            "digest": _digest(data).decode(),
            "table": table,
            "rows": rows,
        }
    )
    _write(place / piece.name, data)
    return piece


def replace(place: Path, entry: Entry) -> None:
    """Make this what is kept, and remove what nothing names any more.

    Raises:
        CacheError: it can't be written.
    """
    text = entry.model_dump_json(by_alias=True).encode()
    made = place / f"{secrets.token_hex(8)}.new"
    _write(made, _digest(text) + b"\n" + text)
    try:
        if (place / _ENTRY).is_dir():
            shutil.rmtree(place / _ENTRY)
        made.replace(place / _ENTRY)
    except OSError as error:
        made.unlink(missing_ok=True)
        raise CacheError(f"{place}: {error.strerror or error}") from None
    _tidy(place)


def drop(paths: Sequence[Path], age_s: float = 0.0) -> None:
    """Remove what is at least so old; what another process holds open may stay."""
    for path in paths:
        with suppress(OSError):
            if time.time() - path.stat().st_mtime >= age_s:
                path.unlink()


def touch(place: Path) -> None:
    """It was used now."""
    with suppress(OSError):
        os.utime(place / _ENTRY)
    _tidy(place)


def _tidy(place: Path) -> None:
    """Remove what the entry does not name, or what is there without one, once it is nobody's work."""
    entry = load(place)
    if entry is None and (place / _ENTRY).exists():
        return
    pieces = [] if entry is None else [entry.state, *entry.rows]
    named = {_ENTRY, *(piece.name for piece in pieces)}
    drop([path for path in _files(place) if path.name not in named], _LEFT_S)


def make_room(root: Path) -> None:
    """Remove what nothing names, and what was used longest ago, until the rest is no more than `LARGEST`."""
    places = [place for place in _files(root) if place.is_dir()]
    for place in places:
        _tidy(place)
    used = sorted((_used(place), _size(place), place) for place in places)
    total = sum(size for _, size, _ in used)
    for _, size, place in used:
        if total <= LARGEST:
            break
        shutil.rmtree(place, ignore_errors=True)
        total -= size


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(exist_ok=True)
        with path.open("xb") as file:
            file.write(data)
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise CacheError(f"{path.parent}: {error.strerror or error}") from None


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).hexdigest().encode()


def _files(at: Path) -> list[Path]:
    try:
        return list(at.iterdir())
    except OSError:
        return []


def _size(place: Path) -> int:
    total = 0
    for path in _files(place):
        with suppress(OSError):
            total += path.stat().st_size
    return total


def _used(place: Path) -> float:
    """When: by its entry; what has none is being made, or was left."""
    for path in (place / _ENTRY, place):
        with suppress(OSError):
            return path.stat().st_mtime
    return 0.0


_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@lru_cache(maxsize=8)
def _ways(formats: tuple[Format, ...]) -> list[list[str]]:
    """What makes the ways to read a log what they are."""
    return [_code(), *(_print_of(fmt) for fmt in formats)]


def _print_of(fmt: Format) -> list[str]:
    """What makes a format itself."""
    maker = getattr(fmt.reader, "func", fmt.reader)
    made_with = getattr(fmt.reader, "keywords", {})
    module = sys.modules.get(maker.__module__)
    said = repr((fmt.engine, fmt.grain, fmt.identify, fmt.lines, fmt.banner, fmt.inside, made_with))
    return [
        _ADDRESS.sub("", said),
        maker.__module__,
        maker.__qualname__,
        *_changed(getattr(module, "__file__", None)),
    ]


def _code() -> list[str]:
    """What the readers' own code is, where it is changed without a new version."""
    import parsers

    return [
        one for path in sorted(Path(parsers.__file__).parent.rglob("*.py")) for one in _changed(str(path))
    ]


def _changed(file: str | None) -> list[str]:
    try:
        state = Path(file or "").stat()
    except OSError:
        return []
    return [str(file), str(state.st_size), str(state.st_mtime_ns)]
