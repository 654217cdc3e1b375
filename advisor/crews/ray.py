"""Sources read on a Ray cluster: ``--on ray``.

A task of the cluster is a stretch of a plain file, or a whole compressed one. The stretches of a file follow
one another, each from where the one before it stopped; different files are read at once. What they find comes
home in the order of the sources, and little of it waits here.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor import interrupt
from advisor.crews.cluster import connected
from advisor.crews.here import Here
from advisor.crews.packing import packed
from advisor.crews.ray_worker import Stretch, left_off, read_stretch, seen
from advisor.errors import InputError
from advisor.redact import printable
from advisor.sources.files import STDIN
from advisor.sources.stores import is_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from advisor.crews.ray_worker import Look
    from advisor.parts import Part, Task
    from parsers.formats import Format

STRETCH = 256 << 20
"""Bytes of a plain file that one task reads."""

_RETRIES = 3
_AHEAD = 2
"""Tasks for each processor that run or wait for one; as many may have their rows waiting."""
_LOOK_S = 0.5


class OnRay:
    """Reads with the workers of a Ray cluster.

    Args:
        formats: what the tasks look for.
        took: told of bytes as they are taken from the sources, packed as they lie there.

    Raises:
        PackingError: the formats can't be sent there.
    """

    def __init__(self, formats: Sequence[Format], took: Callable[[int], None] | None = None) -> None:
        self._formats = packed(formats)
        self._took = took or (lambda size: None)

    def parts(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Part]]:
        """Read them; standard input and what is no regular file are read here.

        Raises:
            InputError: there is no cluster, its workers lack something, or a user's pattern takes too long.
        """
        chains = [_Chain(at, task, _is_sendable(task)) for at, task in enumerate(tasks)]
        yield from _Board(connected(), chains, self).parts()

    def reader(self, ray: Any) -> Callable[[Task], tuple[Any, Any]]:
        """What gives a stretch to the cluster, and promises its parts and how it went on."""
        remote = ray.remote(num_cpus=1, num_returns=2, max_retries=_RETRIES)(read_stretch)
        formats = ray.put(self._formats)
        folder = str(Path.cwd())
        looks: dict[str, Look | None] = {}

        def begin(task: Task) -> tuple[Any, Any]:
            name = task.source.name
            if name not in looks:
                looks[name] = None if is_store(name) else seen(name)
            stretch = Stretch(replace(task, formats=(), size=STRETCH), folder, looks[name])
            parts, after = remote.remote(stretch, formats)
            return parts, after

        return begin

    @property
    def took(self) -> Callable[[int], None]:
        """Who is told of bytes."""
        return self._took


@dataclass(eq=False, slots=True)
class _Chain:
    """A source: where it goes on, and what waits of it.

    Attributes:
        at: the number of its task.
        task: the stretch that is next, or runs.
        is_sent: whether the cluster reads it.
        waiting: stretches that were read, in their order: each one's task, and its parts or their promise.
        running: what is promised of how the running stretch went on.
        promised: the parts of it.
        is_read: whether nothing more comes.
    """

    at: int
    task: Task
    is_sent: bool
    waiting: deque[tuple[Task, Any]] = field(default_factory=deque)
    running: Any = None
    promised: Any = None
    is_read: bool = False


class _Board:
    """Which stretches run, and which wait."""

    def __init__(self, ray: Any, chains: list[_Chain], crew: OnRay) -> None:
        self._ray = ray
        self._chains = deque(chains)
        self._begin = crew.reader(ray)
        self._took = crew.took
        self._most = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))

    def parts(self) -> Iterator[tuple[int, Part]]:
        """All, in their order."""
        while self._chains:
            head = self._chains[0]
            if interrupt.asked():
                yield from self._stopped()
                return
            if not head.is_sent:
                yield from ((head.at, part) for _, part in Here(took=self._took).parts([head.task]))
                self._chains.popleft()
                continue
            self._set_to_work()
            while head.waiting:
                yield from self._got(head)
            if head.is_read:
                self._chains.popleft()
            elif head.running is not None:
                self._listen()

    def _near(self) -> list[_Chain]:
        """The first source, and those after it that may run or wait."""
        return list(islice(self._chains, 2 * self._most + 1))

    def _set_to_work(self) -> None:
        """Begin what may begin: the first source always, others as long as little waits."""
        near = self._near()
        running = sum(chain.running is not None for chain in near)
        waiting = sum(len(chain.waiting) for chain in near)
        for chain in near:
            may = chain is near[0] or (running < self._most and running + waiting < 2 * self._most)
            if may and chain.is_sent and chain.running is None and not chain.is_read:
                chain.promised, chain.running = self._begin(chain.task)
                running += 1

    def _listen(self) -> None:
        running = {chain.running: chain for chain in self._near() if chain.running is not None}
        done, _ = self._ray.wait(list(running), num_returns=1, timeout=_LOOK_S)
        for one in done:
            chain = running[one]
            chain.running = None
            try:
                taken, after = self._ray.get(one)
            except self._ray.exceptions.RayError as error:
                chain.is_read = True
                chain.waiting.append((chain.task, [_given_up(chain.task, error)]))
                continue
            self._took(taken)
            chain.waiting.append((chain.task, chain.promised))
            chain.is_read = after is None
            if after is not None:
                source = replace(chain.task.source, version=after.version)
                chain.task = replace(
                    chain.task,
                    source=source,
                    begin=after.begin,
                    state=after.state,
                    checksum=after.checksum,
                    check=False,
                )
        if not done:
            self._took(0)

    def _got(self, chain: _Chain) -> Iterator[tuple[int, Part]]:
        """What comes next of what waits."""
        task, promised = chain.waiting.popleft()
        try:
            found = promised if isinstance(promised, list) else self._ray.get(promised)
        except self._ray.exceptions.RayError as error:
            chain.waiting.clear()
            chain.running, chain.is_read = None, True
            found = [left_off(task, _died(task, error))]
        yield from ((chain.at, part) for part in found)

    def _stopped(self) -> Iterator[tuple[int, Part]]:
        """What came home when no more is to be read, and of each source that this is its end."""
        for chain in self._near():
            if chain.running is not None:
                self._ray.cancel(chain.running, force=False)
        for chain in self._chains:
            while chain.waiting:
                yield from self._got(chain)
            if not chain.is_read:
                yield chain.at, left_off(chain.task)


def _is_sendable(task: Task) -> bool:
    name = task.source.name
    return is_store(name) or (name != STDIN and Path(name).is_file())


def _given_up(task: Task, error: Any) -> Part:
    """The end of a source whose stretch could not be read.

    Raises:
        InputError: no other can be read either, or a user's pattern takes too long.
    """
    cause = getattr(error, "cause", None)
    if isinstance(cause, InputError):
        raise cause
    if isinstance(cause, ImportError):
        raise InputError(
            f"Ray's workers lack {cause.name}; install phasewise there, or what it needs."
        ) from None
    if type(error).__name__ == "RuntimeEnvSetupError":
        raise InputError("Ray's workers can't be given phasewise's code; install it there.") from None
    return left_off(task, _died(task, error) if cause is None else _failed(task, cause))


def _died(task: Task, error: Any) -> InputError:
    name, why = printable(task.source.name), type(error).__name__
    return InputError(f"{name}: the Ray workers that read it died, {_RETRIES + 1} times ({why}).")


def _failed(task: Task, cause: BaseException) -> InputError:
    name, why = printable(task.source.name), type(cause).__name__
    return InputError(f"{name}: the Ray worker that read it failed ({why}).")
