"""vLLM's names (`vllm/engine/metrics.py` of V0, `vllm/v1/metrics/loggers.py`; checked on snapshots of 0.32).

Prefill is from the scheduler's first look to the first token, decode from there to the last. A finished
request enters the histograms of times and tokens at once; time to first token is entered when the token
comes, so it also has requests that still run and those that were aborted, and nothing else has those.
The wait for the API server before the engine core is only in ``e2e`` and ``time_to_first_token``.

The router of vLLM's production-stack (a6c01db0) repeats the gauges of its servers, each with its address, and
has no sums of its own.
"""

from __future__ import annotations

from parsers.formats.prometheus.names import Names

NAMES = Names(
    engine="vllm",
    title="vLLM /metrics",
    versions="0.4 and newer",
    prefixes=("vllm:",),
    ranks=("engine", "server"),
    select={"request_success_total": "finished_reason", "prompt_tokens_by_source_total": "source"},
    requests=("e2e_request_latency_seconds",),
    prompt_tokens=("request_prompt_tokens",),
    prefill_tokens=("request_prefill_kv_computed_tokens",),
    output_tokens=("request_generation_tokens",),
    queue=("request_queue_time_seconds", "time_in_queue_requests"),
    prefill=("request_prefill_time_seconds",),
    decode=("request_decode_time_seconds",),
    total=("e2e_request_latency_seconds",),
    first=("time_to_first_token_seconds",),
    first_from="arrival",
    gaps=("inter_token_latency_seconds", "time_per_output_token_seconds"),
    per_token=("request_time_per_output_token_seconds",),
    running=("num_requests_running",),
    waiting=("num_requests_waiting",),
    kv_usage=("kv_cache_usage_perc", "gpu_cache_usage_perc"),
    hit_rate=("gpu_prefix_cache_hit_rate",),
    live_prompt=("prompt_tokens_by_source_total[local_compute]", "prompt_tokens_total"),
    live_prefill=("prompt_tokens_by_source_total[local_compute]",),
    live_cached=("prompt_tokens_by_source_total[local_cache_hit]",),
    live_output=("generation_tokens_total",),
    aborted=("request_success_total[abort]",),
    failed=("request_success_total[error]",),
    config="cache_config_info",
    facts={
        "block_size": "block_tokens",
        "enable_prefix_caching": "prefix_caching",
        "gpu_memory_utilization": "memory_share",
        "kv_cache_size_tokens": "context_total",
    },
)
