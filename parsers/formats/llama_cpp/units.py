"""llama.cpp's clock, its sizes and its buffers, as it prints them."""

from __future__ import annotations

import re

_SIZE = re.compile(rb"(?<![\d.])(\d+(?:\.\d+)?) (B|KiB|MiB|GiB|MB|GB)")
_UNIT = {b"B": 1, b"KiB": 1 << 10, b"MiB": 1 << 20, b"GiB": 1 << 30, b"MB": 1 << 20, b"GB": 1 << 30}

_HOST_BUFFERS = (b"CPU", b"AMX", b"BLAS")


def on_host(buffer: bytes) -> bool:
    """True for a buffer in the machine's own memory; a GPU may also be able to read it (`CUDA_Host`)."""
    return buffer.startswith(_HOST_BUFFERS) or buffer.endswith(b"_Host")


def size_bytes(printed: bytes) -> int | None:
    """``92.10 MiB`` in bytes, as exact as it was printed. ggml's `MB` are MiB."""
    match = _SIZE.search(printed)
    return round(float(match[1]) * _UNIT[match[2]]) if match else None


def clock_ms(printed: bytes | None) -> float | None:
    """llama.cpp's own clock ``minutes.seconds.ms.us`` in ms since the process started."""
    if printed is None:
        return None
    minutes, digits = divmod(int(printed.replace(b".", b"")), 100_000_000)
    return minutes * 60_000.0 + digits // 1_000 + digits % 1_000 / 1_000.0
