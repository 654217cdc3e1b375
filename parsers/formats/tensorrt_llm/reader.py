"""Joins the steps of one rank and the requests to rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parsers.formats.base import At, Reader, line
from parsers.formats.json_records import records, remember
from parsers.formats.tensorrt_llm.requests import TIMED, rows
from parsers.formats.tensorrt_llm.steps import BACKEND, STATISTICS, STEP, backend, statistics, step

if TYPE_CHECKING:
    import re

    from parsers.formats.process import Process
    from parsers.records import Row

_ENGINE = "tensorrt-llm"

IDENTIFY = (
    b"[TRT-LLM] [I] ",
    b"] TensorRT-LLM version: ",
    b", global_rank = ",
    b'"inflightBatchingStats":',
    b'"Active Request Count":',
    b'"first_scheduled_time":',
    b'"first_scheduled_time_ns":',
)
LINES = (
    STEP,
    STATISTICS,
    BACKEND,
    *TIMED,
    line(
        "version",
        b"] TensorRT-LLM version: ",
        rb"\[TensorRT-LLM\] TensorRT-LLM version: (?P<version>\d[\w.]*)\s*$",
    ),
)


class TensorRtReader(Reader):
    """Which rank is read, and the requests that were told."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._begin()

    def _begin(self) -> None:
        self._rank: object = None
        self._ranked = False
        self._told: dict[str, None] = {}
        self._served = False

    def version(self, m: re.Match[bytes], at: At) -> None:
        """``[TensorRT-LLM] TensorRT-LLM version: 1.2.0``: every process that imports it says so."""
        if self._served:
            self.process.restart(at)
            self._begin()
        self.process.learn(at, engine=_ENGINE, engine_version=m["version"].decode())

    def step(self, m: re.Match[bytes], at: At) -> None:
        """``[...] [TRT-LLM] [I] iter = 198, global_rank = 0, rank = 0, ..., states = {...}``."""
        if self._is_read(int(m["rank"])):
            self._emit(step(m, at))

    def statistics(self, m: re.Match[bytes], at: At) -> None:
        """``[{"iter":12,"iterLatencyMS":14.2,...,"inflightBatchingStats":{...}}, ...]``."""
        for record in records(m["body"]):
            if self._is_read(record.get("attentionDpRank")):
                self._emit(statistics(record, at))

    def backend(self, m: re.Match[bytes], at: At) -> None:
        """``I1218 03:35:37.688135 20559 libtensorrtllm.cc:1205] {"Active Request Count":1,...}``."""
        for record in records(m["body"]):
            self._emit(backend(record, at))

    def timed(self, m: re.Match[bytes], at: At) -> None:
        """``[{"request_id":7,"perf_metrics":{"timing_metrics":{...}}}]``, or an answer of Triton."""
        for record in records(m["body"]):
            self._tell(record, at)

    def _tell(self, record: dict[str, Any], at: At) -> None:
        for row in rows(record, self.process.counts):
            key = f"{row.request_id} {row.clock_start_ms}"
            if key not in self._told:
                remember(self._told, key, None)
                row.line = row.first_line = at.number
                row.offset = at.offset
                self._emit(row)

    def _is_read(self, rank: object) -> bool:
        """True for the rank that came first: the others tell of the same steps, or of their own part."""
        if not self._ranked:
            self._rank, self._ranked = rank, True
        return rank == self._rank

    def _emit(self, row: Row | None) -> None:
        if row is not None:
            self._served = True
            self.process.emit(row)
