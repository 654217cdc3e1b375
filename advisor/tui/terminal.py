"""Where the screens are drawn and keys come from, also while a log is piped in."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from advisor.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.live.session import Session

_SWITCH_S = 0.0005
"""The drawing thread sleeps and wakes often, and each time waits so long for one that reads or judges."""

_KEYBOARD = "CONIN$" if sys.platform == "win32" else "/dev/tty"


def has_screen() -> bool:
    """Whether screens can be drawn: standard output is a terminal, or a browser shows it (`serve`)."""
    return sys.stdout.isatty() or "TEXTUAL_DRIVER" in os.environ


def run(session: Session, command: Sequence[str], *, piped: bool) -> None:
    """Show a session until the user quits.

    Args:
        session: not started yet.
        command: the words of the command line.
        piped: the log comes on standard input, so keys come from the terminal itself.

    Raises:
        InputError: there is no keyboard.
    """
    from advisor.tui.app import PhasewiseApp

    if piped and "TEXTUAL_DRIVER" not in os.environ:
        _take_keys_from_terminal()
    sys.setswitchinterval(_SWITCH_S)
    PhasewiseApp(session, command).run()


def _take_keys_from_terminal() -> None:
    """Put the terminal in the place of standard input; the log's pipe is read by its own number already."""
    try:
        keyboard = os.open(_KEYBOARD, os.O_RDWR)
    except OSError:
        raise InputError("there is no terminal to take keys from; say --plain.") from None
    os.dup2(keyboard, 0)
    os.close(keyboard)
