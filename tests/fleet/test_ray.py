"""What a cluster reads is what one machine reads, byte for byte, whatever happens to its workers."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

import pytest

from advisor.cache import entries
from advisor.sources.checksum import checksum
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
    """A log of several stretches."""
    path = tmp_path_factory.mktemp("big") / "big.log"
    write(path, 4_000_000, KINDS["dense"])
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


@pytest.mark.skipif(sys.platform == "win32", reason="it has no SIGKILL")
def test_killed_workers_change_nothing(cluster: str, logs: Path, big: Path, tmp_path: Path) -> None:
    here = phasewise("analyze", big, logs, *JSON)
    there = on_ray(cluster, 1 << 20, "analyze", big, logs, *JSON, deaths=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "later"]
    same(here, there)


def test_what_is_kept_is_gone_on_with(cluster: str, big: Path, tmp_path: Path) -> None:
    """Its checksum is that of all stretches, of every run."""
    log, kept = tmp_path / "a.log", {"PHASEWISE_CACHE_DIR": str(tmp_path / "cache")}
    log.write_bytes(big.read_bytes())
    for more in (big.read_bytes()[:300_000], b"half a li"):
        with log.open("ab") as file:
            file.write(more)
        there = on_ray(cluster, 1 << 20, "analyze", log, *JSON, "--cache", env=kept)
        same(phasewise("analyze", log, *JSON), there)
        entry = entries.load(next((tmp_path / "cache" / "logs").iterdir()))
        assert entry is not None
        assert entry.file.checksum == checksum(log.read_bytes())


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
