"""A span's attributes, and the request it tells of.

vLLM's V1 states queue, prefill and decode; the time to first token and the total are the front end's and
start at the arrival. V0 states queue, time to first token and total, all on one clock: prefill is the time to
first token without the queue, decode what the total has beyond it. SGLang's prefill begins when its front end
hands the request on, with the queue in it, so only its first token and its end are used.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from parsers.documents.base import items
from parsers.documents.base import text as text_of
from parsers.formats.json_records import is_span, number
from parsers.formats.json_values import count, text
from parsers.formats.otel import jaeger
from parsers.records import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers.formats.process import Counts

OTHER = "opentelemetry"
ENGINES = ("vllm", "sglang", "tensorrt-llm", "lmdeploy", "ollama", "tgi", "litellm")
"""Engines and gateways that a resource or a scope may name."""

_LATENCY = "gen_ai.latency."
_GENERATIONS = {"chat", "text_completion", "generate_content", "generate"}
_EMBEDDINGS = {"embeddings", "embedding"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGER = re.compile(r"-?[0-9]{1,19}")
"""64 bits."""


def spans(batch: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The spans of a batch or of Jaeger's traces, each with what its resource and scope are called."""
    if "resourceSpans" not in batch:
        yield from jaeger.spans(batch)
        return
    for resource in _objects(batch, "resourceSpans"):
        service = attributes(resource.get("resource")).get("service.name")
        for scope in _objects(resource, "scopeSpans") or _objects(resource, "instrumentationLibrarySpans"):
            library = scope.get("scope") or scope.get("instrumentationLibrary")
            name = library.get("name") if isinstance(library, dict) else None
            for span in _objects(scope, "spans"):
                yield span, f"{name or ''} {service or ''}".lower()


def attributes(holder: object) -> dict[str, Any]:
    """The attributes of a span or a resource as plain values; 64-bit integers are strings in OTLP/JSON."""
    pairs = holder.get("attributes") if isinstance(holder, dict) else None
    found: dict[str, Any] = {}
    for pair in pairs if isinstance(pairs, list) else []:
        if (
            isinstance(pair, dict)
            and isinstance(pair.get("key"), str)
            and isinstance(pair.get("value"), dict)
        ):
            found[pair["key"]] = _plain(pair["value"])
    return found


def _plain(value: dict[str, Any]) -> Any:
    """A value, or a list of them; what is nested deeper is told by no attribute that is read."""
    kind, inner = next(iter(value.items()), ("", None))
    if kind == "arrayValue" and isinstance(inner, dict):
        return [_scalar(*next(iter(one.items()), ("", None))) for one in _objects(inner, "values")]
    return _scalar(kind, inner)


def _scalar(kind: str, inner: Any) -> Any:
    if kind == "intValue" and isinstance(inner, str):
        return int(inner) if _INTEGER.fullmatch(inner) else None
    return inner


def is_engine_span(known: dict[str, Any]) -> bool:
    """True for a span of the engine that served a request."""
    return any(key.startswith(_LATENCY) for key in known)


def kind_of(known: dict[str, Any]) -> str | None:
    """``generation``, ``embedding``, or ``None`` for tools, agents and all else."""
    operation = text(known, "gen_ai.operation.name")
    if is_engine_span(known) or operation in _GENERATIONS:
        return "generation"
    if operation in _EMBEDDINGS:
        return "embedding"
    named = "gen_ai.request.model" in known or "gen_ai.response.model" in known
    return "generation" if operation is None and named and _output_tokens(known) else None


def has_failed(span: dict[str, Any]) -> bool:
    """True for a span whose status is an error."""
    status = span.get("status")
    return isinstance(status, dict) and status.get("code") in (2, "STATUS_CODE_ERROR")


def request(span: dict[str, Any], known: dict[str, Any], named: str) -> Request:
    """The row of a span as it is told."""
    provider = str(known.get("gen_ai.provider.name") or known.get("gen_ai.system") or "").lower()
    row = Request(engine=next((e for e in ENGINES if e in named or e == provider), OTHER))
    row.request_id = text(known, "gen_ai.request.id") or text(known, "gen_ai.response.id")
    row.model = text(known, "gen_ai.response.model") or text(known, "gen_ai.request.model")
    row.kind = kind_of(known) or "generation"
    row.prompt_tokens = _first(known, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
    row.cached_tokens = _first(
        known, "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens"
    )
    row.output_tokens = _output_tokens(known) if row.kind == "generation" else None
    row.finish_reason = _finish_reason(known)
    start, end = number(span, "startTimeUnixNano"), number(span, "endTimeUnixNano")
    row.started_at, row.finished_at = _utc(start), _utc(end)
    lasted_ms = (end - start) / 1e6 if start and end else None
    row.total_ms = _ms(known, "e2e")
    if row.total_ms is None and is_span(lasted_ms) and lasted_ms is not None:
        row.total_ms = round(lasted_ms, 3)
    if row.kind == "generation":
        _split(row, known)
    return row


def _split(row: Request, known: dict[str, Any]) -> None:
    row.ttft_ms = _ms(known, "time_to_first_token")
    if row.ttft_ms is None and (chunk_s := number(known, "gen_ai.response.time_to_first_chunk")) is not None:
        row.ttft_ms = round(1000 * chunk_s, 3)
    if row.ttft_ms is not None:
        row.ttft_from = "arrival"
    row.queue_ms = _ms(known, "time_in_queue")
    if row.engine == "vllm":
        row.prefill_ms, row.decode_ms = (_ms(known, f"time_in_model_{p}") for p in ("prefill", "decode"))
        if row.prefill_ms is None and row.ttft_ms is not None and row.queue_ms is not None:
            row.prefill_ms = round(row.ttft_ms - row.queue_ms, 3)
    if row.decode_ms is None and row.ttft_ms is not None and row.total_ms is not None:
        row.decode_ms = round(row.total_ms - row.ttft_ms, 3)
    sequences = _first(known, "gen_ai.request.n", "gen_ai.usage.num_sequences", "gen_ai.request.choice.count")
    if row.output_tokens and row.decode_ms is not None and sequences in (None, 1):
        row.decode_steps = row.output_tokens - 1


def served(span: dict[str, Any], known: dict[str, Any], named: str, counts: Counts) -> Request | None:
    """The row of a span without times that can't be; ``None`` for a failure."""
    if has_failed(span):
        counts.failed_requests += 1
        return None
    row = request(span, known, named)
    for name in ("queue_ms", "prefill_ms", "decode_ms", "ttft_ms", "total_ms"):
        if getattr(row, name) is not None and not is_span(getattr(row, name)):
            setattr(row, name, None)
            counts.impossible_values += 1
    return row


def rows(batch: Any, counts: Counts) -> Iterator[Request]:
    """The rows of a batch that is read as a whole; of a trace that an engine has spans of, those."""
    found = [
        (span, attributes(span), named) for span, named in spans(batch if isinstance(batch, dict) else {})
    ]
    engines = {text(span, "traceId") for span, known, _ in found if is_engine_span(known)}
    for span, known, named in found:
        if kind_of(known) is None or (text(span, "traceId") in engines and not is_engine_span(known)):
            continue
        if (row := served(span, known, named, counts)) is not None:
            yield row


def _ms(known: dict[str, Any], name: str) -> float | None:
    seconds = number(known, _LATENCY + name)
    return None if seconds is None else round(1000 * seconds, 3)


def _first(known: dict[str, Any], *keys: str) -> int | None:
    return next((value for key in keys if (value := count(known, key)) is not None), None)


def _output_tokens(known: dict[str, Any]) -> int | None:
    return _first(known, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")


def _finish_reason(known: dict[str, Any]) -> str | None:
    return text_of(next(iter(items(known, "gen_ai.response.finish_reasons")), None))


def _utc(nanoseconds: float | None) -> datetime | None:
    try:
        return _EPOCH + timedelta(microseconds=round(nanoseconds / 1000)) if nanoseconds else None
    except OverflowError:
        return None


def _objects(holder: dict[str, Any], key: str) -> list[dict[str, Any]]:
    values = holder.get(key)
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
