"""How fast `read_rows` reads: MB/s and memory on a dense and on a sparse llama-server log.

Dense is the worst case: every request's lines and nothing between them. Sparse is a log with one line in a
hundred that matters. Both are written to a temporary folder, the same bytes every time, and compared with
counting the newlines of the same file in the same run.

    python benchmarks/parse.py [--megabytes 100]
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from parsers import read_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK = 1 << 20
CHATTER = "0.{s:02d}.{ms:03d}.000 I srv  update_slots: posting NEXT_RESPONSE, n_tokens = {task}\n"

REQUEST = """\
{t} I slot get_availabl: id  {slot} | task -1 | selected slot by LCP similarity, f_sim_best = 0.649 (> 0.100 thold), f_keep = 0.421
{t} I slot launch_slot_: id  {slot} | task {task} | processing task, is_child = 0
{t} I slot print_timing: id  {slot} | task {task} | prompt eval time = {p_ms:10.2f} ms / {p_n:5d} tokens ({p_1:8.2f} ms per token, {p_s:8.2f} tokens per second)
{t} I slot print_timing: id  {slot} | task {task} |        eval time = {d_ms:10.2f} ms / {d_n:5d} tokens ({d_1:8.2f} ms per token, {d_s:8.2f} tokens per second)
{t} I slot print_timing: id  {slot} | task {task} |       total time = {ms:10.2f} ms / {n:5d} tokens
{t} I slot print_timing: id  {slot} | task {task} |    graphs reused = {task:10d}
{t} I slot      release: id  {slot} | task {task} | stop processing: n_tokens = {context}, truncated = 0
"""  # noqa: E501


def requests() -> Iterator[str]:
    """The same endless run of requests every time."""
    state = 1
    for count in range(10**9):
        state = state * 1103515245 + 12345 & 0x7FFFFFFF
        p_n, d_n = 20 + state % 3000, 1 + state // 3000 % 400
        p_ms, d_ms = p_n * 3.21, d_n * 9.87
        second, ms = divmod(count * 40, 1000)
        yield REQUEST.format(
            t=f"{second // 60}.{second % 60:02d}.{ms:03d}.000",
            slot=count % 4,
            task=1 + count * 7,
            p_ms=p_ms,
            p_n=p_n,
            p_1=p_ms / p_n,
            p_s=1000 * p_n / p_ms,
            d_ms=d_ms,
            d_n=d_n,
            d_1=d_ms / d_n,
            d_s=1000 * d_n / d_ms,
            ms=p_ms + d_ms,
            n=p_n + d_n,
            context=p_n + d_n + 11,
        )


def write(path: Path, size: int, chatter_lines: int) -> int:
    """Write about ``size`` bytes of log; returns how many requests it holds."""
    chatter = "".join(CHATTER.format(s=i % 60, ms=i, task=i) for i in range(chatter_lines))
    written = count = 0
    with path.open("w", encoding="ascii") as file:
        for text in requests():
            written += file.write(text) + file.write(chatter)
            count += 1
            if written >= size:
                return count
    return count


def count_newlines(path: Path) -> int:
    """The floor: what it costs to look at each byte once."""
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(BLOCK), b""))


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=100)
    size = parser.parse_args().megabytes * 1_000_000
    read_rows(__file__)
    before_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("log         MB  requests    MB/s    rows/s  newlines MB/s  peak RSS +MB")
    with tempfile.TemporaryDirectory() as folder:
        for name, chatter_lines in (("sparse", 600), ("dense", 0)):
            path = Path(folder) / f"{name}.log"
            expected = write(path, size, chatter_lines)
            megabytes = path.stat().st_size / 1e6
            floor_s = seconds(partial(count_newlines, path))
            took_s = seconds(partial(read, path, expected))
            peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before_mb
            rates = f"{megabytes / took_s:8.0f}{expected / took_s:10.0f}{megabytes / floor_s:15.0f}"
            print(f"{name:<6}{megabytes:8.0f}{expected:10}{rates}{peak_mb:14.0f}")


def read(path: Path, expected: int) -> None:
    """Read the log; a fast wrong answer is no answer."""
    if (rows := read_rows(path).requests.height) != expected:
        raise SystemExit(f"read {rows} requests of {expected}")


if __name__ == "__main__":
    main()
