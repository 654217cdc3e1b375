"""How a run ends when the outside world goes away: Ctrl-C, closed pipes and streams, a full disk."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

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
