"""What an analysis of many requests costs: processor time and memory of each stage, as a Markdown table.

The rows are made, not read: how fast logs are read is `parse.py`'s matter. ``x parquet`` is the ratio to
writing the same requests as Parquet with polars and reading them again, in the same process. The peak is of
the whole process so far. Each number of requests has a process of its own, and that one thread: several that
wait for each other take processor time too.

    python benchmarks/analyze.py [--requests 10_000 1_000_000]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from functools import partial
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from advisor.reading import Reading

SCREEN_LINES = 50
HEAD = "| requests | stage | CPU s | wall s | x parquet | peak MB |\n|---:|---|---:|---:|---:|---:|"


class Stage(NamedTuple):
    """What one stage took, and the most memory that the process had until its end."""

    name: str
    cpu_s: float
    wall_s: float
    peak_mb: float


def peak_mb() -> float:
    """The most memory that this process has had, in MB."""
    if sys.platform == "win32":
        import psutil

        return float(psutil.Process().memory_info().peak_wset) / 1e6
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def timed(name: str, work: Callable[[], Any]) -> tuple[Stage, Any]:
    """Do some work, and say what it took."""
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    done = work()
    stage = Stage(name, time.process_time() - cpu_s, time.perf_counter() - wall_s, peak_mb())
    return stage, done


def stages(requests: int) -> Iterator[Stage]:
    """The stages of an analysis of so many requests, the baseline before them."""
    from rich.console import Console

    from advisor.analysis import Options, analyze
    from advisor.options import ReportFormat
    from advisor.report.terminal import show
    from advisor.report.written import text_of
    from advisor.ticket import report
    from benchmarks.rows import reading

    analyze(reading(1_000))
    made, read = timed("rows made", lambda: reading(requests))
    yield made
    yield timed("parquet", lambda: _parquet(read))[0]
    yield timed("analysis", lambda: analyze(read))[0]
    told, (page, measures) = timed("analysis for a report", lambda: report(read, Options(), ["phasewise"]))
    yield told
    yield timed("terminal", lambda: show(page, console=Console(file=StringIO())))[0]
    for kind in (ReportFormat.JSON, ReportFormat.MD, ReportFormat.HTML):
        yield timed(kind.value, partial(text_of, page, measures, kind))[0]
    yield timed("screen: table", lambda: _screen(measures.requests))[0]


def _parquet(read: Reading) -> None:
    import polars as pl

    file = BytesIO()
    read.tables.requests.write_parquet(file)
    file.seek(0)
    pl.read_parquet(file)


def _screen(requests: Any) -> None:
    """What the screens' table does: take the rows, filter and sort them, and draw a screenful."""
    import polars as pl

    from advisor.report.rows import DERIVED
    from advisor.tui.requests.columns import SHOWN
    from advisor.tui.requests.order import RowOrder

    order = RowOrder()
    order.take(requests.with_columns(placed_at="finished_at", **DERIVED), 0)
    order.filter(pl.col("prompt_tokens") > 1_000)
    order.sort("total_ms", is_descending=True)
    order.rows(0, SCREEN_LINES, SHOWN)


def measured(requests: int) -> list[Stage]:
    """The stages, in a process of their own.

    Raises:
        SystemExit: it failed.
    """
    command = [sys.executable, __file__, "--one", str(requests)]
    environment = os.environ | {"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True, env=environment)
    if process.returncode:
        raise SystemExit(f"the analysis of {requests:,} requests ended with status {process.returncode}")
    return [Stage(*json.loads(line)) for line in process.stdout.splitlines()]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.one is not None:
        for stage in stages(asked.one):
            print(json.dumps(stage), flush=True)
        return
    print(HEAD)
    for requests in asked.requests:
        found = measured(requests)
        least_s = next(stage.cpu_s for stage in found if stage.name == "parquet")
        for stage in found:
            ratio = f"{stage.cpu_s / max(least_s, 1e-9):.1f}"
            print(
                f"| {requests:,} | {stage.name} | {stage.cpu_s:.2f} | {stage.wall_s:.2f} | {ratio} "
                f"| {stage.peak_mb:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
