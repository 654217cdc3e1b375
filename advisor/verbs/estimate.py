"""`phasewise estimate`: the physics as a question."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from advisor.options import (
    ActiveWeightsBytes,
    Bandwidth,
    Cached,
    ContextDepth,
    DecodeRate,
    DeviceName,
    EstimateFormat,
    Gguf,
    KvBytesPerToken,
    Layers,
    NoFlashAttention,
    OutputTokens,
    PrefillPoint,
    Prompt,
    Tflops,
    Vram,
    WeightsBytes,
    grouped,
)


@grouped
def estimate(
    gguf: Gguf = None,
    weights_bytes: WeightsBytes = None,
    layers: Layers = None,
    kv_bytes_per_token: KvBytesPerToken = None,
    active_weights_bytes: ActiveWeightsBytes = None,
    device: DeviceName = None,
    bandwidth: Bandwidth = None,
    tflops: Tflops = None,
    vram: Vram = None,
    prompt: Prompt = None,
    output: OutputTokens = None,
    cached: Cached = 0,
    context_depth: ContextDepth = 0,
    prefill_point: PrefillPoint = None,
    decode_tok_s: DecodeRate = None,
    no_flash_attention: NoFlashAttention = False,
    format: Annotated[EstimateFormat, typer.Option(help="What to print.")] = EstimateFormat.TERMINAL,  # noqa: A002
) -> None:
    """Say what a request will cost, before anything runs."""
    from advisor.estimate import estimate as answer
    from advisor.estimate_inputs import ask_of, hardware_of, model_of

    found = answer(
        model_of(gguf, weights_bytes, active_weights_bytes, layers, kv_bytes_per_token),
        hardware_of(device, bandwidth, tflops, vram, is_here=not prefill_point and decode_tok_s is None),
        ask_of(prompt, output, cached, context_depth, prefill_point, decode_tok_s, not no_flash_attention),
    )
    if format is EstimateFormat.JSON:
        sys.stdout.write(json.dumps(found.as_json(), indent=2) + "\n")
    else:
        from advisor.report.estimate import show

        show(found)
