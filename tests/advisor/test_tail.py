"""`phasewise tail --plain`: what is printed of a log that grows, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any

import pytest

from advisor.analysis import Options
from advisor.live import plain
from advisor.live.plain import Printer
from advisor.live.session import Session
from advisor.live.tails import TailedLog
from advisor.live.view import Judged, judged
from parsers import Stream
from tests.advisor.helpers import SAMPLES, environment, one_sentence, phasewise, refused
from tests.advisor.test_session import Pieces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

LOG = SAMPLES / "llama-server-four-slots.log"


class Tail:
    """A running `phasewise tail`, and the lines that it has printed."""

    def __init__(self, *arguments: str | Path) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "advisor", "tail", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        self._lines: Queue[bytes] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._child.stdout or ():
            self._lines.put(line)

    def line(self, wait_s: float = 20.0) -> str:
        """The next line."""
        return self._lines.get(timeout=wait_s).decode().rstrip("\r\n")

    def rows(self, number: int) -> list[dict[str, Any]]:
        """The next rows."""
        return [json.loads(self.line()) for _ in range(number)]

    def is_silent(self, for_s: float) -> bool:
        """Whether nothing is printed for a while."""
        try:
            self._lines.get(timeout=for_s)
        except Empty:
            return True
        return False

    def interrupt(self) -> tuple[int, str]:
        """Press Ctrl-C; the status, and what is on standard error."""
        self._child.send_signal(signal.SIGINT)
        assert self._child.stderr is not None
        return self._child.wait(20), self._child.stderr.read().decode()

    def kill(self) -> None:
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()


@contextmanager
def tailing(*arguments: str | Path) -> Iterator[Tail]:
    tail = Tail(*arguments)
    try:
        yield tail
    finally:
        tail.kill()


def exported(log: Path, table: str = "requests") -> list[dict[str, Any]]:
    rows = phasewise("export", log, "--table", table, "--format", "jsonl").out.splitlines()
    return [json.loads(row) for row in rows]


def test_lines_of_a_pipe(snapshot: SnapshotAssertion) -> None:
    ran = phasewise("tail", "-", "--plain", stdin=LOG.read_bytes())
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == snapshot


def test_windows_without_requests(snapshot: SnapshotAssertion) -> None:
    ran = phasewise("tail", "-", stdin=(SAMPLES / "vllm.log").read_bytes())
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == snapshot


def test_json_rows_are_the_exported_ones() -> None:
    ran = phasewise("tail", "-", "--format", "json", stdin=LOG.read_bytes())
    *rows, verdict = [json.loads(line) for line in ran.out.splitlines()]
    for table in ("requests", "events"):
        told = [row for row in rows if row["type"] == table[:-1]]
        assert told == [{"type": table[:-1]} | row | {"source": "-"} for row in exported(LOG, table)]
    assert (verdict["type"], verdict["phase"], verdict["requests"]) == ("verdict", "decode", 12)


def test_follows_a_file_that_grows(tmp_path: Path) -> None:
    whole, log = LOG.read_bytes(), tmp_path / "server.log"
    cut = whole.index(b"total time") - 40  # in the middle of the first request's timing lines
    log.write_bytes(whole[:cut])
    with tailing(log, "--format", "json") as tail, log.open("ab") as writer:
        assert tail.is_silent(2)
        for start in range(cut, len(whole), 5_000):
            writer.write(whole[start : start + 5_000])
            writer.flush()
            time.sleep(0.05)
        rows = [row for row in tail.rows(14) if row.pop("type") == "request"]
        assert sorted(row["line"] for row in rows) == sorted(row["line"] for row in exported(LOG))
        if sys.platform != "win32":
            status, err = tail.interrupt()
            assert (status, err) == (130, "phasewise: interrupted.\n")
            assert json.loads(tail.line())["type"] == "verdict"


def test_waits_for_a_file_and_follows_it_through_rotation(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    lines = LOG.read_bytes().splitlines(keepends=True)
    with tailing(log, "--format", "json") as tail:
        assert tail.is_silent(1)
        log.write_bytes(b"".join(lines[:60]))
        first = tail.rows(1)
        log.rename(tmp_path / "server.log.1")
        log.write_bytes(b"".join(lines[60:]))
        rows = first + tail.rows(13)
    assert sorted(r["line"] for r in rows if r["type"] == "request") == sorted(
        r["line"] for r in exported(LOG)
    )


def test_filters() -> None:
    whole = LOG.read_bytes()
    by_slot = phasewise("tail", "-", "--format", "json", "--slot", "2", stdin=whole)
    slots = {json.loads(line).get("slot") for line in by_slot.out.splitlines()[:-1]}
    assert slots == {2}
    ollama = (SAMPLES / "ollama-reload.log").read_bytes()
    old = phasewise("tail", "-", "--format", "json", "--last", "10m", stdin=ollama)
    assert (old.status, old.out) == (0, "")
    some = phasewise("tail", "-", "--format", "json", "--until", "2020-01-01", stdin=ollama)
    assert (some.status, some.out) == (0, "")


def test_a_verdict_each_minute_and_the_last_one_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plain, "VERDICT_EVERY_S", 0.6)
    whole = LOG.read_bytes()
    cut = whole.index(b"task 9 |")
    pieces = [whole[:cut], *[b""] * 30, whole[cut:]]
    log = TailedLog(Pieces("log", pieces, wait_s=0.1), Stream("log"))
    Printer(Session([log], Options()), as_json=True).run()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    verdicts = [line["requests"] for line in lines if line["type"] == "verdict"]
    assert len(verdicts) >= 2
    assert verdicts[0] < verdicts[-1] == 12
    assert lines[-1]["type"] == "verdict"


@pytest.mark.parametrize("looks", [12, 40])
def test_a_verdict_that_is_being_made_when_the_time_is_up_is_said(
    looks: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plain, "VERDICT_EVERY_S", 0.4)

    def slowly(session: Session) -> Judged:
        time.sleep(1.5)
        return judged(session)

    monkeypatch.setattr(plain, "judged", slowly)
    log = TailedLog(Pieces("log", [LOG.read_bytes(), *[b""] * 100], wait_s=0.1), Stream("log"))
    until = datetime.now(UTC) + timedelta(seconds=looks / 10)
    Printer(Session([log], Options()), as_json=True, until=until).run()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-1]["type"] == "verdict"
    assert lines[-1]["requests"] == lines[-1]["requests_read"] == 12


def test_a_time_that_is_over_loses_nothing_of_what_is_there(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes((SAMPLES / "ollama-reload.log").read_bytes() * 150)
    ran = phasewise("tail", log, "--format", "json", "--until", datetime.now(UTC).isoformat())
    rows = [line for line in ran.out.splitlines() if '"type":"request"' in line]
    assert (ran.status, len(rows)) == (0, 1500)


def test_each_file_is_followed_once_and_not_its_rotated_parts(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    for name in ("server.log", "server.log.1", "server.log-20261130", "other.log"):
        (tmp_path / name).write_bytes(LOG.read_bytes())
    with tailing(tmp_path, log, f"{tmp_path}/./server.log", "--format", "json") as tail:
        rows = [row for row in tail.rows(28) if row["type"] == "request"]
        assert tail.is_silent(1)
    assert sorted({row["source"] for row in rows}) == [str(tmp_path / "other.log"), str(log)]


def test_a_time_to_come_hides_nothing(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.touch()
    with tailing(log, "--format", "json", "--until", "2100-01-01") as tail:
        assert tail.is_silent(2)
        log.write_bytes(LOG.read_bytes())
        assert len(tail.rows(14)) == 14


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--last", "soon", LOG), ("--last soon", "10m")),
        (("--last", "99999999h", LOG), ("--last 99999999h", "10m")),
        (("--unit", "ollama", "--engine", "nothing"), ("--engine nothing", "no such format")),
        (("ftp://host/metrics",), ("ftp://", "http://HOST:PORT")),
    ],
)
def test_bad_usage_is_one_sentence(arguments: tuple[str | Path, ...], words: tuple[str, ...]) -> None:
    refused(phasewise("tail", *arguments), 2, *words)


def test_compressed_and_foreign_logs(tmp_path: Path) -> None:
    packed = tmp_path / "server.log.gz"
    packed.write_bytes(b"\x1f\x8b" + bytes(100))
    ran = phasewise("tail", packed, "--plain")
    one_sentence(ran, "server.log.gz", "phasewise tui")
    assert ran.status == 2
    ran = phasewise("tail", "-", "--plain", stdin=b"GET / 200\n" * 50)
    one_sentence(ran, "no engine's log")
    assert (ran.status, ran.out) == (3, "")


def test_screens_need_a_terminal() -> None:
    refused(phasewise("tui", LOG), 2, "need a terminal", "phasewise analyze")
