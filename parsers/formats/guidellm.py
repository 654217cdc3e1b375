"""GuideLLM: the report `benchmarks.json`, and `benchmarks.csv` with a row for each benchmark.

The CSV has three rows of headers: groups, names, and units or statistics. Its means have all digits, so a
mean times the successful requests is their sum. Its start and end times name no zone and are not read.

Read: GuideLLM v0.4.0 to v0.7.3 (benchmark/outputs/csv.py).
"""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

from parsers.documents import guidellm
from parsers.documents.base import items, ms, number, percentiles, summary, tokens, total, whole
from parsers.formats.base import Format, Reader, line
from parsers.records import Aggregate

if TYPE_CHECKING:
    import re

    from parsers.formats.base import At
    from parsers.formats.process import Counts, Process

_PLACES = {90: 7, 95: 8, 99: 9}
"""Where these percentiles stand in the list that the CSV has of a metric; the median has a column."""

LINES = (
    line("groups", b"Run Info,Run Info,", rb"Run Info,Run Info,(?P<rest>.*)$"),
    line("names", b"Run ID,Run Index,", rb"Run ID,Run Index,.*$"),
    line("stats", b",Mean,Median,Std Dev,Percentiles", rb",.*$"),
    line("benchmark", b",generative_benchmark,", rb"[\w-]+,\d+,.*$"),
)


class CsvReader(Reader):
    """The rows of headers, of which the third makes the columns known."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._headers: list[list[str]] = []
        self._last_number = 0

    def groups(self, m: re.Match[bytes], at: At) -> None:
        """``Run Info,Run Info,...``: the first row."""
        self._headers, self._last_number = [_cells(m[0])], at.own_number

    def names(self, m: re.Match[bytes], at: At) -> None:
        """``Run ID,Run Index,...``: the second row."""
        self._header(m, at)

    def stats(self, m: re.Match[bytes], at: At) -> None:
        """``,,,,Mean,Median,...``: the third row."""
        self._header(m, at)

    def _header(self, m: re.Match[bytes], at: At) -> None:
        if self._headers and at.own_number == self._last_number + 1:
            self._headers.append(_cells(m[0]))
            self._last_number = at.own_number

    def benchmark(self, m: re.Match[bytes], at: At) -> None:
        """A row of values."""
        if len(self._headers) != 3:
            return
        columns = zip(*self._headers, _cells(m[0]), strict=False)
        cells = {f"{group}|{name}|{stat}": value for group, name, stat, value in columns}
        self.process.counts.failed_requests += whole(cells, "Request Counts|Errored|") or 0
        self.process.counts.incomplete_requests += whole(cells, "Request Counts|Incomplete|") or 0
        if successful := whole(cells, "Request Counts|Successful|"):
            self.process.emit(_row(cells, successful, at, self.process.counts))


def _row(cells: dict[str, str], successful: int, at: At, counts: Counts) -> Aggregate:
    def mean(metric: str) -> float | None:
        return number(cells, f"{metric}|Mean") or None

    first = "Time to First Token|Successful ms"
    row = Aggregate(
        line=at.number,
        engine=guidellm.ENGINE,
        time=at.time,
        span_ms=ms(number(cells, "Timings|Duration|Sec")),
        requests=successful,
        prompt_tokens=tokens(mean("Token Metrics|Successful Input Tokens"), successful),
        output_tokens=tokens(mean("Token Metrics|Successful Output Tokens"), successful),
        ttft_ms=total(mean(first), successful),
        total_ms=total(ms(mean("Request Latency|Successful Sec")), successful),
    )
    listed = _list(cells.get(f"{first}|Percentiles", ""))
    percentiles(row, "ttft", lambda p: number(listed[_PLACES[p]]) if p in _PLACES and listed else None)
    row.ttft_p50_ms = number(cells, f"{first}|Median") or None
    return summary(row, counts)


def _list(cell: str) -> list[object]:
    """The eleven numbers of ``[0.1, 0.2, ...]``; an empty list for all else."""
    try:
        told = items({"list": json.loads(cell)}, "list")
    except (ValueError, RecursionError):
        return []
    return told if len(told) == 11 else []


def _cells(row: bytes) -> list[str]:
    return next(csv.reader([row.decode("utf-8", "replace")]), [])


FORMAT = Format(
    engine=guidellm.ENGINE,
    title="GuideLLM (benchmarks.json, benchmarks.csv)",
    versions="0.2 and newer, CSV 0.4 and newer",
    grain="request",
    identify=(b"Run Info,Run Info,",),
    lines=LINES,
    reader=CsvReader,
    splits="time to first token as the client saw it (queue, prefill and network), decode",
    documents=(guidellm.DOCUMENT,),
    ends=("failed", "incomplete"),
)
