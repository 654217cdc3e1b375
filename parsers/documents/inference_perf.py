"""inference-perf: `summary_`, `stage_N_` and `per_request_lifecycle_metrics.json`, in seconds.

A summary's times to first token are of the streamed answers among the successful requests, and how many those
are is not told: their percentiles are read, their sum stays unknown. Until 0.2 the time per output token was
over pieces of the stream, of which empty ones counted too; it is read only where it agrees with the latencies
and the lengths. `cached` counts unknown as 0, so a 0 is not read. Each stage's summary and that of all stages
tell of the same requests.

Requests are on the client's clock since its machine started.

Read: inference-perf v0.1.0, v0.2.0 and main 7de5ef2 (reportgen/base.py, apis/base.py), and the results in its
demos/kubecon-na-2025.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from parsers.documents.base import (
    Document,
    has,
    items,
    member,
    ms,
    number,
    percentiles,
    request,
    summary,
    tokens,
    total,
    whole,
)
from parsers.formats.base import Format, Reader
from parsers.records import Aggregate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers.formats.process import Counts
    from parsers.records import Request, Row

ENGINE = "inference-perf"
_REQUESTS = re.compile(rb'\s*\[\s*\{\s*"start_time"\s*:[^,{}"]+,\s*"end_time"\s*:[^,{}"]+,\s*"request"\s*:')
_AGREES = 0.25
"""How far the mean time per output token may be from what mean latencies and lengths give, as a share."""


def _detect(head: bytes) -> bool:
    one_summary = has(head, "successes", "load_summary", "normalized_time_per_output_token")
    return one_summary or _REQUESTS.match(head) is not None


def _rows(record: Any, counts: Counts) -> Iterator[Row]:
    if member(record, "successes") is not None:
        counts.failed_requests += whole(record, "failures", "count") or 0
        if count := whole(record, "successes", "count"):
            yield _summary(record, count, counts)
    elif member(record, "error") is not None:
        counts.failed_requests += 1
    else:
        yield from _request(record, counts)


# --- a summary


def _summary(record: Any, count: int, counts: Counts) -> Aggregate:
    told = member(record, "successes")
    latency = member(told, "latency")
    row = Aggregate(
        engine=ENGINE,
        span_ms=_span_ms(record, count),
        requests=count,
        prompt_tokens=_tokens(told, "prompt_tokens", "prompt_len", count),
        cached_tokens=whole(told, "prompt_tokens", "cached") or None,
        output_tokens=_tokens(told, "output_tokens", "output_len", count),
        total_ms=total(ms(number(latency, "request_latency", "mean")), count),
    )
    percentiles(row, "ttft", lambda p: _percentile(latency, "time_to_first_token", p))
    if member(latency, "time_per_output_token") is not None:
        if _agrees(told):
            percentiles(row, "tpot", lambda p: _percentile(latency, "time_per_output_token", p))
        else:
            counts.impossible_values += 1
    return summary(row, counts)


def _span_ms(record: Any, count: int) -> float | None:
    stated = ms(number(record, "benchmark_time_seconds"))
    rate = number(record, "successes", "throughput", "requests_per_sec")
    return stated or (round(1000 * count / rate, 3) if rate else None)


def _tokens(told: Any, name: str, before: str, count: int) -> int | None:
    """Their total as it is told, earlier only as a mean."""
    return whole(told, name, "total") or tokens(number(told, before, "mean"), count)


def _percentile(latency: Any, name: str, percentile: int) -> float | None:
    stated = number(latency, name, f"p{percentile}")
    return ms(number(latency, name, "median") if stated is None and percentile == 50 else stated)


def _agrees(told: Any) -> bool:
    """Whether the time per output token is over tokens: times the tokens it is what follows the first."""
    latency = member(told, "latency")
    whole_s, first_s, each_s = (
        number(latency, name, "mean")
        for name in ("request_latency", "time_to_first_token", "time_per_output_token")
    )
    length = number(told, "output_tokens", "mean")
    if length is None:
        length = number(told, "output_len", "mean")
    if None in (whole_s, first_s, each_s, length):
        return False
    after_s = (whole_s or 0.0) - (first_s or 0.0)
    return abs((each_s or 0.0) * ((length or 0.0) - 1) - after_s) <= _AGREES * after_s


# --- a request


def _request(record: Any, counts: Counts) -> Iterator[Request]:
    start_s, end_s = number(record, "start_time"), number(record, "end_time")
    if start_s is None or end_s is None or end_s <= start_s:
        return
    info = member(record, "info")
    response = member(info, "response_metrics") or info
    usage = member(response, "server_usage")
    pieces = items(response, "output_token_times") or items(response, "chunk_times")
    first_s = number(pieces[0]) if pieces else None
    prompt, output = whole(usage, "prompt_tokens"), whole(usage, "completion_tokens")
    row = request(
        ENGINE,
        ms(first_s - start_s) if first_s is not None and first_s > start_s else None,
        ms(end_s - start_s),
        counts,
        prompt_tokens=whole(info, "input_tokens") if prompt is None else prompt,
        cached_tokens=whole(usage, "prompt_tokens_details", "cached_tokens"),
        output_tokens=whole(response, "output_tokens") if output is None else output,
    )
    if row.ttft_ms is not None and row.total_ms is not None:
        row.clock_start_ms, row.clock_end_ms = round(1000 * start_s + row.ttft_ms, 6), ms(end_s)
    yield row


DOCUMENT = Document(name="report of inference-perf", detect=_detect, rows=_rows)


FORMAT = Format(
    engine=ENGINE,
    title="inference-perf (lifecycle metrics)",
    versions="0.1 and newer",
    grain="request",
    identify=(),
    lines=(),
    reader=Reader,
    splits="time to first token as the client saw it (queue, prefill and network), decode",
    documents=(DOCUMENT,),
    ends=("failed",),
)
