"""AIPerf and its predecessor GenAI-Perf: `profile_export.jsonl`, and the summaries as JSON and as CSV.

`profile_export.jsonl` (AIPerf) holds one request a line, its metrics each with their unit and its times since
1970 in nanoseconds. `profile_export_aiperf.json` and `profile_export_genai_perf.json` hold statistics of each
metric: an average times the request count is a sum. Both tools' inter-token latency is a request's time after
the first token divided by its further tokens, so its percentiles are those of the time per output token. A
time without zone is not read.

Read: AIPerf main db4f639 (exporters/, metrics/types/, record_export_results_processor.py), GenAI-Perf main
263c5f6 (export_data/, llm_profile_data_parser.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parsers.documents.base import (
    Document,
    has,
    items,
    member,
    number,
    percentiles,
    request,
    summary,
    text,
    tokens,
    total,
    utc,
    whole,
)
from parsers.records import Aggregate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from parsers.formats.process import Counts
    from parsers.records import Row

AIPERF, GENAI_PERF = "aiperf", "genai-perf"
_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3, "sec": 1e3}
"""What a unit of time is in ms."""


def stated_ms(value: Any, unit: str | None) -> float | None:
    """A time in its stated unit as ms."""
    found = number(value)
    return None if found is None or unit not in _MS else round(found * _MS[unit], 6)


# --- a request


def _request_rows(record: Any, counts: Counts) -> Iterator[Row]:
    metadata = member(record, "metadata")
    if member(metadata, "benchmark_phase") == "warmup":
        return
    if member(metadata, "was_cancelled") is True:
        counts.aborted_requests += 1
        return
    if member(record, "error") is not None:
        counts.failed_requests += 1
        return
    total_ms = _metric_ms(record, "request_latency")
    if total_ms is None:
        return
    yield request(
        AIPERF,
        _metric_ms(record, "time_to_first_token"),
        total_ms,
        counts,
        request_id=text(metadata, "x_request_id"),
        started_at=_time(metadata, "request_start_ns"),
        finished_at=_time(metadata, "request_end_ns"),
        prompt_tokens=_metric_count(record, "input_sequence_length"),
        output_tokens=_metric_count(record, "output_sequence_length"),
    )


def _time(metadata: Any, name: str) -> datetime | None:
    """Nanoseconds since 1970, which are too many for `number`."""
    epoch_ns = member(metadata, name)
    return utc(epoch_ns / 10**9) if isinstance(epoch_ns, int) and 0 < epoch_ns < 1 << 63 else None


def _metric_ms(record: Any, name: str) -> float | None:
    metric = member(record, "metrics", name)
    return stated_ms(member(metric, "value"), text(metric, "unit"))


def _metric_count(record: Any, name: str) -> int | None:
    return whole(record, "metrics", name, "value")


# --- a summary


def _summary_rows(engine: str, report: Any, counts: Counts) -> Iterator[Row]:
    requests = whole(report, "request_count", "avg")
    counts.failed_requests += whole(report, "error_request_count", "avg") or 0
    if not requests:
        return
    row = Aggregate(
        engine=engine,
        model=_model(member(report, "input_config")),
        span_ms=_stat_ms(report, "benchmark_duration", "avg"),
        requests=requests,
        prompt_tokens=_tokens(report, "total_isl", "input_sequence_length", requests),
        output_tokens=_tokens(report, "total_osl", "output_sequence_length", requests),
        ttft_ms=total(_stat_ms(report, "time_to_first_token", "avg"), requests),
        total_ms=total(_stat_ms(report, "request_latency", "avg"), requests),
    )
    percentiles(row, "ttft", lambda p: _stat_ms(report, "time_to_first_token", f"p{p}"))
    percentiles(row, "tpot", lambda p: _stat_ms(report, "inter_token_latency", f"p{p}"))
    yield summary(row, counts)


def _stat_ms(report: Any, metric: str, stat: str) -> float | None:
    return stated_ms(member(report, metric, stat), text(report, metric, "unit"))


def _tokens(report: Any, sum_of_all: str, each: str, requests: int) -> int | None:
    stated = whole(report, sum_of_all, "avg")
    return tokens(number(report, each, "avg"), requests) if stated is None else stated


def _model(config: Any) -> str | None:
    """The one model that was asked for."""
    names = items(config, "endpoint", "model_names") or items(config, "model_names")
    return text(names[0]) if len(names) == 1 and isinstance(names[0], str) else text(config, "model_names")


def _is_summary(head: bytes) -> bool:
    return has(head, "request_throughput", "request_latency", "input_config", "unit")


REQUESTS = Document(
    name="export of AIPerf",
    detect=lambda head: has(head, "metadata", "request_start_ns", "request_end_ns", "benchmark_phase"),
    rows=_request_rows,
)
SUMMARY = Document(
    name="summary of AIPerf",
    detect=lambda head: _is_summary(head) and not has(head, "perf_analyzer"),
    rows=lambda report, counts: _summary_rows(AIPERF, report, counts),
)
GENAI_PERF_SUMMARY = Document(
    name="summary of GenAI-Perf",
    detect=lambda head: _is_summary(head) and has(head, "perf_analyzer"),
    rows=lambda report, counts: _summary_rows(GENAI_PERF, report, counts),
)
