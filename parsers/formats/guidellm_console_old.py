"""GuideLLM 0.2 and 0.3: the two tables that end a run on the console, when no report was kept.

`Benchmarks Info` has the counts of each benchmark, `Benchmarks Stats` its times, in the same order. A mean
times the requests is their sum, but for the digits it was cut to: it is read where those leave no more than
1 % open. `Req Latency` is in seconds in 0.2 too, which says ms. Where the output is no terminal, Rich breaks
the lines at 80 columns, between two cells: a row goes on in the next lines.

Read: GuideLLM v0.2.0 to v0.3.1 (benchmark/output.py), whose own code printed the sample's layout.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from parsers.documents import guidellm
from parsers.documents.base import ms, number, summary, total, whole
from parsers.formats.base import Format, Reader, line
from parsers.records import Aggregate

if TYPE_CHECKING:
    from parsers.formats.base import At
    from parsers.formats.process import Process

_NAMES = (b"synchronous|", b"throughput|", b"concurrent@", b"constant@", b"poisson@")
_INFO, _STATS = 19, 17
"""How many cells a row has."""
_COMPLETED, _INCOMPLETE, _ERRORED, _OUTPUT_MEAN, _PROMPT, _OUTPUT = 4, 5, 6, 10, 13, 16
_LATENCY, _TTFT, _TTFT_MEDIAN, _TTFT_P99 = 5, 8, 9, 10
_HEADER_LINES = 12
_MOST_RUNS = 1000
_LATENCY_STEP_MS, _TTFT_STEP_MS, _MOST_ERROR = 10.0, 0.1, 0.01
_HALF_A_DIGIT = 0.0501
_CLOCK = re.compile(r"\d\d:\d\d:\d\d")

LINES = (
    line("info", b"Benchmarks Info:", rb"Benchmarks Info:\s*$"),
    line("stats", b"Benchmarks Stats:", rb"Benchmarks Stats:\s*$"),
    *(
        line("row", name, rb"(?P<name>[a-z]{1,12}(?:@[\d.]{1,12})?)\|(?P<cells>[ |\d.:]{0,400})$")
        for name in _NAMES
    ),
    line("more", b"| ", rb"(?P<cells>\d[\d.:]{0,20}\|[ |\d.:]{0,400})$"),
)


class OldConsoleReader(Reader):
    """The table that is being printed, and the rows of the first until the second comes."""

    engine = guidellm.ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._size = self._until = self._place = 0
        self._cells: list[str] = []
        self._runs: list[list[str]] = []

    def info(self, _m: re.Match[bytes], at: At) -> None:
        """``Benchmarks Info:``: the first table."""
        self._begin(_INFO, at)
        self._runs = []

    def stats(self, _m: re.Match[bytes], at: At) -> None:
        """``Benchmarks Stats:``: the second."""
        self._begin(_STATS, at)

    def _begin(self, size: int, at: At) -> None:
        self._size, self._until, self._place = size, at.own_number + _HEADER_LINES, 0
        self._cells = []

    def row(self, m: re.Match[bytes], at: At) -> bool:
        """``  synchronous|   15:06:41| 15:07:11|         30.1|    25|``: a benchmark, or its beginning."""
        if at.own_number > self._until:
            return False
        self._cells = []
        self._add(f"{m['name'].decode()}|{m['cells'].decode()}", at)
        return True

    def more(self, m: re.Match[bytes], at: At) -> bool:
        """``256.0| 0.0| 128.0| 61.0| 0.0|   6405|``: the rest of a row, or a piece of it."""
        if not self._cells or at.own_number > self._until:
            return False
        self._add(m["cells"].decode(), at)
        return True

    def _add(self, piece: str, at: At) -> None:
        self._cells += (cell for part in piece.split("|") if (cell := part.strip()))
        self._until = at.own_number + 1
        if len(self._cells) > self._size:
            self._cells = []
        elif len(self._cells) == self._size and not piece.rstrip().endswith("|"):
            cells, self._cells = self._cells, []
            self._take(cells, at)

    def _take(self, cells: list[str], at: At) -> None:
        if self._size == _INFO:
            if _CLOCK.fullmatch(cells[1]) and _CLOCK.fullmatch(cells[2]):
                self._runs += [cells] if len(self._runs) < _MOST_RUNS else []
                self.process.counts.failed_requests += whole(cells[_ERRORED]) or 0
                self.process.counts.incomplete_requests += whole(cells[_INCOMPLETE]) or 0
            return
        run = self._runs[self._place] if self._place < len(self._runs) else [""]
        self._place += 1
        if run[0] == cells[0] and all(number(cell) is not None for cell in cells[1:]):
            self._emit(run, cells, at)

    def _emit(self, run: list[str], stats: list[str], at: At) -> None:
        row = Aggregate(line=at.number, engine=guidellm.ENGINE, time=at.time)
        row.span_ms, row.requests = ms(number(run[3])), whole(run[_COMPLETED])
        if not row.requests:
            return
        row.prompt_tokens, row.output_tokens = whole(run[_PROMPT]) or None, whole(run[_OUTPUT]) or None
        latency_ms, ttft_ms = ms(number(stats[_LATENCY])) or 0.0, number(stats[_TTFT]) or 0.0
        row.ttft_p50_ms, row.ttft_p99_ms = (
            number(stats[_TTFT_MEDIAN]) or None,
            number(stats[_TTFT_P99]) or None,
        )
        if ttft_ms * _MOST_ERROR >= _TTFT_STEP_MS / 2 and _all_answered(run, row.requests):
            row.ttft_ms = total(ttft_ms, row.requests)
        if (latency_ms - ttft_ms) * _MOST_ERROR >= (_LATENCY_STEP_MS + _TTFT_STEP_MS) / 2:
            row.total_ms = total(latency_ms, row.requests)
        self.process.emit(summary(row, self.process.counts))

    def close(self) -> None:
        """The source or the process ends here."""
        self._until, self._cells, self._runs = 0, [], []


def _all_answered(run: list[str], requests: int) -> bool:
    """Whether each has output: the mean of those that have is that of all."""
    mean, tokens = number(run[_OUTPUT_MEAN]), number(run[_OUTPUT])
    return (
        mean is not None and tokens is not None and abs(tokens - mean * requests) <= _HALF_A_DIGIT * requests
    )


FORMAT = Format(
    engine=guidellm.ENGINE,
    title="GuideLLM (older tables on the console)",
    versions="0.2 and 0.3",
    grain="aggregate",
    identify=(b"Benchmarks Info:", b"Benchmarks Stats:"),
    lines=LINES,
    reader=OldConsoleReader,
    splits="time to first token as the client saw it (queue, prefill and network), decode",
    ends=("failed", "incomplete"),
)
