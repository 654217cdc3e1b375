"""Text Generation Inference's names (`router/src/server.rs`, `backends/v3/src/backend.rs`).

Inference is prefill and decode together. ``tgi_batch_inference_duration`` tells them apart, but for batches:
a batch's time counts once there and for each of its requests here, so it can't split these sums.
"""

from __future__ import annotations

from parsers.formats.prometheus.names import Names

NAMES = Names(
    engine="tgi",
    title="Text Generation Inference /metrics",
    versions="1.0 and newer",
    prefixes=("tgi_",),
    ranks=(),
    requests=("request_duration",),
    prompt_tokens=("request_input_length",),
    output_tokens=("request_generated_tokens",),
    queue=("request_queue_duration",),
    total=("request_duration",),
    running=("batch_current_size",),
    waiting=("queue_size",),
    failed=("request_failure",),
)
