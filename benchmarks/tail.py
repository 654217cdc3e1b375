"""What watching a log costs: lines lost, processor time, memory, and how soon the screen answers a key.

A writer of its own appends a generated log in torn pieces, so many lines a second; `phasewise tail` follows
it: as lines of JSON (``plain``), as screens in a pseudo-terminal while keys are pressed (``screen``), and as
screens that are left alone (``alone``). Every request that was written must be told. Memory is sampled each
second: after warm-up it must not grow. A key changes the tab; its answer is the first byte of what only that
tab shows. Needs Linux (`/proc`, `pty`).

    python benchmarks/tail.py [--rate 100 50000] [--seconds 60] [--mode plain screen alone]
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.logs import KINDS, write  # noqa: E402

KIND = KINDS["dense"]
"""More than a quarter of the lines are timing lines."""

WRITE_EVERY_S, KEY_EVERY_S, WARM_UP_S, SETTLE_S = 0.02, 2.0, 10.0, 15.0
WRITER = """
import sys, time
source, target, rate, seconds, every_s = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
lines = open(source, "rb").read().splitlines(keepends=True)
began, done = time.monotonic(), 0
with open(target, "ab", buffering=0) as log:
    while done < len(lines):
        due = min(int((time.monotonic() - began) * rate), len(lines))
        piece = b"".join(lines[done:due])
        log.write(piece[: len(piece) // 3])
        log.write(piece[len(piece) // 3 :])
        done = due
        time.sleep(every_s)
"""
TABS = (("2", b"output"), ("5", b"SOURCES"), ("1", b"TTFT, p50"))
SIZE = (40, 120)


class Cost(NamedTuple):
    """What following cost."""

    told: int
    cpu_share: float
    warm_mb: float
    end_mb: float
    answers_ms: list[float]


class Sampler(threading.Thread):
    """Resident memory of a process, each second."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.mb: list[float] = []
        self._pid = pid
        self.start()

    def run(self) -> None:
        """Sample until the process has ended."""
        pages = Path(f"/proc/{self._pid}/statm")
        while True:
            try:
                self.mb.append(int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6)
            except (OSError, IndexError):
                return
            time.sleep(1)


def cpu_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def writer(source: Path, target: Path, rate: float, seconds: float) -> subprocess.Popen[bytes]:
    """Append a log to another file, at a rate."""
    arguments = [str(source), str(target), str(rate), str(seconds), str(WRITE_EVERY_S)]
    return subprocess.Popen([sys.executable, "-c", WRITER, *arguments])


def plain(source: Path, log: Path, rate: float, seconds: float, wanted: int) -> Cost:
    """Follow as lines of JSON."""
    out = log.with_suffix(".out")
    command = [sys.executable, "-m", "advisor", "tail", str(log), "--format", "json"]
    with out.open("wb") as file:
        child = subprocess.Popen(command, stdout=file, cwd=ROOT)
    time.sleep(3)
    memory, before_s, began = Sampler(child.pid), cpu_s(child.pid), time.monotonic()
    writing = writer(source, log, rate, seconds)
    writing.wait()
    used, took = cpu_s(child.pid) - before_s, time.monotonic() - began
    end = time.monotonic() + SETTLE_S
    while (told := out.read_bytes().count(b'"type":"request"')) < wanted and time.monotonic() < end:
        time.sleep(0.5)
    child.terminate()
    child.wait()
    return Cost(told, used / took, *_memory(memory.mb), [])


def screen(source: Path, log: Path, rate: float, seconds: float, wanted: int, keys: bool) -> Cost:
    """Follow as screens."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
        os.execv(sys.executable, [sys.executable, "-m", "advisor", "tail", str(log)])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    _drain(terminal, 4)
    memory, before_s, began = Sampler(child), cpu_s(child), time.monotonic()
    writing = writer(source, log, rate, seconds)
    answers: list[float] = []
    told = 0
    while writing.poll() is None:
        for key, mark in TABS if keys else ():
            pressed = time.monotonic()
            os.write(terminal, key.encode())
            answer = _drain(terminal, KEY_EVERY_S, mark)
            answers.append(1000 * (time.monotonic() - pressed))
            told = max(told, _told(answer), _told(_drain(terminal, KEY_EVERY_S)))
        if not keys:
            told = max(told, _told(_drain(terminal, 1)))
    used, took = cpu_s(child) - before_s, time.monotonic() - began
    end = time.monotonic() + SETTLE_S
    while told < wanted and time.monotonic() < end:
        told = max(told, _told(_drain(terminal, 1)))
    os.write(terminal, b"q")
    with suppress(SystemExit):
        _drain(terminal, 5)
    os.waitpid(child, 0)
    return Cost(told, used / took, *_memory(memory.mb), answers)


def _told(seen: bytes) -> int:
    """The number of requests in the status line, if it was drawn."""
    return max(
        (int(count.replace(b",", b"")) for count in re.findall(rb"([\d,]+) requests", seen)), default=0
    )


def _drain(terminal: int, wait_s: float, mark: bytes | None = None) -> bytes:
    """What the terminal is told within a time, or until it is told a mark."""
    seen, end = b"", time.monotonic() + wait_s
    while (left := end - time.monotonic()) > 0 and (mark is None or mark not in seen):
        if select.select([terminal], [], [], left)[0]:
            try:
                seen += os.read(terminal, 1 << 16)
            except OSError:
                raise SystemExit(f"the screens ended by themselves: {seen[-2000:]!r}") from None
    return seen


def _memory(mb: list[float]) -> tuple[float, float]:
    warm = mb[min(int(WARM_UP_S), len(mb) - 1)]
    return warm, max(mb[-5:])


def main() -> None:
    """Measure."""
    modes = ["plain", "screen", "alone"]
    options = argparse.ArgumentParser(
        formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__
    )
    options.add_argument("--rate", type=float, nargs="+", default=[100, 50_000])
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--mode", nargs="+", choices=modes, default=modes)
    given = options.parse_args()
    print("mode    lines/s   written     told  core %  MB warm  MB end  key answered ms: median, p95, max")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for rate in given.rate:
            source = Path(folder) / f"{rate:.0f}.source"
            per_line = 120
            truth = write(source, int(rate * given.seconds * per_line), KIND)
            for mode in given.mode:
                log = Path(folder) / f"{rate:.0f}-{mode}.log"
                log.touch()
                wanted = truth.requests.height
                if mode == "plain":
                    cost = plain(source, log, rate, given.seconds, wanted)
                else:
                    cost = screen(source, log, rate, given.seconds, wanted, mode == "screen")
                failed |= cost.told != wanted
                a = sorted(cost.answers_ms)
                said = f"{a[len(a) // 2]:.0f}, {a[int(0.95 * (len(a) - 1))]:.0f}, {a[-1]:.0f}" if a else ""
                print(
                    f"{mode:7} {rate:7,.0f}  {wanted:8,} {cost.told:8,}  {100 * cost.cpu_share:6.1f}  "
                    f"{cost.warm_mb:7.0f}  {cost.end_mb:6.0f}  {said}",
                    flush=True,
                )
    raise SystemExit(int(failed))


if __name__ == "__main__":
    main()
