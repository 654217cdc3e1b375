"""What each layer of a model keeps per token, from the metadata of its GGUF file.

The keys are those of GGUF without the architecture's prefix (`block_count`, `attention.head_count_kv`, ...);
how an architecture arranges its layers is not in the file but in llama.cpp's `src/models/` (August 2026).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rules.physics.kv import bytes_per_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Facts = Mapping[str, Any]

STATE_BYTES_PER_VALUE = 4.0
"""Recurrent state is kept in f32 whatever the KV type (`llama_memory_recurrent`)."""

WINDOW_PERIOD = {
    "afmoe": 4,
    "cohere2": 4,
    "exaone-moe": 4,
    "exaone4": 4,
    "gemma2": 2,
    "gemma3": 6,
    "gemma3n": 5,
    "gpt-oss": 2,
    "llama4": 4,
    "olmo2": 4,
    "plamo3": 8,
    "cohere2moe": 4,
    "laguna": 4,
    "smallthinker": 4,
}
"""Every n-th layer sees all of the context, the others a window."""

_GLOBAL_FIRST = {"cohere2moe", "laguna", "smallthinker"}
"""The first layer of each period is the global one; elsewhere it is the last."""

DEFAULT_WINDOW = {"gemma2": 4096, "llama4": 8192}
_WINDOW_UNUSED = {"llama", "phi3", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "starcoder2"}
"""Their files may name a window that llama.cpp does not use."""

ATTENTION_INTERVAL = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4}
"""Every n-th layer is attention, the others are recurrent."""

_ALL_RECURRENT = {"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"}
_BOTH = {"falcon-h1"}
_FIRST_LAYERS_WITH_CACHE = {"gemma3n": 20}
_OTHER_CACHES = {
    "bailingmoe3",
    "deepseek32",
    "deepseek4",
    "dots3note",
    "glm-dsa",
    "minimax-01",
    "minimax-m3",
    "nanbeige",
    "t5",
}
"""A key index, compressed keys, cross attention or another kind of state: no size is given for these."""


@dataclass(frozen=True, slots=True)
class LayerCache:
    """What one layer keeps of one sequence.

    Attributes:
        k_values: Key values per token; with latent attention the latent vector, which serves both.
        v_values: Value values per token.
        window_tokens: Tokens that the layer sees; None for all.
        state_bytes: Recurrent state, the same at any context; None when there is one of unknown size.
    """

    k_values: int = 0
    v_values: int = 0
    window_tokens: int | None = None
    state_bytes: float | None = 0.0


def cache_size_bytes(
    layers: Sequence[LayerCache],
    context_tokens: float,
    type_k: str = "f16",
    type_v: str = "f16",
    *,
    ubatch_tokens: int = 512,
) -> float | None:
    """Cache of one sequence at a context length; None when a KV type or a recurrent state is unknown.

    A decode step reads all of it. Sliding-window layers keep window + ubatch tokens at most (llama.cpp#13833;
    with `--swa-full` everything).

    Args:
        layers: From `cache_layers`.
        context_tokens: Context length.
        type_k: KV type of the keys.
        type_v: KV type of the values.
        ubatch_tokens: The physical batch size, `-ub`.
    """
    total = 0.0
    for layer in layers:
        per_token = _bytes_per_token(layer, type_k, type_v)
        if per_token is None or layer.state_bytes is None:
            return None
        kept = context_tokens
        if layer.window_tokens is not None:
            kept = min(context_tokens, layer.window_tokens + ubatch_tokens)
        total += per_token * kept + layer.state_bytes
    return total


def cache_growth_bytes_per_token(
    layers: Sequence[LayerCache], type_k: str = "f16", type_v: str = "f16"
) -> float | None:
    """Bytes that each further token of a long context adds: only layers that see all of it grow.

    None when a KV type is unknown.
    """
    grown = [_bytes_per_token(layer, type_k, type_v) for layer in layers if layer.window_tokens is None]
    return None if None in grown else sum(size for size in grown if size is not None)


def _bytes_per_token(layer: LayerCache, type_k: str, type_v: str) -> float | None:
    bytes_k, bytes_v = bytes_per_value(type_k), bytes_per_value(type_v)
    if bytes_k is None or bytes_v is None:
        return None
    return layer.k_values * bytes_k + layer.v_values * bytes_v


def cache_layers(architecture: str | None, facts: Facts) -> list[LayerCache] | None:
    """The layers of a model as its cache sees them; None when the facts don't settle it.

    Args:
        architecture: `general.architecture`; None when unknown, then only models without a window are told.
        facts: GGUF metadata by key without the architecture's prefix. A count or a list of one per layer.
    """
    n_layers = facts.get("block_count")
    if not isinstance(n_layers, int) or architecture in _OTHER_CACHES:
        return None
    n_layers -= facts.get("nextn_predict_layers") or 0
    windows = _windows(architecture, facts, n_layers)
    if windows is None:
        return None
    state = _state_bytes(facts)
    recurrent = _recurrent(architecture, facts, n_layers, stateful=state is not None)
    last_cached = _FIRST_LAYERS_WITH_CACHE.get(architecture or "", n_layers) - (
        facts.get("attention.shared_kv_layers") or 0
    )
    layers = []
    for index in range(n_layers):
        attends = architecture in _BOTH or not recurrent[index]
        values = _kv_values(facts, index, windowed=windows[index] is not None) if attends else (0, 0)
        if values is None:
            return None
        if index >= last_cached:
            values = (0, 0)
        layers.append(LayerCache(*values, windows[index], state if recurrent[index] else 0.0))
    return layers


def _at(facts: Facts, key: str, index: int) -> int | None:
    """A per-layer fact: the same for all, or one of a list."""
    value = facts.get(key)
    if isinstance(value, list):
        value = value[index] if index < len(value) else None
    return int(value) if isinstance(value, int | float) else None


def _windows(architecture: str | None, facts: Facts, n_layers: int) -> list[int | None] | None:
    """The window of each layer, None for all of the context; None for an unknown arrangement."""
    everything: list[int | None] = [None] * n_layers
    window = facts.get("attention.sliding_window")
    if window is None:
        window = DEFAULT_WINDOW.get(architecture or "")
    if not window or architecture in _WINDOW_UNUSED or (architecture == "exaone4" and n_layers != 64):
        return everything
    pattern = facts.get("attention.sliding_window_pattern")
    if isinstance(pattern, list):
        return [window if index < len(pattern) and pattern[index] else None for index in range(n_layers)]
    period = pattern or WINDOW_PERIOD.get(architecture or "")
    if not period:
        return None
    global_at = 0 if architecture in _GLOBAL_FIRST else period - 1
    return [None if index % period == global_at else window for index in range(n_layers)]


def _recurrent(architecture: str | None, facts: Facts, n_layers: int, *, stateful: bool) -> list[bool]:
    """Which layers keep a state in place of keys and values.

    A layer without KV heads does where the file describes a state; elsewhere it has no attention at all.
    """
    if architecture in _ALL_RECURRENT | _BOTH:
        return [True] * n_layers
    stated = facts.get("attention.recurrent_layers")
    if isinstance(stated, list):
        return [bool(index < len(stated) and stated[index]) for index in range(n_layers)]
    if default := ATTENTION_INTERVAL.get(architecture or ""):
        interval = facts.get("full_attention_interval") or default
        return [(index + 1) % interval != 0 for index in range(n_layers)]
    feed_forward_alone = (architecture or "").startswith("nemotron_h")
    return [
        stateful
        and _at(facts, "attention.head_count_kv", index) == 0
        and not (feed_forward_alone and _at(facts, "feed_forward_length", index))
        for index in range(n_layers)
    ]


def _kv_values(facts: Facts, index: int, *, windowed: bool) -> tuple[int, int] | None:
    """Key and value values per token of an attention layer."""
    heads = _at(facts, "attention.head_count", index)
    kv_heads = _at(facts, "attention.head_count_kv", index)
    kv_heads = heads if kv_heads is None else kv_heads
    if kv_heads is None:
        return None
    embedding = facts.get("embedding_length")
    per_head = embedding // heads if isinstance(embedding, int) and heads else None
    head_k = facts.get("attention.key_length") or per_head
    head_v = facts.get("attention.value_length") or per_head
    if windowed:
        head_k = facts.get("attention.key_length_swa") or head_k
        head_v = facts.get("attention.value_length_swa") or head_v
    if facts.get("attention.key_length_mla"):
        return None if head_k is None else (kv_heads * head_k, 0)
    if kv_heads and (head_k is None or head_v is None):
        return None
    return kv_heads * (head_k or 0), kv_heads * (head_v or 0)


def _state_bytes(facts: Facts) -> float | None:
    """State of one recurrent layer: the convolution's last inputs and the recurrent matrix.

    As llama.cpp's `n_embd_r` and `n_embd_s`; None for a kind that is not known.
    """
    embedding = facts.get("embedding_length")
    kernel, inner, size = (facts.get(f"ssm.{name}") for name in ("conv_kernel", "inner_size", "state_size"))
    if isinstance(kept := facts.get("shortconv.l_cache"), int) and isinstance(embedding, int):
        values = embedding * (kept - 1)
    elif isinstance(head := facts.get("wkv.head_size"), int) and isinstance(embedding, int):
        values = (facts.get("token_shift_count") or 2) * embedding + embedding * head
    elif isinstance(head := facts.get("kda.head_dim"), int) and isinstance(
        heads := _at(facts, "attention.head_count", 0), int
    ):
        values = 3 * ((kernel or 4) - 1) * heads * head + heads * head * head
    elif isinstance(kernel, int) and isinstance(inner, int) and isinstance(size, int):
        groups = facts.get("ssm.group_count") or 0
        values = (kernel - 1) * (inner + 2 * groups * size) + size * inner
    else:
        return None
    return STATE_BYTES_PER_VALUE * values
