"""When a request arrived, was scheduled, made its first and its last token, on the engine's steady clock.

Queue, prefill and decode are the differences. `/perf_metrics` gives seconds and the request's id, an answer
of Triton gives nanoseconds, maybe as strings, and no id. Neither gives a number of tokens, so the rows have
none but those of speculation. The clock counts from the machine's start: it orders the requests of a
process and is no time of day. A time of 0 was never reached. In a disaggregated pair each server has half
of a request, and what the proxy joins of them (``ctx_perf_metrics``) is not read.

Read in tensorrt_llm/serve/openai_server.py at 00057725 (2026) and all_models/inflight_batcher_llm of
tensorrtllm_backend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parsers.formats.base import line
from parsers.formats.json_records import BODY, is_span, number, part
from parsers.formats.json_values import count, text
from parsers.records import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers.formats.process import Counts

TIMED = (
    line("timed", b'"first_scheduled_time":', BODY, b'"first_token_time":'),
    line("timed", b'"first_scheduled_time_ns":', BODY, b'"first_token_time_ns":'),
)

_MOMENTS = ("arrival_time", "first_scheduled_time", "first_token_time", "last_token_time")


def _is_timed(record: dict[str, Any]) -> bool:
    """True for a record that is meant to have the times."""
    return "first_scheduled_time_ns" in record or bool(part(record, "perf_metrics", "timing_metrics"))


def _moments(record: dict[str, Any]) -> list[float]:
    """Arrival, first scheduling, first and last token in ms; those that were reached."""
    if "first_scheduled_time_ns" in record:
        found = [_scaled(record, f"{name}_ns", 1e-6) for name in _MOMENTS]
    else:
        found = [_scaled(part(record, "perf_metrics", "timing_metrics"), name, 1e3) for name in _MOMENTS]
    return [moment for moment in found if moment is not None and moment > 0]


def _request(record: dict[str, Any], reached: list[float]) -> Request | None:
    """The row of a record whose request was served; ``None`` where its times contradict each other."""
    arrived, scheduled, first, last = reached
    phases = (scheduled - arrived, first - scheduled, last - first)
    if not all(map(is_span, phases)):
        return None
    queue_ms, prefill_ms, decode_ms = (round(ms, 3) for ms in phases)
    drafts = part(record, "perf_metrics", "speculative_decoding") or record
    name = record.get("request_id")
    return Request(
        engine="tensorrt-llm",
        request_id=str(name) if isinstance(name, int) else text(record, "request_id"),
        model=text(record, "model_name"),
        queue_ms=queue_ms,
        prefill_ms=prefill_ms,
        decode_ms=decode_ms,
        ttft_ms=round(first - arrived, 3),
        ttft_from="arrival",
        total_ms=round(last - arrived, 3),
        draft_tokens=count(drafts, "total_draft_tokens") or None,
        accepted_tokens=count(drafts, "total_accepted_draft_tokens")
        if count(drafts, "total_draft_tokens")
        else None,
        clock_start_ms=round(arrived, 3),
        clock_end_ms=round(last, 3),
    )


def rows(record: Any, counts: Counts) -> Iterator[Request]:
    """The row of a record that is meant to have the times."""
    if not isinstance(record, dict) or not _is_timed(record):
        return
    reached = _moments(record)
    row = _request(record, reached) if len(reached) == len(_MOMENTS) else None
    if row is not None:
        yield row
    elif len(reached) == len(_MOMENTS):
        counts.impossible_values += 1
    else:
        counts.incomplete_requests += 1


def _scaled(values: dict[str, Any], key: str, scale: float) -> float | None:
    value = number(values, key)
    return None if value is None else value * scale
