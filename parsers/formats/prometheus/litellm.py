"""LiteLLM's names (`litellm/integrations/prometheus.py`).

The gateway times its own queue and its call to an engine; only streamed requests have a first token, whose
clock starts at that call. Labels with keys, users and teams are summed over and never kept.
"""

from __future__ import annotations

from parsers.formats.prometheus.names import Names

NAMES = Names(
    engine="litellm",
    title="LiteLLM /metrics",
    versions="1.40 and newer",
    prefixes=("litellm_",),
    model=("model", "litellm_model_name", "requested_model"),
    ranks=(),
    requests=("request_total_latency_metric",),
    prompt_tokens=("input_tokens_metric_total", "input_tokens_metric"),
    output_tokens=("output_tokens_metric_total", "output_tokens_metric"),
    queue=("request_queue_time_seconds",),
    total=("request_total_latency_metric",),
    queued_before=True,
    first=("llm_api_time_to_first_token_metric",),
    after_call=("llm_api_latency_metric",),
)
