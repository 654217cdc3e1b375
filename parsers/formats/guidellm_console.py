"""GuideLLM: the tables that end a run on the console, when no report was kept.

Two of them are read: the run's length and its tokens, and the times to first token. Both have a line for
each benchmark, in the same order. They state medians and 95th percentiles and no means, nor how many requests
there were, so no sum of times follows. Percentiles of the time per token are not read: see the report's
reader.

Read: GuideLLM v0.4.0 to v0.7.3 and main ee7a774 (benchmark/outputs/console.py, utils/console.py), whose own
code printed the sample's layout. The tables of 0.2 and 0.3: `guidellm_console_old.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.documents import guidellm
from parsers.documents.base import ms, number, summary, whole
from parsers.formats.base import Format, Reader, line
from parsers.records import Aggregate

if TYPE_CHECKING:
    import re

    from parsers.formats.base import At
    from parsers.formats.process import Process

_STRATEGIES = ("synchronous", "concurrent", "throughput", "constant", "poisson", "trace")
_SUMMARY, _LATENCY = "Run Summary Info", "Request Latency Statistics"
_CELLS = rb"\|(?P<cells>.*)\|\s*$"

LINES = (
    line("summary", b"Run Summary Info", rb"(?:\S{1,8} )?Run Summary Info\s*$"),
    line("latency", b"Request Latency Stat", rb"(?:\S{1,8} )?Request Latency Statistics \(Completed "),
    line("groups", b"| Benchmark ", _CELLS),
    line("names", b"| Strategy ", _CELLS),
    line("units", b"| Tot ", _CELLS),
    line("units", b"| Mdn ", _CELLS),
    *(line("row", f"| {strategy} ".encode(), _CELLS) for strategy in _STRATEGIES),
)


class ConsoleReader(Reader):
    """The table that is being printed, and the lines of the first until the second comes."""

    engine = guidellm.ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._title: str | None = None
        self._headers: list[list[str]] = []
        self._last_number = 0
        self._runs: list[dict[str, str]] = []
        self._rows = 0

    def summary(self, m: re.Match[bytes], at: At) -> None:
        """``ℹ Run Summary Info``: the first table of a report."""
        self._begin(_SUMMARY)
        self._runs = []

    def latency(self, m: re.Match[bytes], at: At) -> None:
        """``ℹ Request Latency Statistics (Completed Requests)``."""
        self._begin(_LATENCY)

    def _begin(self, title: str | None) -> None:
        self._title, self._headers, self._rows = title, [], 0

    def groups(self, m: re.Match[bytes], at: At) -> None:
        """``| Benchmark   | Timings      ||||| Input Tokens ||| ...``: no title, not read."""
        if self._headers:
            self._title = None
        if self._title is not None:
            self._headers, self._last_number = [_filled(_cells(m))], at.own_number

    def names(self, m: re.Match[bytes], at: At) -> None:
        """``| Strategy    | Start    | End  | Dur  | ...``."""
        self._header(_filled(_cells(m)), 1, at)

    def units(self, m: re.Match[bytes], at: At) -> None:
        """``|             |          |      | Sec  | ...``."""
        self._header(_cells(m), 2, at)

    def _header(self, cells: list[str], before: int, at: At) -> None:
        if len(self._headers) == before and at.own_number == self._last_number + 1:
            self._headers.append(cells)
            self._last_number = at.own_number

    def row(self, m: re.Match[bytes], at: At) -> None:
        """``| synchronous | 10:00:01 | 10:00:31 | 30.1 | ...``: one benchmark."""
        cells = _cells(m)
        if self._title is None or [len(header) for header in self._headers] != [len(cells)] * 3:
            return
        columns = zip(*self._headers, cells, strict=True)
        values = {f"{group}|{name}|{unit}": cell for group, name, unit, cell in columns}
        place, self._rows = self._rows, self._rows + 1
        if self._title == _SUMMARY:
            self._runs.append(values)
        else:
            run = self._runs[place] if place < len(self._runs) else {}
            same = run.get(_STRATEGY) == values.get(_STRATEGY)
            self.process.emit(_row(run if same else {}, values, at, self.process))

    def close(self) -> None:
        """The source or the process ends here."""
        self._begin(None)
        self._runs = []


_STRATEGY = "Benchmark|Strategy|"


def _cells(m: re.Match[bytes]) -> list[str]:
    return [cell.strip() for cell in m["cells"].decode("utf-8", "replace").split("|")]


def _filled(cells: list[str]) -> list[str]:
    """A header's cells; one over several columns is printed over the first of them."""
    filled: list[str] = []
    for cell in cells:
        filled.append(cell or (filled[-1] if filled else ""))
    return filled


def _row(run: dict[str, str], latency: dict[str, str], at: At, process: Process) -> Aggregate:
    row = Aggregate(line=at.number, engine=guidellm.ENGINE, time=at.time)
    row.span_ms = ms(number(run, "Timings|Dur|Sec"))
    row.prompt_tokens = whole(run, "Input Tokens|Comp|Tot") or None
    row.output_tokens = whole(run, "Output Tokens|Comp|Tot") or None
    row.ttft_p50_ms = number(latency, "TTFT|ms|Mdn") or None
    row.ttft_p95_ms = number(latency, "TTFT|ms|p95") or None
    return summary(row, process.counts)


FORMAT = Format(
    engine=guidellm.ENGINE,
    title="GuideLLM (tables on the console)",
    versions="0.4 and newer",
    grain="aggregate",
    identify=(b"Run Summary Info", b"Request Latency Statistics"),
    lines=LINES,
    reader=ConsoleReader,
    splits="percentiles of the time to first token as the client saw it (queue, prefill and network)",
)
