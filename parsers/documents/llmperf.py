"""llmperf: `*_individual_responses.json` (an array of requests) and `*_summary.json`, in seconds.

Tokens of prompts and answers are counted with a Llama tokenizer, whatever the model is. The inter-token
latency is the whole time divided by the tokens, so it holds the first one too and is not read as a time per
output token.

Read: llmperf main f1d6bed (token_benchmark_ray.py, ray_clients/), which has had one layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parsers.documents.base import (
    Document,
    has,
    member,
    ms,
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
from parsers.formats.base import Format, Reader
from parsers.records import Aggregate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers.formats.process import Counts
    from parsers.records import Row

ENGINE = "llmperf"
_MINUTE_MS = 60_000.0


def _detect(head: bytes) -> bool:
    one = has(head, "ttft_s", "end_to_end_latency_s", "number_output_tokens")
    return one or has(head, "results_ttft_s_mean", "results_inter_token_latency_s_mean")


def _rows(record: Any, counts: Counts) -> Iterator[Row]:
    if number(record, "results_num_requests_started") is not None:
        counts.failed_requests += whole(record, "results_number_errors") or 0
        if completed := whole(record, "results_num_completed_requests"):
            yield _summary(record, completed, counts)
    elif member(record, "error_code") is not None:
        counts.failed_requests += 1
    elif number(record, "end_to_end_latency_s"):
        yield request(
            ENGINE,
            ms(number(record, "ttft_s")),
            ms(number(record, "end_to_end_latency_s")),
            counts,
            prompt_tokens=whole(record, "number_input_tokens"),
            output_tokens=whole(record, "number_output_tokens"),
        )


def _summary(record: Any, completed: int, counts: Counts) -> Aggregate:
    def mean(name: str) -> float | None:
        return number(record, f"results_{name}_mean")

    a_minute = number(record, "results_num_completed_requests_per_min")
    row = Aggregate(
        engine=ENGINE,
        model=text(record, "model"),
        time=utc(number(record, "timestamp")),
        span_ms=round(_MINUTE_MS * completed / a_minute, 3) if a_minute else None,
        requests=completed,
        prompt_tokens=tokens(mean("number_input_tokens"), completed),
        output_tokens=tokens(mean("number_output_tokens"), completed),
        ttft_ms=total(ms(mean("ttft_s")) or None, completed),
        total_ms=total(ms(mean("end_to_end_latency_s")) or None, completed),
    )
    percentiles(row, "ttft", lambda p: ms(number(record, f"results_ttft_s_quantiles_p{p}")) or None)
    return summary(row, counts)


DOCUMENT = Document(name="result of llmperf", detect=_detect, rows=_rows)


FORMAT = Format(
    engine=ENGINE,
    title="llmperf (*_individual_responses.json, *_summary.json)",
    versions="results version 2023-08-31",
    grain="request",
    identify=(),
    lines=(),
    reader=Reader,
    splits="time to first token as the client saw it (queue, prefill and network), decode",
    documents=(DOCUMENT,),
    ends=("failed",),
)
