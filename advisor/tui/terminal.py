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

_SERVED = "TEXTUAL_DRIVER"
_LINES_ONLY = ("dumb", "unknown")
_KEYBOARD = "CONIN$" if sys.platform == "win32" else "/dev/tty"


def has_screen() -> bool:
    """Whether screens can be drawn: on a terminal that knows more than lines, or in a browser (`serve`)."""
    if _SERVED in os.environ:
        return True
    knows_glyphs = (sys.stdout.encoding or "").lower().startswith("utf")
    return sys.stdout.isatty() and knows_glyphs and os.environ.get("TERM") not in _LINES_ONLY


def run(session: Session, command: Sequence[str]) -> None:
    """Show a session until the user quits.

    Args:
        session: not started yet.
        command: the words of the command line.

    Raises:
        InputError: there is no keyboard.
        KeyboardInterrupt: the user pressed Ctrl-C.
        SystemExit: the screens stopped at a fault.
    """
    from advisor.tui.app import INTERRUPTED, PhasewiseApp

    if _SERVED not in os.environ and not (sys.stdin and sys.stdin.isatty()):
        _take_keys_from_terminal()
    sys.setswitchinterval(_SWITCH_S)
    app = PhasewiseApp(session, command)
    app.run()
    if app.return_code == INTERRUPTED:
        raise KeyboardInterrupt
    if app.return_code:
        raise SystemExit(app.return_code)


def _take_keys_from_terminal() -> None:
    """Put the terminal in the place of standard input; a log's pipe has a number of its own already."""
    try:
        keyboard = os.open(_KEYBOARD, os.O_RDWR)
    except OSError:
        raise InputError("no terminal to take keys from; `phasewise tail --plain` needs none.") from None
    os.dup2(keyboard, 0)
    os.close(keyboard)
