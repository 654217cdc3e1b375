"""LMDeploy's names (`lmdeploy/metrics/loggers.py`), which are vLLM's.

``generation_tokens_total`` is not read: a release that is checked adds every token twice.
"""

from __future__ import annotations

from parsers.formats.prometheus.names import Names

NAMES = Names(
    engine="lmdeploy",
    title="LMDeploy /metrics",
    versions="0.9 and newer",
    prefixes=("lmdeploy:",),
    requests=("e2e_request_latency_seconds",),
    prompt_tokens=("request_prompt_tokens",),
    output_tokens=("request_generation_tokens",),
    queue=("request_queue_time_seconds",),
    prefill=("request_prefill_time_seconds",),
    decode=("request_decode_time_seconds",),
    total=("e2e_request_latency_seconds",),
    first=("time_to_first_token_seconds",),
    first_from="arrival",
    running=("num_requests_running",),
    waiting=("num_requests_waiting",),
    kv_usage=("gpu_cache_usage_perc",),
)
