"""The Dynamo frontend's names (`lib/runtime/src/metrics/prometheus_names.rs`, `lib/llm/src/http`).

The frontend sees requests from outside: up to the first token is queue and prefill together, the gaps
between tokens are decode. The engines behind it have numbers of their own. Why a request failed, and that
its client left, newer versions tell (`error_type`); before, both were errors.
"""

from __future__ import annotations

from parsers.formats.prometheus.names import Names

NAMES = Names(
    engine="dynamo",
    title="Dynamo frontend /metrics",
    versions="0.4 and newer",
    prefixes=("dynamo_frontend_",),
    model=("model",),
    ranks=(),
    select={"requests_total": "error_type,status"},
    requests=("request_duration_seconds",),
    prompt_tokens=("input_sequence_tokens",),
    cached_tokens=("cached_tokens",),
    output_tokens=("output_sequence_tokens",),
    total=("request_duration_seconds",),
    first=("time_to_first_token_seconds",),
    first_from="arrival",
    gaps=("inter_token_latency_seconds",),
    running=("inflight_requests",),
    waiting=("queued_requests",),
    aborted=("requests_total[cancelled]",),
    failed=tuple(
        f"requests_total[{why}]"
        for why in ("error", "validation", "not_found", "overload", "internal", "not_implemented")
    ),
)
