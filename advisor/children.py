"""Programs that are started from here: apart from the terminal's Ctrl-C, and ended for sure."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

APART: Mapping[str, Any] = {"start_new_session": True}
"""Ctrl-C is for us: when a program ends is decided here, and what it says on ending is no news."""
if sys.platform == "win32":
    APART = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}


def end(process: subprocess.Popen[bytes], wait_s: float) -> None:
    """End a program: ask it, and don't wait long."""
    if process.poll() is not None:
        return
    with suppress(OSError):
        process.terminate()
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
