"""How fast logs are read, and in how much memory: MB/s of processor time, and the peak at two sizes.

Dense is the worst case: every request's lines and nothing between them. Sparse is a log with one line in a
hundred that matters. Labelled ones have `docker compose`'s names before each line; mixed is three
llama-servers that restart, chatter and a vLLM in one file. All are written to a temporary folder, the same
bytes every time, and every row is compared with what was written. ``x rg`` is the ratio to `rg -c` in the
same run, or, where that is not installed, ``x wc`` to counting the newlines. Each measurement is a process of
its own.

    python benchmarks/parse.py [--megabytes 50 200] [--log NAME ...]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.logs import KINDS, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.logs import Truth

ROOT = Path(__file__).resolve().parents[1]
BLOCK = 1 << 20
NEEDLE = "print_timing"
READ = (
    "import sys; from parsers import read_rows; rows = read_rows(sys.argv[1]); "
    "rows.requests.write_ipc(sys.argv[2]); rows.intervals.write_ipc(sys.argv[3])"
)
COUNT = f"""
import sys
with open(sys.argv[1], "rb") as file:
    print(sum(block.count(10) for block in iter(lambda: file.read({BLOCK}), b"")))
"""


class Cost(NamedTuple):
    """What a process took."""

    cpu_s: float
    peak_mb: float


def run(*command: str | Path) -> Cost:
    """Run a process to its end.

    Raises:
        SystemExit: it failed.
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT), "POLARS_MAX_THREADS": "1"}
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[0]} ended with status {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def python(code: str, *arguments: str | Path) -> Cost:
    """Run a few lines of Python in a process of their own."""
    return run(sys.executable, "-c", code, *arguments)


def compare(found: pl.DataFrame, truth: pl.DataFrame, what: str) -> None:
    """A fast wrong answer is no answer.

    Raises:
        SystemExit: not exactly the rows that were written.
    """
    found = found.select(truth.columns).sort("line").with_columns(pl.col(pl.Float64).round(2))
    if not found.equals(truth):
        raise SystemExit(f"{what}: {found.height} rows, not the {truth.height} that were written")


def read(log: Path, folder: Path, truth: Truth) -> Cost:
    """Read a log with `read_rows`."""
    requests, intervals = folder / "requests.arrow", folder / "intervals.arrow"
    cost = python(READ, log, requests, intervals)
    compare(pl.read_ipc(requests), truth.requests, f"{log.name} read")
    compare(pl.read_ipc(intervals), truth.intervals, f"{log.name} read")
    return cost


def export(log: Path, folder: Path, truth: Truth) -> Cost:
    """Export a log as a user does; the cost is that of its requests."""
    cost = _exported("requests", log, folder, truth.requests)
    if truth.intervals.height:
        _exported("intervals", log, folder, truth.intervals)
    return cost


def _exported(table: str, log: Path, folder: Path, truth: pl.DataFrame) -> Cost:
    file = folder / f"{table}.parquet"
    cost = run(sys.executable, "-m", "advisor", "export", log, "--table", table, "-o", file)
    compare(pl.read_parquet(file), truth, f"{log.name} exported")
    return cost


def floor(log: Path) -> tuple[str, float]:
    """The name and the processor time of the least that anything which reads the log has to do."""
    if rg := shutil.which("rg"):
        return "rg", run(rg, "-c", NEEDLE, log).cpu_s
    return "wc", python(COUNT, log).cpu_s - python("pass").cpu_s


WAYS = {"read": read, "export": export}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--log", choices=KINDS, nargs="+", default=list(KINDS))
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "bench.log"
        one = write(log, 1, KINDS["dense"])
        starts = {by: work(log, folder, one) for by, work in WAYS.items()}
        told = ", ".join(f"{by} {cost.cpu_s:.2f} s and {cost.peak_mb:.0f} MB" for by, cost in starts.items())
        print(f"a log of one request: {told}; that is taken off below")
        print(f"{'log':<18}{'by':<8}{'MB':>5}{'rows':>9}{'MB/s':>7}{'rows/s':>9}{'ratio':>9}{'peak +MB':>10}")
        for kind in asked.log:
            for megabytes in asked.megabytes:
                truth = write(log, megabytes * 1_000_000, KINDS[kind])
                count, size = sum(table.height for table in truth), log.stat().st_size / 1e6
                against, floor_s = floor(log)
                for by, work in WAYS.items():
                    cost = work(log, folder, truth)
                    cpu_s = max(cost.cpu_s - starts[by].cpu_s, 1e-9)
                    more_mb = cost.peak_mb - starts[by].peak_mb
                    ratio = f"{cpu_s / max(floor_s, 1e-9):.0f} x {against}"
                    rates = f"{size / cpu_s:7.0f}{count / cpu_s:9.0f}{ratio:>9}{more_mb:10.0f}"
                    print(f"{kind:<18}{by:<8}{size:5.0f}{count:9}{rates}", flush=True)


if __name__ == "__main__":
    main()
