"""Ctrl-C while logs are read: what was read is told. And who watches sees how it goes on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.advisor.helpers import Asked, environment, phasewise, prefixed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to a child there")

LOG = prefixed([Asked(900, 700, 100, 2500)] * 2000).encode()  # more than a pipe holds
COMMAND = (sys.executable, "-m", "advisor")
SLOWLY = (
    sys.executable,
    "-c",
    """
import os, sys, time
from pathlib import Path
from advisor import reading
from advisor.__main__ import main

if __name__ == "__main__":
    add = reading._add
    def slowly(*given):
        Path(os.environ["READY"]).touch()
        time.sleep(float(os.environ.get("NAP", "0.5")))
        return add(*given)
    reading._add = slowly
    main()
""",
)
Child = subprocess.Popen[bytes]


@contextmanager
def started(*arguments: str | Path, command: Sequence[str | Path] = COMMAND, **more: Any) -> Iterator[Child]:
    pipe = subprocess.PIPE
    how = {"stderr": pipe, "env": environment(), **more}
    with subprocess.Popen([*command, *arguments], stdin=pipe, stdout=pipe, **how) as child:
        try:
            yield child
        finally:
            child.kill()


def read_by(child: Child) -> None:
    """Write a log that the child has to read, all but its end, for this to return."""
    assert child.stdin is not None
    child.stdin.write(LOG)
    child.stdin.flush()
    time.sleep(0.5)


def ended(child: Child) -> tuple[int, str, str]:
    out, err = child.communicate(timeout=60)
    return child.returncode, out.decode(), err.decode()


def test_what_came_through_a_pipe_is_told() -> None:
    with started("-", "--format", "json") as child:
        read_by(child)
        child.send_signal(signal.SIGINT)
        status, out, err = ended(child)
    said = r"phasewise: interrupted after (\d+ kB|[\d.]+ MB); what follows is of what was read\.\n"
    assert status == 130
    assert re.fullmatch(said, err)
    page = json.loads(out)
    assert 1000 < page["sources"][0]["requests"] <= 2000
    assert page["caveats"][0]["id"] == "interrupted"


@pytest.mark.parametrize("arguments", [["export"], ["report"], ["check", "--max-failed", "0"]])
def test_each_verb_ends_with_what_was_read(arguments: list[str]) -> None:
    with started(*arguments, "-") as child:
        read_by(child)
        child.send_signal(signal.SIGINT)
        status, out, err = ended(child)
    assert (status, err.count("\n")) == (130, 1)
    assert out


def test_half_a_side_is_not_compared(tmp_path: Path) -> None:
    (tmp_path / "after.log").write_bytes(LOG)
    with started("compare", "-", tmp_path / "after.log") as child:
        read_by(child)
        child.send_signal(signal.SIGINT)
        assert ended(child) == (130, "", "phasewise: interrupted.\n")


def test_nobody_writes_into_a_fifo(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.log")
    (tmp_path / "y.log").write_bytes(LOG)
    ready = tmp_path / "ready"
    named: list[str | Path] = [tmp_path / "y.log", tmp_path / "x.log", "--format", "json"]
    with started(*named, command=SLOWLY, env=environment(READY=str(ready))) as child:
        while not ready.exists():
            time.sleep(0.05)
        time.sleep(1)
        child.send_signal(signal.SIGINT)
        status, out, err = ended(child)
    assert (status, err.count("\n")) == (130, 1)
    assert [source["requests"] for source in json.loads(out)["sources"]] == [2000]
    assert phasewise(tmp_path, "--format", "json").status == 0  # a folder's FIFOs are no logs


@pytest.mark.parametrize("verb", ["export", "report"])
def test_a_file_is_not_replaced_by_half(verb: str, tmp_path: Path) -> None:
    old = tmp_path / "old.csv"
    old.write_text("old")
    kind = "csv" if verb == "export" else "md"
    with started(verb, "-", "-o", old, "--format", kind) as child:
        read_by(child)
        child.send_signal(signal.SIGINT)
        status, out, err = ended(child)
    assert (status, out, old.read_text()) == (130, "", "old")
    said = rf"phasewise: interrupted after .*B; nothing is written to {re.escape(str(old))}\.\n"
    assert re.fullmatch(said, err)
    assert [path.name for path in tmp_path.iterdir()] == ["old.csv"]


def test_the_second_ends_the_run(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_bytes(LOG)
    ready = tmp_path / "ready"
    with started(tmp_path, command=SLOWLY, env=environment(READY=str(ready), NAP="30")) as child:
        while not ready.exists():
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        time.sleep(0.5)  # the first is heeded before the next comes; two that wait are one
        child.send_signal(signal.SIGINT)
        assert ended(child) == (130, "", "phasewise: interrupted.\n")


def test_several_processes_stop_too(tmp_path: Path) -> None:
    """Ctrl-C goes to all of a terminal's processes; each tells what it has read."""
    ready = tmp_path / "ready"
    for name in ("a.log", "b.log", "c.log"):
        (tmp_path / name).write_bytes(LOG * 20)
    env = environment(READY=str(ready))
    with started(
        tmp_path, "--jobs", "2", "--format", "json", command=SLOWLY, start_new_session=True, env=env
    ) as child:
        while not ready.exists():
            time.sleep(0.05)
        os.killpg(child.pid, signal.SIGINT)
        status, out, err = ended(child)
    assert (status, err.count("\n")) == (130, 1), err
    assert re.search(r"after [\d.]+ MB of \d\d MB; what follows", err)
    assert 0 < json.loads(out)["summary"]["requests"] < 120_000


# --- a bar


def watched(terminal: str, *arguments: str | Path, **more: str) -> str:
    """What a terminal shows of a run that reads from a slow pipe."""
    ours, theirs = os.openpty()
    with started(*arguments, stderr=theirs, env=environment(TERM=terminal, **more)) as child:
        assert child.stdin is not None
        for _ in range(3):
            child.stdin.write(LOG)
            child.stdin.flush()
            time.sleep(1.1)
        child.communicate(timeout=60)
    os.close(theirs)
    shown = b""
    try:
        while more_shown := os.read(ours, 1 << 16):
            shown += more_shown
    except OSError:  # how Linux says that nobody writes any more
        pass
    os.close(ours)
    return shown.decode()


def test_a_bar_on_a_terminal() -> None:
    shown = watched("xterm-256color", "export", "-")
    assert re.search(r"reading.*B/s", shown)
    assert "\x1b[2K" in shown  # it is wiped away
    assert watched("dumb", "export", "-") == ""
    assert not re.search(r"\x1b\[[\d;]*m", watched("xterm", "export", "-", NO_COLOR="1"))
