"""Bytes that are fetched in ranges, a few of them ahead; Ctrl-C waits for none of them."""

from __future__ import annotations

import atexit
import io
from collections import deque
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from advisor.interrupt import check, waiting

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

RANGE = 4 << 20
"""Bytes of one request."""

_AHEAD = 3
_LOOK_S, _GRACE_S = 0.2, 0.3
_T = TypeVar("_T")
_running: set[Future[Any]] = set()


class Ranges(io.RawIOBase):
    """The bytes of something that is read in ranges.

    Args:
        size: how many there are.
        fetch: gives those from one byte up to another.
    """

    def __init__(self, size: int, fetch: Callable[[int, int], memoryview]) -> None:
        self._size, self._fetch = size, fetch
        self._coming: deque[Future[memoryview]] = deque()
        self._here = memoryview(b"")
        self._at = self._asked = 0

    def readable(self) -> bool:
        """It can be read."""
        return True

    def seekable(self) -> bool:
        """It can be read from any byte on."""
        return True

    def tell(self) -> int:
        """The byte that is next."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte; what is on its way is dropped."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._drop()
        self._at = self._asked = min(max(start + offset, 0), self._size)
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """What is here, or the next range.

        Raises:
            InputError: it could not be fetched.
            Stopped: Ctrl-C came.
        """
        while len(self._coming) < _AHEAD and self._asked < self._size:
            start, self._asked = self._asked, min(self._asked + RANGE, self._size)
            self._coming.append(_begun(partial(self._fetch, start, self._asked)))
        if not self._here and self._coming:
            self._here = _came(self._coming.popleft())
        count = min(len(buffer), len(self._here))
        buffer[:count], self._here = self._here[:count], self._here[count:]
        self._at += count
        return count

    def close(self) -> None:
        """Let go of it."""
        self._drop()
        super().close()

    def _drop(self) -> None:
        self._coming.clear()
        self._here = memoryview(b"")


def answer(ask: Callable[[], _T]) -> _T:
    """What a call gives that may wait for long, and that nothing else would end.

    Raises:
        Stopped: Ctrl-C came first.
    """
    return _came(_begun(ask))


def _begun(work: Callable[[], _T]) -> Future[_T]:
    """Work in a thread that ends with the process."""
    from concurrent.futures import Future

    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # it is raised where the result is asked for
            future.set_exception(error)

    _running.add(future)
    future.add_done_callback(_running.discard)
    Thread(target=run, name="phasewise-range", daemon=True).start()
    return future


def _came(future: Future[_T]) -> _T:
    """Its result, waited for in short turns: Windows can't interrupt a long one."""
    from concurrent.futures import wait

    with waiting():
        while not future.done():
            wait([future], _LOOK_S)
            check()
    return future.result()


@atexit.register
def _let_go() -> None:
    """What answers in a moment doesn't do so while the interpreter is taken down."""
    if _running:
        from concurrent.futures import wait

        wait(set(_running), _GRACE_S)
