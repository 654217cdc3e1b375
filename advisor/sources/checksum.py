"""A checksum that goes on where it stopped: what a file's bytes are known by, in however many readings."""

from __future__ import annotations

import zlib
from typing import Final

EMPTY: Final = 1
"""That of no bytes."""


def checksum(data: bytes, before: int = EMPTY) -> int:
    """CRC-32 and Adler-32, 64 bits together.

    Args:
        data: bytes.
        before: the checksum of all before them.
    """
    crc, adler = divmod(before, 1 << 32)
    return zlib.crc32(data, crc) << 32 | zlib.adler32(data, adler)
