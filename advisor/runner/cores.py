"""How many cores this process may use."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Of a Linux control group (v2), a container's: microseconds of processor time, and in how many."""


def cores() -> int:
    """Physical cores, hardware threads where they can't be told; of those that this process may use."""
    import psutil

    there = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    with suppress(AttributeError, OSError, psutil.Error):
        there = min(there, len(psutil.Process().cpu_affinity()))  # not on macOS
    with suppress(OSError, ValueError):
        quota, period = (int(word) for word in _CPU_QUOTA.read_text().split())
        there = min(there, max(quota // period, 1))
    return there
