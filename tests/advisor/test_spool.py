"""What `export` writes batch by batch is what all rows in memory would give; no half of a file is left."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from advisor.analysis import Options, measure
from advisor.errors import InputError
from advisor.export import write_frames
from advisor.filters import Filters
from advisor.reading import read
from advisor.rotated import continued
from advisor.spool import Spool
from parsers.records import TABLES, columns
from parsers.tables import Batches
from tests.advisor.helpers import ROOT, SAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from advisor.export import Kind

TURNS = ROOT / "tests" / "logs" / "llama-server-b11434" / "c2_multiturn_timestamp_first" / "server.log"
KINDS: tuple[Kind, ...] = ("jsonl", "csv", "parquet")


@pytest.fixture
def logs(tmp_path: Path) -> list[str]:
    """A log in two files, an Ollama's and a vLLM's."""
    lines = TURNS.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if n > len(lines) // 2 and b"selected slot by" in line)
    for name, part in (("1.log", lines[:at]), ("2.log", lines[at:])):
        (tmp_path / name).write_bytes(b"".join(part))
    return [
        *(str(tmp_path / name) for name in ("1.log", "2.log")),
        *(str(SAMPLES / name) for name in ("ollama-reload.log", "vllm.log", "llama-server-rag.log")),
    ]


def written(frames: list[pl.DataFrame], kind: Kind, folder: Path) -> bytes:
    path = folder / f"rows.{kind}"
    write_frames(frames, path, kind)
    assert not [*folder.glob(".*")]
    return path.read_bytes()


@pytest.mark.parametrize(
    "filters",
    [Filters(), Filters(slot=0), Filters(since=datetime(2026, 1, 1, tzinfo=UTC)), Filters(model="x")],
)
@pytest.mark.parametrize("rows", [1, 3, 8192])
@pytest.mark.parametrize("redact", [True, False])
def test_batches_give_what_all_rows_give(
    logs: list[str],
    filters: Filters,
    rows: int,
    redact: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading = read(logs)
    all_rows = measure(reading, Options(filters, redact=redact))
    monkeypatch.setattr(Batches, "ROWS", rows)
    for table, row_type in TABLES.items():
        with Spool(table, Options(filters, redact=redact)) as spool:
            setups = read(logs, take=spool.add).setups
            frames = list(spool.frames(setups))
        expected = getattr(all_rows, table).select(columns(row_type))
        assert pl.concat(frames).equals(expected)
        assert spool.sizes == {name: getattr(all_rows, name).height for name in TABLES}
        assert filters.clockless(spool) == filters.clockless(reading.tables)
        if table == "requests" and rows == 3:
            for kind in KINDS[:2]:
                assert written(frames, kind, tmp_path) == written([expected], kind, tmp_path)
            assert pl.read_parquet(io.BytesIO(written(frames, "parquet", tmp_path))).equals(expected)


def test_the_log_in_two_files_is_one_process(logs: list[str]) -> None:
    reading = read(logs)
    assert continued(reading.tables.requests, reading.setups) == {1: 0}


def test_a_time_filter_without_any_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Batches, "ROWS", 2)
    filters = Filters(since=datetime(2026, 1, 1, tzinfo=UTC))
    with Spool("requests", Options(filters)) as spool:
        setups = read([str(SAMPLES / "llama-server-rag.log")], take=spool.add).setups
        with pytest.raises(InputError, match="wall clock"):
            list(spool.frames(setups))


class _BreaksError(Exception):
    pass


def _breaking() -> Iterator[pl.DataFrame]:
    yield pl.DataFrame({"a": [1]})
    raise _BreaksError


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_breaks_off_leaves_the_older_one(tmp_path: Path, kind: Kind) -> None:
    path = tmp_path / f"rows.{kind}"
    path.write_text("older")
    path.chmod(0o640)
    with pytest.raises(_BreaksError):
        write_frames(_breaking(), path, kind)
    assert path.read_text() == "older"
    write_frames([pl.DataFrame({"a": [1]})], path, kind)
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to(tmp_path / "rows.csv")
    write_frames([pl.DataFrame({"a": [1]})], tmp_path / "link.csv", "csv")
    assert (tmp_path / "rows.csv").read_text() == "a\n1\n"
    assert (tmp_path / "link.csv").is_symlink()


def test_what_is_no_file_is_written_to() -> None:
    write_frames([pl.DataFrame({"a": [1]})], Path("/dev/null"), "csv")
    with pytest.raises(InputError, match="can't be written"):
        write_frames([pl.DataFrame({"a": [1]})], Path("/no/such/folder/rows.csv"), "csv")


INTERRUPTED = """
import sys, time
from advisor.analysis import Options
from advisor.reading import read
from advisor.rotated import continued
from advisor.spool import Spool
from parsers.tables import Batches
Batches.ROWS = 2
with Spool("requests", Options()) as spool:
    read(sys.argv[1:], take=spool.add)
    print("spooled", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to another process")
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(TURNS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
    )
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == b"spooled\n"
    assert len(list(tmp_path.glob("phasewise-*/*.arrow"))) > 1
    process.send_signal(signal.SIGINT)
    assert process.wait(20) != 0
    assert list(tmp_path.iterdir()) == []
