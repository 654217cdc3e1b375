"""llama-server's names (`tools/server`; checked on snapshots of b11434 and of mid-2025 beside their logs).

There are sums of prompt and generation times, and no number of requests, so no mean. Waiting for a slot is in
none of them. ``prompt_tokens_total`` is without the tokens from the cache, which newer builds count apart.
Those builds also changed what ``prompt_seconds_total`` counts: a batch once, where older ones add up the
requests, as both do for generation. With several slots busy such a sum is not of requests. Older builds cut
each request's times to whole ms. ``prompt_tokens_seconds`` and its like are averages since the scrape before,
which resets them, so they are not read.
"""

from __future__ import annotations

from parsers.formats.prometheus.names import Names

NAMES = Names(
    engine="llama-server",
    title="llama-server /metrics",
    versions="b2364 and newer",
    prefixes=("llamacpp:",),
    ranks=(),
    prefill_tokens=("prompt_tokens_total",),
    cached_tokens=("prompt_tokens_cached_total",),
    output_tokens=("tokens_predicted_total",),
    prefill=("prompt_seconds_total",),
    per_batch=("prompt_tokens_cached_total", "spec_decode_num_drafts_total"),
    busy=("n_busy_slots_per_decode",),
    batches=("n_decode_total",),
    decode=("tokens_predicted_seconds_total",),
    running=("requests_processing",),
    waiting=("requests_deferred",),
    kv_usage=("kv_cache_usage_ratio",),
)
