"""What a cluster costs and gains: the same logs read by one process, by two, and by Ray on two nodes.

Each way analyses the same files. ``wall`` is the whole command, ``start`` the same command on one request;
``work`` is the processor time of all processes together without that of the start, and ``x`` its ratio to one
process. Ray's is that of its workers too. ``peak`` is the memory of the command itself, ``B/request`` what it
grows by with each request. The results are compared byte for byte. Needs the extra ``fleet``.

    python benchmarks/fleet.py [--files 8] [--megabytes 10]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.logs import KINDS, write
from tests.fleet.cluster import running

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[1]


class Cost(NamedTuple):
    """What a command took, with all that worked for it."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    out: bytes


class Cluster(Thread):
    """Adds up the processor time of all processes below this one but a command: a worker may end any time."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.commands: set[int] = set()
        self._used_s: dict[int, float] = {}

    def run(self) -> None:
        """Look again and again."""
        while True:
            self.look()
            time.sleep(0.1)

    def look(self) -> float:
        """The time so far."""
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                used = process.cpu_times()
                self._used_s[process.pid] = used.user + used.system
        return sum(used_s for pid, used_s in list(self._used_s.items()) if pid not in self.commands)


def analyze(folder: Path, options: Sequence[str], environment: dict[str, str], cluster: Cluster) -> Cost:
    """Analyse all logs of a folder.

    Raises:
        SystemExit: the command failed.
    """
    command = [sys.executable, "-m", "advisor", "analyze", str(folder), "--format", "json", "--no-redact"]
    before_s, begun_s = cluster.look(), time.monotonic()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            [*command, *options],
            stdout=out,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        )
        cluster.commands.add(process.pid)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - begun_s
        if process.returncode:
            raise SystemExit(f"{' '.join(options)} ended with status {process.returncode}")
        out.seek(0)
        text = out.read()
    cpu_s = used.ru_utime + used.ru_stime
    if "RAY_ADDRESS" in environment:
        cpu_s += cluster.look() - before_s
    return Cost(wall_s, cpu_s, used.ru_maxrss / 1024, text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--megabytes", type=int, default=10)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name, running() as address:
        little, much = Path(name) / "little", Path(name) / "much"
        little.mkdir()
        much.mkdir()
        write(little / "one.log", 1, KINDS["dense"])
        rows = 0
        for number in range(asked.files):
            rows += write(
                much / f"{number:03d}.log", asked.megabytes * 1_000_000, KINDS["dense"]
            ).requests.height
        print(f"{asked.files} files of {asked.megabytes} MB, {rows} requests, {os.cpu_count()} cores")
        print(f"{'by':<14}{'start':>8}{'wall':>8}{'work':>8}{'x':>6}{'peak MB':>9}{'B/request':>11}")
        cluster = Cluster()
        cluster.start()
        ways: dict[str, tuple[list[str], dict[str, str]]] = {
            "one process": (["--jobs", "1"], {}),
            "two processes": (["--jobs", "2"], {}),
            "ray, 2 nodes": (["--on", "ray"], {"RAY_ADDRESS": address}),
        }
        first: tuple[bytes, float] | None = None
        for way, (options, environment) in ways.items():
            start = analyze(little, options, environment, cluster)
            cost = analyze(much, options, environment, cluster)
            work_s = cost.cpu_s - start.cpu_s
            first = first or (cost.out, work_s)
            if cost.out != first[0]:
                raise SystemExit(f"{way}: not the same analysis")
            each = (cost.peak_mb - start.peak_mb) * (1 << 20) / rows
            figures = f"{start.wall_s:8.1f}{cost.wall_s:8.1f}{work_s:8.1f}{work_s / first[1]:6.2f}"
            print(f"{way:<14}{figures}{cost.peak_mb:9.0f}{each:11.0f}", flush=True)


if __name__ == "__main__":
    main()
