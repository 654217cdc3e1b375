"""KV cache size. Where a log states the size, use that instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

KV_BYTES_PER_VALUE = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
    "fp8": 1.0,
}
"""Bytes per cached value: block bytes over block length (ggml); fp8 as vLLM and SGLang store it."""

_SAME_AS = {
    "float32": "f32",
    "float16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
    "fp8_e4m3": "fp8",
    "fp8_e4m3fn": "fp8",
    "fp8_e5m2": "fp8",
}


def bytes_per_value(kv_type: str) -> float | None:
    """Bytes per cached value of a KV type as engines name it; None when unknown."""
    name = kv_type.strip().lower()
    return KV_BYTES_PER_VALUE.get(_SAME_AS.get(name, name))


def kv_bytes_per_token(
    kv_heads_per_layer: Sequence[int],
    head_dim_k: int,
    head_dim_v: int,
    type_k: str = "f16",
    type_v: str = "f16",
) -> float | None:
    """KV bytes that one token of context takes.

    Sum over layers of kv_heads * (head_k * bytes_k + head_v * bytes_v), for multi-head, grouped-query
    (Ainslie et al. 2023, arXiv:2305.13245) and multi-query attention. None when a KV type is unknown.

    Args:
        kv_heads_per_layer: One entry per attention layer; `[kv_heads] * layers` when all are alike. A layer
            without attention counts 0.
        head_dim_k: Size of a key head.
        head_dim_v: Size of a value head.
        type_k: KV type of the keys.
        type_v: KV type of the values.
    """
    bytes_k, bytes_v = bytes_per_value(type_k), bytes_per_value(type_v)
    if bytes_k is None or bytes_v is None:
        return None
    return sum(kv_heads_per_layer) * (head_dim_k * bytes_k + head_dim_v * bytes_v)


def mla_bytes_per_token(layers: int, kv_lora_rank: int, rope_dim: int, kv_type: str = "f16") -> float | None:
    """KV bytes per token of multi-head latent attention: L * (kv_lora_rank + rope_dim) * bytes.

    One latent vector serves keys and values (DeepSeek-V2, arXiv:2405.04434). None when the type is unknown.
    """
    size = bytes_per_value(kv_type)
    return None if size is None else layers * (kv_lora_rank + rope_dim) * size


def cache_bytes(
    context_tokens: float,
    global_bytes_per_token: float,
    *,
    local_bytes_per_token: float = 0.0,
    window_tokens: int = 0,
    ubatch_tokens: int = 512,
    state_bytes: float = 0.0,
) -> float:
    """Cache of one sequence at a context length: global layers, sliding-window layers, recurrent state.

    global * ctx + local * min(ctx, window + ubatch) + state: llama.cpp keeps window + ubatch cells for
    sliding-window layers (llama.cpp#13833; with `--swa-full` they are global ones), and a recurrent layer
    keeps one state of constant size whatever the context.

    Args:
        context_tokens: Context length.
        global_bytes_per_token: KV bytes per token of the layers that see all of it.
        local_bytes_per_token: KV bytes per token of the sliding-window layers.
        window_tokens: Their window.
        ubatch_tokens: The physical batch size, `-ub`.
        state_bytes: Recurrent state of one sequence.
    """
    local_tokens = min(context_tokens, window_tokens + ubatch_tokens)
    return global_bytes_per_token * context_tokens + local_bytes_per_token * local_tokens + state_bytes
