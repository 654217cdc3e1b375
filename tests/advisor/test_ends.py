"""How a run ends when the outside world goes away: Ctrl-C, closed pipes and streams, a full disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest

from advisor.errors import InputError
from advisor.output import write_text
from tests.advisor.helpers import SAMPLES, environment

LOG = SAMPLES / "llama-server-four-slots.log"


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to a child there")
def test_ctrl_c() -> None:
    """Before anything came; what is told of what came: `test_interrupt.py`."""
    child = subprocess.Popen(
        [sys.executable, "-m", "advisor", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    time.sleep(2)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=10)
    assert child.returncode in (130, -signal.SIGINT)  # the latter while it still starts
    assert (out, err) == (b"", b"phasewise: interrupted.\n")


@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM ends a child at once there")
def test_terminated(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "advisor", "anonymize", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**environment(), "TMPDIR": str(tmp_path)},
    )
    assert child.stdin is not None
    child.stdin.write(LOG.read_bytes())
    child.stdin.flush()
    deadline = time.monotonic() + 20
    while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(tmp_path.iterdir())
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate(timeout=10)
    assert (child.returncode, out, err) == (143, b"", b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="no such shell there")
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_the_reader_of_a_pipe_stops_early(kind: str, tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    log.write_bytes(LOG.read_bytes() * 400)
    ran = subprocess.run(
        [
            "sh",
            "-c",
            f'{{ "$0" -m advisor export --format {kind} "$1"; echo "status $?" >&2; }} | head -n 1',
            sys.executable,
            str(log),
        ],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert (ran.stdout.count("\n"), ran.stderr) == (1, "status 0\n")


@pytest.mark.skipif(sys.platform == "win32", reason="pipes close differently there")
@pytest.mark.parametrize(
    "arguments",
    [
        ["schema"],
        ["formats"],
        [LOG],
        [LOG, "--format", "json"],
        ["export", LOG],
        ["export", LOG, "--format", "csv"],
        ["anonymize", LOG],
        ["--help"],
    ],
)
def test_a_closed_pipe(arguments: list[str | Path]) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "advisor", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    err = child.stderr.read()
    child.stderr.close()
    assert (child.wait(10), err) == (0, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="no such shell there")
@pytest.mark.parametrize(
    ("closed", "arguments", "status", "said"),
    [
        ("<&-", "-", 2, "phasewise: standard input is closed; pipe a log into it.\n"),
        (">&-", str(LOG), 0, ""),
        ("2>&-", "missing.log", 2, ""),
    ],
)
def test_a_closed_stream(closed: str, arguments: str, status: int, said: str) -> None:
    ran = subprocess.run(
        ["sh", "-c", f'exec "$0" -m advisor "$1" {closed}', sys.executable, arguments],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (status, "", said)


# --- no arguments


def _alone(given: int | IO[bytes], log: bytes | None = None) -> str:
    """What the command prints without arguments, with this as its standard input."""
    command = [sys.executable, "-m", "advisor"]
    with subprocess.Popen(command, stdin=given, stdout=subprocess.PIPE, env=environment()) as child:
        if child.stdin is not None and log is not None:
            time.sleep(0.3)  # the program before a pipe may start later
            child.stdin.write(log)
            child.stdin.close()
        assert child.stdout is not None
        said = child.stdout.read().decode()
    assert child.returncode == 0
    return said


@pytest.mark.skipif(sys.platform == "win32", reason="pipes can't be asked there")
def test_a_log_is_piped_into_the_bare_command() -> None:
    assert _alone(subprocess.PIPE, LOG.read_bytes()).startswith("standard input: llama-server")


def test_a_log_is_the_bare_command_s_standard_input() -> None:
    with LOG.open("rb") as log:
        assert _alone(log).startswith("standard input: llama-server")


def test_the_bare_command_waits_for_nobody(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with (tmp_path / "empty").open("rb") as empty:
        pages = [_alone(subprocess.DEVNULL), _alone(empty), _alone(subprocess.PIPE, b"")]
    pages.append(_alone(subprocess.PIPE))  # open, and silent
    assert len(set(pages)) == 1
    for verb in ("report", "compare", "check", "anonymize", "export"):
        assert f"phasewise {verb} " in pages[0]


@pytest.mark.skipif(sys.platform == "win32", reason="no such terminals there")
def test_the_bare_command_on_a_terminal() -> None:
    ours, theirs = os.openpty()
    try:
        assert _alone(theirs).startswith("phasewise LOG ")
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
@pytest.mark.parametrize("arguments", [[LOG], ["export", LOG], ["export", LOG, "--format", "parquet"]])
def test_a_full_disk(arguments: list[str | Path]) -> None:
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "advisor", *map(str, arguments)],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
        )
    said = b"phasewise: standard output can't be written (No space left on device).\n"
    assert (ran.returncode, ran.stderr) == (2, said)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["missing.log"], 2), (["analyze", "--bogus"], 2), (["export", LOG, "--no-redact"], 0)],
)
def test_nobody_hears_what_is_said(arguments: list[str | Path], status: int) -> None:
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "advisor", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=full,
            env=environment(),
            check=False,
        )
    assert (ran.returncode, bool(ran.stdout)) == (status, status == 0)


_IN_700_BYTES = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_FSIZE, (700, resource.RLIM_INFINITY))
runpy.run_module("advisor", run_name="__main__", alter_sys=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit there")
@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        (["export", LOG, "-o", "old/x.csv"], "old/x.csv"),
        (["export", LOG, "-o", "old/x.parquet"], "old/x.parquet"),
        (["report", LOG, "-o", "old/x.html"], "old/x.html"),
        (["report", LOG, "--charts", "old"], "old/phases.svg"),
        (["anonymize", LOG, "-o", "old/x.log"], "old/x.log"),
        ([LOG, "--svg", "old/x.svg"], "old/x.svg"),
    ],
)
def test_a_disk_that_is_full_midway_keeps_the_old_file(
    tmp_path: Path, arguments: list[str | Path], written: str
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / written).write_text("old")
    ran = subprocess.run(
        [sys.executable, "-B", "-c", _IN_700_BYTES, *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(TMPDIR=str(tmp_path)),
        cwd=tmp_path,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert "can't be written (File too large" in ran.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / written]
    assert (tmp_path / written).read_text() == "old"


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_nothing_is_written_through_a_link_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.urandom", bytes)
    write_text("new", tmp_path / "x.md")
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / f".phasewise-{bytes(6).hex()}.part").symlink_to(tmp_path / "theirs")
    with pytest.raises(InputError, match="can't be written"):
        write_text("newer", tmp_path / "x.md")
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert (tmp_path / "x.md").read_text() == "new"
