"""AIPerf and GenAI-Perf: the table that ends a run, the same as CSV, and their result files.

A table has a line for each metric with its average and percentiles. Numbers are printed with two digits after
the point, so a sum of averages is that much off for each request, and a number of tokens follows from its
average only for fewer than 100 requests. A name that the terminal broke over two lines is not read.

Read: AIPerf main db4f639 (exporters/), GenAI-Perf main 263c5f6 (export_data/); tables in their READMEs.
"""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, ClassVar

from parsers.documents import aiperf
from parsers.documents.aiperf import stated_ms
from parsers.documents.base import number, percentiles, summary, total, whole
from parsers.formats.base import Format, Reader, line
from parsers.records import Aggregate

if TYPE_CHECKING:
    from parsers.formats.base import At
    from parsers.formats.process import Process

_EXACT_REQUESTS = 100
_MOST_LINES = 100
_BAR = re.compile("[┃│|]")
_NAME = re.compile(r"(?P<name>[^()]*[^()\s])\s*(?:\((?P<unit>[^()]*)\))?")
_EDGE = rb"(?:\xe2\x94\x83|\xe2\x94\x82|\|)? *"
_METRIC = (
    _EDGE + rb"(?:Total )?(?:Time [Tt]o [Ff]irst [Tt]oken|Inter [Tt]oken [Ll]atency|Request [Ll]atency"
    rb"|(?:Error )?Request [Cc]ount|(?:In|Out)put [Ss]equence [Ll]ength|Benchmark Duration)\b.*$"
)
_SPLITS = "time to first token as the client saw it (queue, prefill and network), decode"

LINES = (
    line("head", b"avg", _EDGE + rb"(?:Metric|Statistic) *(?:,|\||\xe2\x94\x83) *avg\b.*$"),
    line("values", b"Metric,Value", rb"Metric,Value\s*$"),
    *(
        line("metric", needle, _METRIC)
        for needle in (b"oken (", b"atency (", b"equence ", b"equest ", b"Benchmark Duration")
    ),
)


class TableReader(Reader):
    """The table that is being read: its columns, and the metrics so far by their names in lower case."""

    tool: ClassVar[str]

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._drop()

    def _drop(self) -> None:
        self._first: At | None = None
        self._columns: list[str] = []
        self._stats: dict[str, dict[str, float]] = {}
        self._units: dict[str, str | None] = {}

    def head(self, m: re.Match[bytes], at: At) -> None:
        """``Metric,avg,min,max,p1,p5,...`` or the same between bars."""
        self.close()
        self._first, self._columns = at, _cells(m[0])[1:]

    def values(self, m: re.Match[bytes], at: At) -> None:
        """``Metric,Value``: the second part of the CSV, with one number each."""
        self._columns = ["avg"]

    def metric(self, m: re.Match[bytes], at: At) -> None:
        """``Time to First Token (ms),64.51,...`` or the same between bars."""
        if self._first is None or at.own_number - self._first.own_number > _MOST_LINES:
            return
        title, *cells = _cells(m[0])
        named = _NAME.fullmatch(title)
        if named is None or named["name"].lower() in self._stats:
            return
        told = zip(self._columns, map(_printed, cells), strict=False)
        self._stats[named["name"].lower()] = {name: value for name, value in told if value is not None}
        self._units[named["name"].lower()] = named["unit"]

    def close(self) -> None:
        """Emit the table, if it tells of times."""
        times = [self._ms(name, "avg") for name in ("request latency", "time to first token")]
        if self._first is not None and times != [None, None]:
            self.process.emit(self._row(self._first))
            self.process.counts.failed_requests += whole(self._stats, "error request count", "avg") or 0
        self._drop()

    def _row(self, first: At) -> Aggregate:
        requests = whole(self._stats, "request count", "avg") or None
        row = Aggregate(
            line=first.number,
            engine=self.tool,
            time=first.time,
            span_ms=self._ms("benchmark duration", "avg"),
            requests=requests,
            prompt_tokens=self._tokens("input sequence length", requests),
            output_tokens=self._tokens("output sequence length", requests),
            ttft_ms=total(self._ms("time to first token", "avg"), requests),
            total_ms=total(self._ms("request latency", "avg"), requests),
        )
        percentiles(row, "ttft", lambda p: self._ms("time to first token", f"p{p}"))
        percentiles(row, "tpot", lambda p: self._ms("inter token latency", f"p{p}"))
        return summary(row, self.process.counts)

    def _ms(self, name: str, stat: str) -> float | None:
        return stated_ms(number(self._stats, name, stat), self._units.get(name))

    def _tokens(self, name: str, requests: int | None) -> int | None:
        """Their total as it is told, else as it follows from an average of two digits."""
        stated = whole(self._stats, f"total {name}", "avg")
        average = number(self._stats, name, "avg")
        if stated is not None or average is None or requests is None or requests >= _EXACT_REQUESTS:
            return stated
        return round(average * requests)


class AiperfTable(TableReader):
    """AIPerf's."""

    tool = aiperf.AIPERF


class GenaiPerfTable(TableReader):
    """GenAI-Perf's."""

    tool = aiperf.GENAI_PERF


def _cells(row: bytes) -> list[str]:
    text = row.decode("utf-8", "replace").strip()
    if _BAR.search(text):
        return [cell.strip() for cell in _BAR.split(text.strip("┃│| "))]
    return next(csv.reader([text]))


def _printed(cell: str) -> float | None:
    return number(cell.replace(",", ""))


AIPERF = Format(
    engine=aiperf.AIPERF,
    title="AIPerf (profile_export.jsonl, summaries, printed table)",
    versions="0.1 and newer",
    grain="request",
    identify=(b"NVIDIA AIPerf | ", b"Metric,avg,min,max,p1,p5,"),
    banner=rb"NVIDIA AIPerf \| |Metric,avg,",
    lines=LINES,
    reader=AiperfTable,
    splits=_SPLITS,
    documents=(aiperf.REQUESTS, aiperf.SUMMARY),
    ends=("aborted", "failed"),
)
GENAI_PERF = Format(
    engine=aiperf.GENAI_PERF,
    title="GenAI-Perf (summaries, printed table)",
    versions="0.0.6 and newer",
    grain="request",
    identify=(b"NVIDIA GenAI-Perf | ", b"Metric,avg,min,max,p99,", "Statistic ┃    avg".encode()),
    banner=rb"NVIDIA GenAI-Perf \| |Metric,avg,|\xe2\x94\x83 +Statistic ",
    lines=LINES,
    reader=GenaiPerfTable,
    splits=_SPLITS,
    documents=(aiperf.GENAI_PERF_SUMMARY,),
    ends=("failed",),
)
FORMATS = (AIPERF, GENAI_PERF)
