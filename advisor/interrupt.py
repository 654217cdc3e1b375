"""Ctrl-C while sources are read: the first ends the reading, and what was read is told; the next the run."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Stopped(KeyboardInterrupt):
    """No more is to be read."""


class _State:
    """Of this process, as signals are: whether to read on, and whether a read may have to be broken off."""

    def __init__(self) -> None:
        self.asked = self.waits = False
        self.heeds: Callable[[], bool] | None = None


_state = _State()


def asked() -> bool:
    """Whether no more is to be read."""
    return _state.asked or (_state.heeds is not None and _state.heeds())


def check() -> None:
    """Go on only if more is to be read.

    Raises:
        Stopped: it is not.
    """
    if asked():
        raise Stopped


@contextmanager
def waiting() -> Iterator[None]:
    """Around what may wait for bytes for ever: Ctrl-C breaks it off.

    Raises:
        Stopped: no more is to be read.
    """
    _state.waits = True
    try:
        check()
        yield
    finally:
        _state.waits = False


@contextmanager
def heeded() -> Iterator[None]:
    """Around the reading of sources: the first Ctrl-C stops it between two blocks, the second ends the run.

    Where signals are another's, in a thread, nothing changes.
    """
    _state.asked = False
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def heed(stop: Callable[[], bool]) -> None:
    """In a process that reads for another: that one says when to stop, and Ctrl-C is for it alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _state.heeds = stop


def _stop(number: int, frame: object) -> None:
    if _state.asked:
        raise KeyboardInterrupt
    _state.asked = True
    if _state.waits:
        raise Stopped
