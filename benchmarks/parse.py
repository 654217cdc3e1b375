"""How fast logs are read, and in how much memory, against `wc -l`, `rg -c` and `lnav` on the same bytes.

What the logs hold is told in `logs.py`. They are written to a temporary folder, the same bytes every time,
and every row is compared with what was written. Seconds are of a processor, user and system, of a process of
its own for each measurement, the least of ``--runs``; what a log of a few lines costs is taken off. `read`
makes tables of the rows, `export` is the whole command. `lnav`, which indexes a log and extracts nothing from
these, is only asked about the smallest of the sizes. The table is Markdown.

    python benchmarks/parse.py [--megabytes 50 200] [--log NAME ...] [--runs 3]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.logs import KINDS, write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.logs import Truth

ROOT = Path(__file__).resolve().parents[1]
NEEDLES = {"vllm": "Avg prompt throughput", "sglang": " batch, "}
NEEDLE = "print_timing"
READ = (
    "import sys; from parsers import read_rows; rows = read_rows(sys.argv[1]); "
    "rows.requests.write_ipc(sys.argv[2]); rows.intervals.write_ipc(sys.argv[3])"
)
LAUNCH = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
process.returncode = os.waitstatus_to_exitcode(status)
print(process.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""
"""A small process starts the measured one: a process's peak counts what its parent held when it began."""


class Cost(NamedTuple):
    """What a process took."""

    cpu_s: float
    peak_mb: float


Way: TypeAlias = "Callable[[Path, Path, str, Truth], Cost]"
"""Log, folder for what it writes, which log it is and its rows in; what it took out."""


def run(*command: str | Path, may_find_nothing: bool = False) -> Cost:
    """Run a process to its end.

    Raises:
        SystemExit: it failed.
    """
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": paths, "POLARS_MAX_THREADS": "1"}
    launched = [sys.executable, "-I", "-S", "-c", LAUNCH, *map(str, command)]
    told = subprocess.run(launched, stdout=subprocess.PIPE, env=environment, check=True, text=True).stdout
    status, cpu_s, peak_kb = map(float, told.split())
    if status and not (may_find_nothing and status == 1):
        raise SystemExit(f"{command[0]} ended with status {status:.0f}")
    return Cost(cpu_s, peak_kb / 1024)


def compare(found: pl.DataFrame, truth: pl.DataFrame, what: str) -> None:
    """A fast wrong answer is no answer.

    Raises:
        SystemExit: not exactly the rows that were written.
    """
    found = found.select(truth.columns).sort("line").with_columns(pl.col(pl.Float64).round(2))
    if not found.equals(truth):
        raise SystemExit(f"{what}: {found.height} rows, not the {truth.height} that were written")


def read(log: Path, folder: Path, kind: str, truth: Truth) -> Cost:
    """Read a log with `read_rows`."""
    requests, intervals = folder / "requests.arrow", folder / "intervals.arrow"
    cost = run(sys.executable, "-c", READ, log, requests, intervals)
    compare(pl.read_ipc(requests), truth.requests, f"{kind} read")
    compare(pl.read_ipc(intervals), truth.intervals, f"{kind} read")
    return cost


def export(log: Path, folder: Path, kind: str, truth: Truth) -> Cost:
    """Export a log's larger table as a user does."""
    table = max(truth._fields, key=lambda name: getattr(truth, name).height)
    file = folder / f"{table}.parquet"
    cost = run(sys.executable, "-m", "advisor", "export", log, "--table", table, "-o", file)
    compare(pl.read_parquet(file), getattr(truth, table), f"{kind} exported")
    return cost


def wc(log: Path, _folder: Path, _kind: str, _truth: Truth) -> Cost:
    """Count the lines."""
    return run("wc", "-l", log)


def rg(log: Path, _folder: Path, kind: str, _truth: Truth) -> Cost:
    """Count the lines that matter."""
    return run("rg", "-c", NEEDLES.get(kind, NEEDLE), log, may_find_nothing=True)


def lnav(log: Path, _folder: Path, _kind: str, _truth: Truth) -> Cost:
    """Index the lines and count them."""
    return run("lnav", "-N", "-n", "-c", ";SELECT count(*) FROM all_logs", log)


BASELINES: dict[str, Way] = {"wc -l": wc, "rg -c": rg, "lnav": lnav}
WAYS: dict[str, Way] = {"read": read, "export": export}
FLOOR = "rg -c"
HEAD = """\
| log | MB | rows | by | s | MB/s | rows/s | × `rg -c` | peak MB |
|---|--:|--:|---|--:|--:|--:|--:|--:|"""


def measure(
    ways: dict[str, Way], runs: int, log: Path, folder: Path, kind: str, truth: Truth
) -> dict[str, Cost]:
    """The least that each takes."""
    return {by: min(way(log, folder, kind, truth) for _ in range(runs)) for by, way in ways.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--log", choices=KINDS, nargs="+", default=list(KINDS))
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args(arguments)
    ways = {by: way for by, way in BASELINES.items() if shutil.which(by.split()[0])} | WAYS
    print(HEAD)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "bench.log"
        for kind in asked.log:
            truth = write(log, 1, KINDS[kind])
            starts = measure(ways, asked.runs, log, folder, kind, truth)
            for megabytes in asked.megabytes:
                truth = write(log, megabytes * 1_000_000, KINDS[kind])
                smallest = megabytes == min(asked.megabytes)
                these = {by: way for by, way in ways.items() if smallest or by != "lnav"}
                costs = measure(these, asked.runs, log, folder, kind, truth)
                rows, size = sum(table.height for table in truth), log.stat().st_size / 1e6
                seconds = {by: max(cost.cpu_s - starts[by].cpu_s, 1e-4) for by, cost in costs.items()}
                for by, cpu_s in seconds.items():
                    ratio = f"{cpu_s / seconds[FLOOR]:.1f}" if FLOOR in seconds else "–"
                    rate = f"{rows / cpu_s:,.0f}" if by in WAYS else ""
                    cells = (f"{cpu_s:.2f}", f"{size / cpu_s:,.0f}", rate, ratio, f"{costs[by].peak_mb:.0f}")
                    print(f"| {kind} | {size:.0f} | {rows:,} | {by} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
