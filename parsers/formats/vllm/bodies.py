"""Answers with a `metrics` object, as clients of ``vllm serve --enable-per-request-metrics`` log them.

``time_to_first_token_ms`` counts from when the request was scheduled: it is the prefill, and the time to
first token that others mean has the queue in it. ``generation_time_ms`` goes from the first token to the
last. Where a request maps to several streams, vLLM gives null. A stream carries the object in its last
chunk, the Responses API in its ``response.completed`` event. `created` is when the request came, in whole
seconds.

Read in vLLM's docs/features/per_request_metrics.md (vllm#46768 and later) and acceptance_metrics.md.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from parsers.documents.base import Document
from parsers.formats.base import line
from parsers.formats.json_records import BODY, is_span, is_spread, moment, number, part, records, remember
from parsers.formats.json_values import count, text
from parsers.records import Request

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from parsers.formats.base import At
    from parsers.formats.process import Counts, Process

BODIES = line("body", b'"generation_time_ms":', BODY, b'"queue_time_ms":')

_TIMES = ("queue_time_ms", "time_to_first_token_ms", "generation_time_ms")


class Bodies:
    """Answers, each told once.

    Args:
        process: takes the requests.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._told: dict[str, None] = {}

    def take(self, m: re.Match[bytes], at: At) -> bool:
        """One answer or chunk, or an array of answers; false where none has the metrics."""
        found = False
        for body in records(m["body"]):
            for row in rows(body, self._process.counts):
                found = True
                if row.request_id in self._told:
                    continue
                if row.request_id is not None:
                    remember(self._told, row.request_id, None)
                row.line = row.first_line = at.number
                row.offset = at.offset
                self._process.emit(row)
        return found


def rows(body: Any, counts: Counts) -> Iterator[Request]:
    """The row of an answer that has the metrics."""
    whole = body if isinstance(body, dict) else {}
    answer = part(whole, "response") or whole
    metrics = part(answer, "metrics")
    if not any(key in metrics for key in _TIMES):
        return
    usage, drafts = part(answer, "usage"), part(metrics, "speculative_decoding")
    row = Request(engine="vllm", request_id=text(answer, "id"), model=text(answer, "model"))
    row.prompt_tokens = _either(usage, "prompt_tokens", "input_tokens")
    row.output_tokens = _either(usage, "completion_tokens", "output_tokens")
    details = part(usage, "prompt_tokens_details") or part(usage, "input_tokens_details")
    row.cached_tokens = count(details, "cached_tokens")
    if row.prompt_tokens is not None and row.cached_tokens is not None:
        row.prefill_tokens = max(row.prompt_tokens - row.cached_tokens, 0)
    row.draft_tokens = count(drafts, "num_draft_tokens")
    row.accepted_tokens = count(drafts, "num_accepted_draft_tokens")
    row.finish_reason = _finish_reason(answer)
    row.queue_ms, row.prefill_ms, row.decode_ms = (_ms(metrics, name, counts) for name in _TIMES)
    if row.prefill_ms is not None:
        row.ttft_ms = round((row.queue_ms or 0.0) + row.prefill_ms, 3)
        row.ttft_from = "slot" if row.queue_ms is None else "arrival"
    if row.decode_ms is not None and row.output_tokens:
        row.decode_steps = row.output_tokens - 1
    if row.ttft_ms is not None and row.decode_ms is not None:
        row.total_ms = round(row.ttft_ms + row.decode_ms, 3)
    row.started_at = moment(answer.get("created")) or moment(answer.get("created_at"))
    if row.started_at is not None and row.total_ms is not None:
        row.finished_at = row.started_at + timedelta(milliseconds=row.total_ms)
    yield row


def _ms(metrics: dict[str, Any], name: str, counts: Counts) -> float | None:
    value = number(metrics, name)
    if value is not None and not is_span(value):
        counts.impossible_values += 1
        return None
    return value


def _either(usage: dict[str, Any], *names: str) -> int | None:
    """A count by the name of either API."""
    return next((value for name in names if (value := count(usage, name)) is not None), None)


def _finish_reason(answer: dict[str, Any]) -> str | None:
    choices = answer.get("choices")
    if isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], dict):
        return text(choices[0], "finish_reason")
    return None


DOCUMENT = Document(
    name="vLLM answer with metrics",
    detect=lambda head: is_spread(head, "metrics", "generation_time_ms", "queue_time_ms"),
    rows=rows,
)
"""An answer that is printed over many lines, or an array of many."""
