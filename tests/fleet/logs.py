"""Forty small logs of a fleet, some of them compressed, and one that is broken."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import zstandard

from benchmarks.logs import KINDS, write

if TYPE_CHECKING:
    from pathlib import Path

COUNT, BROKEN = 40, "host-17.log.gz"
_PLAIN_BYTES, _PACKED_BYTES = 60_000, 30_000


def fleet(folder: Path) -> dict[str, bytes]:
    """Write the logs, and give the bytes of each by its name."""
    made: dict[str, bytes] = {}
    for number in range(COUNT):
        kind = KINDS["mixed" if number % 3 else "dense"]
        path = folder / f"host-{number:02d}.log"
        write(path, _PLAIN_BYTES if number % 4 == 0 else _PACKED_BYTES, kind)
        text = path.read_bytes()
        packed = {1: (".gz", gzip.compress(text, mtime=0)), 2: (".zst", zstandard.compress(text))}
        suffix, data = packed.get(number % 4, ("", text))
        path.unlink()
        name = f"{path.name}{suffix}"
        made[name] = data[: len(data) // 2] if name == BROKEN else data
        (folder / name).write_bytes(made[name])
    return made
