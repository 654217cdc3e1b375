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
    from collections.abc import Callable, Iterator

LIMIT_S = 3.0
_SHORT = 256
"""On so few bytes a pattern that ends at all ends soon."""


class SlowPatternError(Exception):
    """A pattern takes too long; the text is a sentence without its end."""


def within_time(pattern: re.Pattern[bytes], who: str) -> Callable[[bytes], re.Match[bytes] | None]:
    """What matches a pattern at the start of a line, and raises `SlowPatternError` after `LIMIT_S`.

    Args:
        pattern: a user's.
        who: names it and its file.
    """
    match = pattern.match

    def limited(line: bytes) -> re.Match[bytes] | None:
        if len(line) <= _SHORT:
            return match(line)
        error = SlowPatternError(f"{who} takes longer than {LIMIT_S:g} s on a line of {len(line):,} bytes")
        began = time.perf_counter()
        with _alarm(error):
            found = match(line)
        if time.perf_counter() - began > LIMIT_S:
            raise error
        return found

    return limited


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
