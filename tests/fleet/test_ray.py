"""What a cluster reads is what one machine reads, byte for byte, whatever happens to its workers."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import time
from threading import Event, Thread
from typing import TYPE_CHECKING

import psutil
import pytest

from benchmarks.logs import KINDS, write
from tests.advisor.helpers import phasewise
from tests.required import skip

from .cluster import on_ray, running
from .logs import BROKEN
from .store import BUCKET

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.advisor.helpers import Ran

    from .store import Store

pytestmark = pytest.mark.fleet
SMALL = 20_000
JSON = ("--format", "json", "--no-redact")


@pytest.fixture(scope="module")
def cluster(store: Store) -> Iterator[str]:
    """The address of a cluster whose workers may read the store."""
    if importlib.util.find_spec("ray") is None:
        skip("no Ray: pip install 'phasewise[fleet]'")
    with running(**store.environment) as address:
        yield address


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log whose stretches take a second each."""
    path = tmp_path_factory.mktemp("big") / "big.log"
    write(path, 40_000_000, KINDS["dense"])
    return path


def same(here: Ran, there: Ran) -> None:
    """Both ended, printed and told the same."""
    assert (there.status, there.err) == (here.status, here.err)
    assert there.raw == here.raw


def test_analysis_is_the_same(cluster: str, logs: Path) -> None:
    here = phasewise("analyze", logs, *JSON)
    assert f"{BROKEN}: the compressed file is broken or cut off." in here.err
    same(here, on_ray(cluster, SMALL, "analyze", logs, *JSON))


def test_rows_are_the_same(cluster: str, logs: Path) -> None:
    same(phasewise("export", logs), on_ray(cluster, SMALL, "export", logs))


class Killer(Thread):
    """Kills workers in the middle of a stretch."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.killed: list[int] = []
        self.over = Event()
        self._times = times

    def run(self) -> None:
        while len(self.killed) < self._times and not self.over.wait(0.02):
            for process in psutil.process_iter():
                try:
                    reads = process.cmdline()[:1] == ["ray::read_stretch"]
                except psutil.Error:
                    continue
                if reads and process.pid not in self.killed:
                    time.sleep(0.3)
                    os.kill(process.pid, signal.SIGKILL)
                    self.killed.append(process.pid)
                    break


@pytest.mark.skipif(sys.platform == "win32", reason="it has no SIGKILL")
def test_killed_workers_change_nothing(cluster: str, logs: Path, big: Path) -> None:
    here = phasewise("analyze", big, logs, *JSON)
    killer = Killer(2)
    killer.start()
    there = on_ray(cluster, 15_000_000, "analyze", big, logs, *JSON)
    killer.over.set()
    killer.join()
    assert len(killer.killed) == 2
    same(here, there)


def test_a_store_is_read_by_the_workers(cluster: str, store: Store) -> None:
    folder = f"s3://{BUCKET}/logs/"
    here = phasewise("analyze", folder, *JSON, env=store.environment)
    same(here, on_ray(cluster, SMALL, "analyze", folder, *JSON, env=store.environment))


def test_relative_paths_are_found(cluster: str, logs: Path) -> None:
    given = ("analyze", "host-0[0-3].log*", *JSON)
    same(phasewise(*given, cwd=logs), on_ray(cluster, SMALL, *given, cwd=logs))


def test_no_cluster_is_one_sentence(logs: Path) -> None:
    ran = on_ray("127.0.0.1:1", SMALL, "analyze", logs)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == "phasewise: no Ray cluster answers at 127.0.0.1:1.\n"
