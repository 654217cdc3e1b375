"""GuideLLM: `benchmarks.json`, a report of several benchmarks, each with its sums and its requests.

The layouts of 0.2 and 0.3, of 0.4 to 0.6 and of 0.7 differ in how a request is told, not in what is derived
from it: `time_to_first_token_ms`, `request_latency` in seconds, and tokens. Sums are stated (`total_sum`).
The time per output token is not read: `time_per_output_token_ms` has had two meanings, and its percentiles
and those of `inter_token_latency_ms` are over tokens, not requests. Where a report holds only a sample of the
requests, the sums are read too.

Read: GuideLLM v0.2.1, v0.3.1, v0.4.0, v0.7.3 and main ee7a774 (benchmark/, schemas/).
"""

from __future__ import annotations

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
    text,
    utc,
    whole,
)
from parsers.records import Aggregate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers.formats.process import Counts
    from parsers.records import Request, Row

ENGINE = "guidellm"


def _detect(head: bytes) -> bool:
    return has(head, "guidellm_version") or (has(head, "type_") and b'"generative_benchmark"' in head)


def _rows(report: Any, counts: Counts) -> Iterator[Row]:
    for benchmark in items(report, "benchmarks"):
        model = _model(report, benchmark)
        requests = list(_requests(benchmark, model, counts))
        yield from requests
        made = member(benchmark, "request_totals") or member(benchmark, "metrics", "request_totals")
        counts.failed_requests += _made(made, benchmark, "errored")
        counts.incomplete_requests += _made(made, benchmark, "incomplete")
        successful = whole(made, "successful")
        if successful and successful > len(requests):
            yield _summary(benchmark, model, successful, counts)


def _made(made: Any, benchmark: Any, status: str) -> int:
    """How many requests ended so: as stated, else as listed."""
    stated = whole(made, status)
    return len(items(benchmark, "requests", status)) if stated is None else stated


def _requests(benchmark: Any, model: str | None, counts: Counts) -> Iterator[Request]:
    for told in items(benchmark, "requests", "successful"):
        total_ms = ms(number(told, "request_latency"))
        if total_ms is None:
            continue
        yield request(
            ENGINE,
            number(told, "time_to_first_token_ms"),
            total_ms,
            counts,
            request_id=text(told, "request_id"),
            model=model,
            started_at=utc(_either(told, "start_time", "request_start_time")),
            finished_at=utc(_either(told, "end_time", "request_end_time")),
            prompt_tokens=whole(told, "prompt_tokens"),
            cached_tokens=whole(told, "cached_tokens"),
            output_tokens=whole(told, "output_tokens"),
        )


def _either(told: Any, *names: str) -> float | None:
    return next((found for name in names if (found := number(told, name)) is not None), None)


def _summary(benchmark: Any, model: str | None, successful: int, counts: Counts) -> Aggregate:
    def stated(metric: str, *path: str) -> Any:
        return member(benchmark, "metrics", metric, "successful", *path)

    first = "time_to_first_token_ms"
    row = Aggregate(
        engine=ENGINE,
        model=model,
        time=utc(number(benchmark, "end_time")),
        span_ms=ms(number(benchmark, "duration")),
        requests=successful,
        prompt_tokens=whole(stated("prompt_token_count", "total_sum")),
        output_tokens=whole(stated("output_token_count", "total_sum")),
        ttft_ms=number(stated(first, "total_sum")) or None,
        ttft_requests=whole(stated(first, "count")),
        total_ms=ms(number(stated("request_latency", "total_sum"))),
    )
    percentiles(row, "ttft", lambda p: number(stated(first, "percentiles", f"p{p}")) or None)
    return summary(row, counts)


def _model(report: Any, benchmark: Any) -> str | None:
    """Where the model's name has stood in the layouts so far."""
    places = (
        (benchmark, "worker", "backend_model"),
        (report, "args", "model"),
        (benchmark, "config", "backend", "model"),
        (report, "config", "spec", "backend", "model"),
    )
    return next((name for value, *path in places if (name := text(value, *path))), None)


DOCUMENT = Document(name="GuideLLM report", detect=_detect, rows=_rows)
