"""TensorRT-LLM's names (`tensorrt_llm/metrics/collector.py`); older ones have no prefix and are not read.

Prefill is from the first schedule to the first token, decode from there to the last.
"""

from __future__ import annotations

from parsers.formats.prometheus.names import Names

NAMES = Names(
    engine="tensorrt-llm",
    title="TensorRT-LLM /metrics",
    versions="1.0 and newer",
    prefixes=("trtllm_",),
    ranks=(),
    requests=("e2e_request_latency_seconds",),
    prompt_tokens=("prompt_tokens_total",),
    cached_tokens=("prompt_cached_tokens_total",),
    output_tokens=("generation_tokens_total",),
    queue=("request_queue_time_seconds",),
    prefill=("request_prefill_time_seconds",),
    decode=("request_decode_time_seconds",),
    total=("e2e_request_latency_seconds",),
    first=("time_to_first_token_seconds",),
    first_from="arrival",
    per_token=("time_per_output_token_seconds",),
    running=("num_requests_running",),
    waiting=("num_requests_waiting",),
    kv_usage=("kv_cache_utilization",),
    hit_rate=("kv_cache_hit_rate",),
    failed=("request_error_total",),
)
