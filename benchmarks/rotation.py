"""Whether a followed log loses or doubles a request, however it is rotated while it is written.

A process writes llama-server's lines in random torn pieces and rotates the file every few hundred
milliseconds; this one follows it, reads it, and compares every request with what was written. A file that is
cut (copytruncate) is cut after a quiet gap, in the middle of a line. Cut under fire it loses what was written
since the last look, whoever follows it: that is counted, but is no failure. Ends with status 1 where anything
else differs. Last comes what it costs to wait for a silent file.

    python benchmarks/rotation.py [--seconds 20] [--megabytes-s 1] [--seed 1]
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from advisor.sources.follow import POLL_S, Followed
from benchmarks.logs import KINDS, REQUESTS, write
from parsers.records import Request
from parsers.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.logs import Truth

UNDER_FIRE = "copytruncate under fire"
WAYS = ("append", "rename", "replace", "recreate", "copytruncate", UNDER_FIRE)
TURN_S = 0.3
GAP_S = 0.3
SILENCE_S = 1.5
IDLE_S = 3.0
LARGEST_PIECE = 3000
COLUMNS = [name for name in REQUESTS if name != "line"]


class Read(NamedTuple):
    """What came of one way.

    Attributes:
        written: requests, whole.
        read: requests.
        is_equal: those that were read are those that were written, each number of them, in their order.
        turns: how often the file was rotated.
    """

    written: int
    read: int
    is_equal: bool
    turns: int


class Writer:
    """Writes a text in torn pieces, as fast as asked, and rotates the file."""

    def __init__(self, text: bytes, log: Path, bytes_s: float, dice: random.Random) -> None:
        self._text = text
        self._log = log
        self._bytes_s = bytes_s
        self._dice = dice
        self._begun_s = time.monotonic()
        self._file = log.open("ab", buffering=0)
        self.written = 0
        self.turns = 0

    def write_for(self, seconds: float) -> None:
        """Write for so long, at the pace asked."""
        until_s = time.monotonic() + seconds
        while (now_s := time.monotonic()) < until_s and self.written < len(self._text):
            if self.written > (now_s - self._begun_s) * self._bytes_s:
                time.sleep(0.001)
                continue
            self._put(self._dice.randint(1, LARGEST_PIECE))

    def end_line(self, ending: bytes = b"\n") -> None:
        """Write to the end of a line, as a writer does before it changes to another file."""
        end = self._text.find(ending, max(self.written - 1, 0)) + len(ending)
        self._put(end - self.written)

    def rotate(self, way: str) -> None:
        """Rotate once."""
        self.turns += 1
        aside = self._log.with_name(f"{self._log.name}.{self.turns}")
        if way == "rename":
            self._log.rename(aside)
            self.write_for(self._dice.random() * 0.1)
            self._reopen()
        elif way == "recreate":
            self._log.unlink()
            self.write_for(self._dice.random() * 0.1)
            self.end_line()
            time.sleep(self._dice.random() * 0.2)
            self._reopen()
        elif way == "replace":
            self.end_line()
            self._file.close()
            self._file = aside.open("ab", buffering=0)
            self.write_for(self._dice.random() * 0.02)
            aside.replace(self._log)
        elif way != "append":
            if way != UNDER_FIRE:
                time.sleep(GAP_S)
                self._begun_s += GAP_S
            shutil.copyfile(self._log, aside)
            os.truncate(self._log, 0)
            aside.unlink()

    def _put(self, size: int) -> None:
        self.written += self._file.write(self._text[self.written : self.written + size])

    def _reopen(self) -> None:
        self.end_line()
        self._file.close()
        self._file = self._log.open("ab", buffering=0)


def write_log(way: str, text: bytes, log: Path, seconds: float, bytes_s: float, seed: int) -> None:
    """What the writing process does; prints how many bytes of the text it wrote, and how often it rotated."""
    dice = random.Random(seed)
    writer = Writer(text, log, bytes_s, dice)
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        writer.write_for(TURN_S * (0.5 + dice.random()))
        writer.rotate(way)
    writer.end_line(b"truncated = 0\n")
    print(writer.written, writer.turns)


def follow(way: str, source: Path, truth: Truth, log: Path, asked: argparse.Namespace) -> Read:
    """Follow the log while another process writes it."""
    words = (way, str(source), str(log), str(asked.seconds / len(WAYS)))
    followed, stream = Followed(str(log)), Stream(log.name)
    found: list[Request] = []
    command = [sys.executable, __file__, "--writer", *words, "--megabytes-s", str(asked.megabytes_s)]
    with subprocess.Popen([*command, "--seed", str(asked.seed)], stdout=subprocess.PIPE) as writer:
        heard_s = time.monotonic()
        while writer.poll() is None or time.monotonic() - heard_s < SILENCE_S:
            if data := followed.read(POLL_S):
                heard_s = time.monotonic()
                found += [row for row in stream.feed(data) if isinstance(row, Request)]
        told = writer.stdout.read().split() if writer.stdout else []
    if writer.returncode or len(told) != 2:
        raise SystemExit(f"{way}: the writer failed")
    followed.close()
    found += [row for row in stream.close() if isinstance(row, Request)]
    lines = source.read_bytes()[: int(told[0])].count(b"\n")
    expected = truth.requests.filter(truth.requests["line"] <= lines).select(COLUMNS).rows()
    rows = [tuple(_rounded(getattr(row, name)) for name in COLUMNS) for row in found]
    return Read(len(expected), len(rows), rows == expected, int(told[1]))


def _rounded(value: object) -> object:
    return round(value, 2) if isinstance(value, float) else value


def share(wait: Callable[[float], object]) -> float:
    """Processor time of waiting, in percent of a core."""
    cpu_s, begun_s = time.process_time(), time.monotonic()
    while time.monotonic() - begun_s < IDLE_S:
        wait(0.5)
    return 100 * (time.process_time() - cpu_s) / (time.monotonic() - begun_s)


def sleep(wait_s: float) -> None:
    """Wait as `Followed` does, and look at nothing."""
    for _ in range(round(wait_s / POLL_S)):
        time.sleep(POLL_S)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--megabytes-s", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--writer", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.writer:
        way, source, log, seconds = asked.writer
        text = Path(source).read_bytes()
        write_log(way, text, Path(log), float(seconds), asked.megabytes_s * 1e6, asked.seed)
        return
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "source.log"
        size = int((asked.seconds / len(WAYS) + 1) * asked.megabytes_s * 1e6) + 100_000
        truth = write(source, size, KINDS["dense"])
        print(f"{'way':<26}{'rotated':>8}{'written':>9}{'read':>9}")
        for way in WAYS:
            log = folder / way.replace(" ", "-") / "server.log"
            log.parent.mkdir()
            log.touch()
            read = follow(way, source, truth, log, asked)
            wrong = not read.is_equal
            failed |= wrong and way != UNDER_FIRE
            verdict = "" if not wrong else "inherent" if way == UNDER_FIRE else "WRONG"
            print(f"{way:<26}{read.turns:>8}{read.written:>9}{read.read:>9}  {verdict}", flush=True)
            shutil.rmtree(log.parent)
        silent = folder / "silent.log"
        silent.write_bytes(b"one\n")
        followed = Followed(str(silent))
        followed.read(0)
        waits, sleeps = share(followed.read), share(sleep)
        followed.close()
        print(f"waiting for a silent file: {waits:.2f} % of a core, {sleeps:.2f} % to sleep alone")
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
