"""Whether somebody pipes a log into a command that names none."""

from __future__ import annotations

import os
import select
import stat
import sys
from io import BufferedReader

WAIT_S = 2.0
"""Long enough for the program before the pipe to start; a pipe that only was inherited stays silent."""


def log_is_piped(wait_s: float = WAIT_S) -> bool:
    """Whether standard input is a file or a pipe with something in it; nothing of it is taken.

    Never waits for a terminal or a device, nor longer than ``wait_s`` for a pipe. Pipes of Windows can't be
    asked without taking from them, and count as empty.
    """
    try:
        number = sys.stdin.fileno() if sys.stdin else -1
        kind = os.fstat(number)
        if stat.S_ISREG(kind.st_mode):
            return kind.st_size > os.lseek(number, 0, os.SEEK_CUR)
        if sys.platform == "win32" or not (stat.S_ISFIFO(kind.st_mode) or stat.S_ISSOCK(kind.st_mode)):
            return False
        given = sys.stdin.buffer
        if not isinstance(given, BufferedReader) or not select.select([number], [], [], wait_s)[0]:
            return False
        return bool(given.peek(1))
    except (OSError, ValueError):
        return False
