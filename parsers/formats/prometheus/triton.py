"""Triton Inference Server's names (its `docs/user_guide/metrics.md`), with those of its TensorRT-LLM backend.

Durations are sums over requests in microseconds, for each model apart. The models of an ensemble share each
request, so only those that the TensorRT-LLM backend runs are read, where it has numbers of its own. A model's
compute time is all of it, so prefill and decode are not told apart.
"""

from __future__ import annotations

from parsers.formats.prometheus.names import Names

NAMES = Names(
    engine="triton",
    title="Triton Inference Server /metrics",
    versions="2.20 and newer",
    prefixes=("nv_",),
    model=("model",),
    core=("trt_llm_request_metrics[scheduled]",),
    ranks=(),
    select={
        "trt_llm_request_metrics": "request_type",
        "trt_llm_kv_cache_block_metrics": "kv_cache_block_type",
    },
    requests=("inference_request_success",),
    prompt_tokens=("llm_input_token_len",),
    output_tokens=("llm_output_token_len",),
    queue=("inference_queue_duration_us",),
    total=("inference_request_duration_us",),
    first=("inference_first_response_histogram_ms",),
    first_from="arrival",
    running=("trt_llm_request_metrics[scheduled]",),
    waiting=("trt_llm_request_metrics[waiting]", "inference_pending_request_count"),
    kv_usage=("trt_llm_kv_cache_block_metrics[fraction]",),
    failed=("inference_request_failure",),
)
