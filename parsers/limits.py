"""A limit on how long a user's pattern may take on one line: `re` has none of its own.

Where the system has an interval timer the pattern is stopped; elsewhere what it took is looked at afterwards.
"""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

LIMIT_S = 3.0
_SHORT = 256
"""On so few bytes a pattern that ends at all ends soon."""


class SlowPatternError(Exception):
    """A pattern takes too long; the text is a sentence without its end."""


class Limited:
    """Matches a pattern at the start of a line, and raises `SlowPatternError` after `LIMIT_S`.

    Args:
        pattern: a user's.
        who: names it and its file.
    """

    def __init__(self, pattern: re.Pattern[bytes], who: str) -> None:
        self._match = pattern.match
        self._who = who

    def __call__(self, line: bytes) -> re.Match[bytes] | None:
        """The match, if there is one."""
        if len(line) <= _SHORT:
            return self._match(line)
        error = SlowPatternError(
            f"{self._who} takes longer than {LIMIT_S:g} s on a line of {len(line):,} bytes"
        )
        began = time.perf_counter()
        with _alarm(error):
            found = self._match(line)
        if time.perf_counter() - began > LIMIT_S:
            raise error
        return found


@contextmanager
def _alarm(error: SlowPatternError) -> Iterator[None]:
    """Raise the error when the time is over, where that can be done."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_signal: int, _frame: object) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
