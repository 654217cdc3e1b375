"""What the command makes of what a cluster answers; the answers are made here, by real stretches."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from advisor import interrupt
from advisor.crews import ray as on_ray
from advisor.crews.ray import OnRay
from advisor.parts import Ending, Task
from advisor.sources.files import Input
from benchmarks.logs import KINDS, write
from parsers import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from advisor.crews.ray_worker import Stretch


class BrokenError(Exception):
    """An error of Ray's, with what the task itself raised."""

    def __init__(self, cause: BaseException) -> None:
        self.cause = cause


class Cluster:
    """Answers as Ray does.

    Attributes:
        slow: names whose stretches don't end.
        before: called with each stretch before it is read.
        waited: called whenever nothing has ended.
    """

    exceptions = SimpleNamespace(RayError=BrokenError)

    def __init__(self) -> None:
        self.slow: set[str] = set()
        self.before: Callable[[Stretch], None] = lambda stretch: None
        self.waited: Callable[[], None] = lambda: None

    def remote(self, **how: Any) -> Callable[[Any], Any]:
        return lambda read: SimpleNamespace(remote=lambda *given: self._run(read, *given))

    def _run(self, read: Any, stretch: Stretch, formats: bytes) -> tuple[Future[Any], Future[Any]]:
        parts: Future[Any] = Future()
        after: Future[Any] = Future()
        if stretch.task.source.name not in self.slow:
            try:
                self.before(stretch)
                found = read(stretch, formats)
            except MemoryError as error:
                parts.set_exception(BrokenError(error))
                after.set_exception(BrokenError(error))
            else:
                parts.set_result(found[0])
                after.set_result(found[1])
        return parts, after

    def wait(self, ones: list[Future[Any]], num_returns: int, timeout: float) -> Any:
        done = [one for one in ones if one.done()][:num_returns]
        if not done:
            self.waited()
        return done, []

    @staticmethod
    def get(one: Future[Any]) -> Any:
        return one.result(0)

    put = staticmethod(lambda one: one)
    cancel = staticmethod(lambda one, force: None)
    cluster_resources = staticmethod(lambda: {"CPU": 4})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    made = Cluster()
    monkeypatch.setattr(on_ray, "connected", lambda: made)
    monkeypatch.setattr(on_ray, "STRETCH", 1 << 20)
    with interrupt.heeded():
        yield made
    interrupt._state.asked = False


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A log of four stretches."""
    path = tmp_path_factory.mktemp("text") / "a.log"
    write(path, 4_000_000, KINDS["dense"])
    return path.read_bytes()


def read(*names: Path) -> tuple[list[int], list[Ending]]:
    """How many requests there are of each source, and how each ended."""
    rows, endings = [0] * len(names), [Ending() for _ in names]
    for at, part in OnRay(FORMATS).parts([Task(Input(str(name))) for name in names]):
        rows[at] += sum(frame.height for table, frame in part.frames if table == "requests")
        endings[at] = part.ending or endings[at]
    return rows, endings


def test_an_interruption_keeps_what_is_home(cluster: Cluster, tmp_path: Path, text: bytes) -> None:
    logs = [tmp_path / f"{name}.log" for name in "abc"]
    for log in logs:
        log.write_bytes(text)
    cluster.slow = {str(logs[0])}
    waits = iter((False, True))

    def waited() -> None:
        interrupt._state.asked = next(waits)

    cluster.waited = waited
    rows, endings = read(*logs)
    assert rows[0] == 0
    assert min(rows[1:]) > 0
    assert (endings[0].found, endings[0].problem) == (None, None)
    assert [ending.found.requests for ending in endings[1:] if ending.found] == rows[1:]


def test_a_worker_that_fails_costs_one_log(cluster: Cluster, tmp_path: Path, text: bytes) -> None:
    logs = [tmp_path / f"{name}.log" for name in "abc"]
    for log in logs:
        log.write_bytes(text)

    def before(stretch: Stretch) -> None:
        if stretch.task.source.name == str(logs[1]) and stretch.task.begin:
            raise MemoryError

    cluster.before = before
    rows, endings = read(*logs)
    assert str(endings[1].problem) == f"{logs[1]}: the Ray worker that read it failed (MemoryError)."
    assert rows[0] == rows[2] > rows[1] > 0
    assert [ending.found.requests for ending in endings if ending.found] == rows


def test_a_file_that_is_replaced_is_named(cluster: Cluster, tmp_path: Path, text: bytes) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(text)

    def before(stretch: Stretch) -> None:
        if stretch.task.begin:
            log.write_bytes(text[len(text) // 2 :] + text)

    cluster.before = before
    rows, (ending,) = read(log)
    assert "it changed while it was read" in str(ending.problem)
    assert ending.found is not None
    assert ending.found.requests == rows[0] > 0
