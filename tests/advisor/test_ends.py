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

from tests.advisor.helpers import SAMPLES, environment

LOG = SAMPLES / "llama-server-four-slots.log"


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to a child there")
def test_ctrl_c() -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "advisor", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert child.stdin is not None
    child.stdin.write(LOG.read_bytes())
    child.stdin.flush()
    time.sleep(2)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=10)
    assert (child.returncode, out, err) == (130, b"", b"phasewise: interrupted.\n")


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
