"""Traces as Jaeger's API and the download of its UI have them, ``{"data":[{"traceID":...}]}``, as OTLP spans.

A span's times are microseconds there, its attributes are `tags`, and lists among them are JSON in a string.
What OTLP calls resource and scope is the process that the span names, and two of its tags.

Read in jaegertracing/jaeger's model/json/model.go (internal/uimodel/model.go since v2).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_US_IN_NS = 1000
_ERROR = {"code": 2}


def spans(traces: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The spans of an answer, or of one of its traces, each with what its scope and service are called."""
    data = traces.get("data")
    for trace in data if isinstance(data, list) else [traces]:
        if not isinstance(trace, dict) or not isinstance(trace.get("spans"), list):
            continue
        processes = trace.get("processes")
        for span in trace["spans"]:
            if isinstance(span, dict):
                yield as_otlp(span), named(span, processes if isinstance(processes, dict) else {})


def named(span: dict[str, Any], processes: dict[str, Any]) -> str:
    """What the span's scope and service are called."""
    tags = _tags(span)
    process = processes.get(str(span.get("processID")))
    service = process.get("serviceName") if isinstance(process, dict) else None
    return f"{tags.get('otel.scope.name') or tags.get('otel.library.name') or ''} {service or ''}".lower()


def as_otlp(span: dict[str, Any]) -> dict[str, Any]:
    """A span of Jaeger's as OTLP/JSON has it, as far as it is read."""
    tags = _tags(span)
    start, lasted = span.get("startTime"), span.get("duration")
    if not isinstance(start, int) or not isinstance(lasted, int):
        start = lasted = 0
    failed = tags.get("error") in (True, "true") or tags.get("otel.status_code") == "ERROR"
    return {
        "traceId": span.get("traceID"),
        "spanId": span.get("spanID"),
        "startTimeUnixNano": start * _US_IN_NS,
        "endTimeUnixNano": (start + lasted) * _US_IN_NS,
        "attributes": [{"key": key, "value": {"value": value}} for key, value in tags.items()],
        "status": _ERROR if failed else {},
    }


def _tags(span: dict[str, Any]) -> dict[str, Any]:
    tags = span.get("tags")
    pairs = [tag for tag in tags if isinstance(tag, dict)] if isinstance(tags, list) else []
    return {tag["key"]: _plain(tag.get("value")) for tag in pairs if isinstance(tag.get("key"), str)}


def _plain(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith("["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
