"""Several sources at once, each read by one of several processes on this machine.

They send what they find as they find it, and it is given on in the order of the sources. One that is ahead is
listened to only as long as little waits. Nothing is shared under a lock: one may be killed at any moment.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections import Counter, deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from advisor import interrupt
from advisor.crews import packing
from advisor.errors import InputError
from advisor.parts import Ending, Part, parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from types import TracebackType
    from typing import Self

    from advisor.parts import Task
    from parsers.formats import Format

_MOST_WAITING = 256 << 20
"""Bytes of rows that may wait for those of an earlier source."""
_LOOK_S = 0.2


class Processes:
    """Reads with processes of its own.

    Args:
        jobs: how many.
        formats: what the tasks look for.
        took: told of bytes as they are taken from the sources, packed as they lie there.

    Raises:
        PackingError: the formats can't be sent there.
    """

    def __init__(
        self, jobs: int, formats: Sequence[Format], took: Callable[[int], None] | None = None
    ) -> None:
        self._jobs = jobs
        self._formats = packing.packed(formats)
        self._took = took or (lambda size: None)

    def parts(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Part]]:
        """Read them; a source whose process died is read again in this one."""
        with _Lanes(min(self._jobs, len(tasks)), self._formats, tasks, self._took) as lanes:
            for at, task in enumerate(tasks):
                given: Counter[str] = Counter()
                ended = False
                for part in lanes.found(at):
                    ended = part.ending is not None
                    for table, frame in part.frames:
                        given[table] += frame.height
                    yield at, part
                if lanes.lost(at) and not ended:
                    for part in parts(task, took=self._took):
                        yield at, _without(part, given)


def _without(part: Part, given: Counter[str]) -> Part:
    """What of a part was not given before."""
    frames = []
    for table, frame in part.frames:
        told = min(given[table], frame.height)
        given[table] -= told
        if told < frame.height:
            frames.append((table, frame[told:]))
    return replace(part, frames=frames)


@dataclass(eq=False, slots=True)
class _Lane:
    """A process, the way to it, which task it is at, and how many bytes it took."""

    process: Any
    line: Connection
    taken: Any
    at: int | None = None


@dataclass(slots=True)
class _Found:
    """What came of a task and waits."""

    waiting: deque[Part | InputError | None] = field(default_factory=deque)
    """``None`` after the last."""
    is_begun: bool = False
    is_lost: bool = False


class _Lanes:
    """The processes, and what came from them. Use it as a context: they end with it."""

    def __init__(self, jobs: int, formats: bytes, tasks: Sequence[Task], took: Callable[[int], None]) -> None:
        self._tasks = tasks
        self._took = took
        self._taken = 0
        self._bytes = 0
        self._ahead = deque(range(len(tasks)))
        self._all = [_Found() for _ in tasks]
        context = get_context("spawn")
        self._stop: Any = context.RawValue("b", 0)
        with _out_of_earshot():
            self._started = [_start(context, formats, self._stop) for _ in range(jobs)]
        self._lanes = list(self._started)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lane in self._started:
            lane.line.close()
            lane.process.terminate()
        for lane in self._started:
            lane.process.join()

    def lost(self, at: int) -> bool:
        """Whether the process that read it died over it, or there is none to read it."""
        return self._all[at].is_lost

    def found(self, at: int) -> Iterator[Part]:
        """What is found of a task, as it comes."""
        mine = self._all[at]
        while True:
            self._set_to_work()
            if not mine.is_begun and interrupt.asked():
                yield Part(ending=Ending())
                return
            if not mine.is_begun and not self._lanes:
                self._ahead.remove(at)
                mine.is_lost = mine.is_begun = True
            while mine.waiting:
                part = mine.waiting.popleft()
                if part is None:
                    return
                if isinstance(part, InputError):
                    raise part
                self._bytes -= _size(part)
                yield part
            if mine.is_lost:
                return
            self._listen(at)

    def _set_to_work(self) -> None:
        if interrupt.asked():
            self._stop.value = 1
            return
        for lane in list(self._lanes):
            if lane.at is None and self._ahead:
                at = self._ahead.popleft()
                self._all[at].is_begun = True
                lane.at = at
                try:
                    lane.line.send(replace(self._tasks[at], formats=()))
                except OSError:
                    self._lose(lane)

    def _listen(self, at: int) -> None:
        heard = [
            lane
            for lane in self._lanes
            if lane.at is not None and (lane.at == at or self._bytes < _MOST_WAITING)
        ]
        ready = wait([lane.line for lane in heard], _LOOK_S)
        for lane in heard:
            if lane.line in ready:
                self._hear(lane)
        taken = sum(lane.taken.value for lane in self._started)
        self._took(taken - self._taken)
        self._taken = taken

    def _hear(self, lane: _Lane) -> None:
        assert lane.at is not None
        try:
            said = lane.line.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
            self._lose(lane)
            return
        self._all[lane.at].waiting.append(said)
        if isinstance(said, Part):
            self._bytes += _size(said)
        else:
            lane.at = None

    def _lose(self, lane: _Lane) -> None:
        assert lane.at is not None
        self._all[lane.at].is_lost = True
        self._lanes.remove(lane)


def _size(part: Part) -> int:
    return sum(int(frame.estimated_size()) for _, frame in part.frames)


# --- the other side


def _start(context: Any, formats: bytes, stop: Any) -> _Lane:
    ours, theirs = context.Pipe()
    taken = context.RawValue("Q", 0)
    process = context.Process(target=_work, args=(theirs, formats, stop, taken), daemon=True)
    process.start()
    theirs.close()
    return _Lane(process, ours, taken)


def _work(line: Connection, packed: bytes, stop: Any, taken: Any) -> None:
    """Read one task after the other, until nobody listens any more."""
    interrupt.heed(lambda: bool(stop.value))
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    formats = packing.unpacked(packed)

    def took(size: int) -> None:
        taken.value += size

    with suppress(EOFError, OSError, MemoryError):
        while True:
            task = replace(line.recv(), formats=formats)
            try:
                for part in parts(task, took=took):
                    line.send(part)
                line.send(None)
            except InputError as error:
                line.send(error)


@contextmanager
def _out_of_earshot() -> Iterator[None]:
    """Processes started in here don't hear Ctrl-C, not even while they start; Windows has no such thing."""
    if sys.platform == "win32":
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # which else would do it at the first start, and let signals through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
