"""`vllm bench serve` and `sglang.bench_serving`: the block that ends a run, and their result files.

Both print a block of the same make: counts, and for each metric its mean, median and percentiles in ms.
SGLang's names its backend first. A mean is printed to a hundredth of a millisecond, so a sum of it is that
much off for each request. Which percentiles there are was asked for, and whether vLLM prints the latency of
whole requests (E2EL) as well.

Read: vLLM main of 2026-11 (vllm/benchmarks/serve.py), SGLang 0.5.23 (sglang/benchmark/serving.py); blocks in
vllm#7062, vllm#18566 and vllm#23867.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.documents import sglang_bench, vllm_bench
from parsers.documents.base import percentiles, summary, total
from parsers.formats.base import Format, Reader, line, number
from parsers.records import Aggregate

if TYPE_CHECKING:
    import re

    from parsers.formats.base import At
    from parsers.formats.process import Process

_MOST_LINES = 100
_COUNTS = (b"Successful requests", b"Failed requests", b"Total input tokens", b"Total generated tokens")
_SPLITS = "time to first token as the client saw it (queue, prefill and network), decode"

LINES = (
    line("head", b"= Serving Benchmark Result =", rb"=+ Serving Benchmark Result =+\s*$"),
    line("backend", b"Backend:          ", rb"Backend: +\S+\s*$"),
    *(
        line("count", label + b":", rb"(?P<label>" + label + rb"): +(?P<value>\d+)\s*$")
        for label in (*_COUNTS, b"Total cached tokens")
    ),
    line("span", b"Benchmark duration (s):", rb"Benchmark duration \(s\): +(?P<value>[\d.]+)\s*$"),
    line(
        "metric",
        b" (ms): ",
        rb"(?P<stat>Mean|Median|P(?P<percentile>\d+)) (?P<name>TTFT|TPOT|ITL|E2EL|E2E Latency) \(ms\): +"
        rb"(?P<value>-?[\d.]+|nan|inf)\s*$",
    ),
    line("end", b"========================================", rb"={40,60}\s*$"),
)


class BlockReader(Reader):
    """The block that is being read."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._drop()

    def _drop(self) -> None:
        self._first: At | None = None
        self._tool = vllm_bench.ENGINE
        self._counts: dict[bytes, int] = {}
        self._span_s: float | None = None
        self._metrics: dict[tuple[bytes, bytes], float | None] = {}

    def head(self, m: re.Match[bytes], at: At) -> None:
        """``============ Serving Benchmark Result ============``."""
        self.close()
        self._first = at

    def backend(self, m: re.Match[bytes], at: At) -> None:
        """``Backend:                                 sglang    ``: the second line of SGLang's block."""
        if self._first is None or self._counts:
            self.head(m, at)
        self._tool = sglang_bench.ENGINE

    def count(self, m: re.Match[bytes], at: At) -> None:
        """``Successful requests:                     100       ``."""
        if self._goes_on(at):
            self._counts.setdefault(m["label"], int(m["value"]))

    def span(self, m: re.Match[bytes], at: At) -> None:
        """``Benchmark duration (s):                  42.11     ``."""
        if self._goes_on(at) and self._span_s is None:
            self._span_s = number(m["value"])

    def metric(self, m: re.Match[bytes], at: At) -> None:
        """``Mean TTFT (ms):                          64.51     ``."""
        if self._goes_on(at):
            name = b"E2E" if m["name"].startswith(b"E2E") else m["name"]
            stat = b"P50" if m["stat"] == b"Median" else m["stat"]
            self._metrics.setdefault((name, stat), number(m["value"]))

    def end(self, m: re.Match[bytes], at: At) -> None:
        """``==================================================``: the block's last line."""
        self.close()

    def close(self) -> None:
        """Emit the block, if it tells of requests and their times."""
        if self._first is not None and self._metrics and self._counts.get(b"Successful requests"):
            self.process.emit(self._row(self._first, self._counts[b"Successful requests"]))
        if self._first is not None:
            self.process.counts.failed_requests += self._counts.get(b"Failed requests", 0)
        self._drop()

    def _goes_on(self, at: At) -> bool:
        if self._first is not None and at.own_number - self._first.own_number > _MOST_LINES:
            self.close()
        return self._first is not None

    def _row(self, first: At, requests: int) -> Aggregate:
        row = Aggregate(
            line=first.number,
            engine=self._tool,
            time=first.time,
            span_ms=None if self._span_s is None else round(1000 * self._span_s, 3),
            requests=requests,
            prompt_tokens=self._counts.get(b"Total input tokens"),
            cached_tokens=self._counts.get(b"Total cached tokens"),
            output_tokens=self._counts.get(b"Total generated tokens"),
            ttft_ms=total(self._stated(b"TTFT", b"Mean"), requests),
            total_ms=total(self._stated(b"E2E", b"Mean"), requests),
        )
        percentiles(row, "ttft", lambda p: self._stated(b"TTFT", b"P%d" % p))
        percentiles(row, "tpot", lambda p: self._stated(b"TPOT", b"P%d" % p))
        return summary(row, self.process.counts, streamed=self._metrics.get((b"ITL", b"Mean")) != 0.0)

    def _stated(self, name: bytes, stat: bytes) -> float | None:
        """A printed time in ms; 0 is what is printed where there is none."""
        value = self._metrics.get((name, stat))
        return value if value is not None and value > 0 else None


SGLANG = Format(
    engine=sglang_bench.ENGINE,
    title="sglang.bench_serving (printed block, result files)",
    versions="0.3 and newer",
    grain="request",
    identify=(b"Backend:                             ",),
    lines=LINES,
    reader=BlockReader,
    splits=_SPLITS,
    documents=(sglang_bench.DOCUMENT,),
    ends=("failed",),
)
"""Tried before vLLM's: it is awake only from a line on that vLLM's block has not."""

VLLM = Format(
    engine=vllm_bench.ENGINE,
    title="vllm bench serve (printed block, result files)",
    versions="0.4 and newer",
    grain="request",
    identify=(b"= Serving Benchmark Result =",),
    lines=LINES,
    reader=BlockReader,
    splits=_SPLITS,
    documents=(vllm_bench.DOCUMENT,),
    ends=("failed",),
)
FORMATS = (SGLANG, VLLM)
