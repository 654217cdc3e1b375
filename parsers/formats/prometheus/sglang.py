"""SGLang's names (`python/sglang/srt/observability/metrics_collector.py` and `req_time_stats.py`).

The prefill is the stage ``prefill_forward``, one observation for each request from its first forward pass to
its last chunk; the decode stage is not observed. A request that is not streamed comes in pieces of 50 tokens,
so its first token is seen late: the gaps between tokens are decode only where there is one for each token.
"""

from __future__ import annotations

from parsers.formats.prometheus.names import Names

NAMES = Names(
    engine="sglang",
    title="SGLang /metrics",
    versions="0.4 and newer",
    prefixes=("sglang:", "sglang_"),
    ranks=("dp_rank",),
    select={"per_stage_req_latency_seconds": "stage"},
    requests=("e2e_request_latency_seconds",),
    prompt_tokens=("prompt_tokens_total",),
    cached_tokens=("cached_tokens_total",),
    output_tokens=("generation_tokens_total",),
    queue=("queue_time_seconds",),
    prefill=("per_stage_req_latency_seconds[prefill_forward]",),
    total=("e2e_request_latency_seconds",),
    first=("time_to_first_token_seconds",),
    first_from="arrival",
    gaps=("inter_token_latency_seconds",),
    per_token=("request_time_per_output_token_seconds",),
    running=("num_running_reqs",),
    waiting=("num_queue_reqs",),
    kv_usage=("token_usage",),
    hit_rate=("cache_hit_rate",),
    aborted=("num_aborted_requests_total",),
)
