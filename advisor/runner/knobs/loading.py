"""Knobs of how the model is loaded and run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from advisor.runner.knobs.knob import Knob, setting
from advisor.runner.knobs.values import (
    KV_TYPES,
    MOST_THREADS,
    MOST_TOKENS,
    PLAIN_KV_TYPES,
    gguf,
    kv_type,
    or_word,
    switch,
    whole,
)
from advisor.runner.settings import ALL_LAYERS

if TYPE_CHECKING:
    from advisor.runner.arm import Arm

_TOKENS, _THREADS = whole(1, MOST_TOKENS), whole(1, MOST_THREADS)
_MOST_LAYERS, _MOST_DRAFTED = 10_000, 64
_KV_TYPES = ", ".join(KV_TYPES)


def _threads(arm: Arm, value: int) -> Arm:
    """Of both phases, as llama.cpp's ``-t`` does, unless those of prefill were set to another number."""
    was = arm.settings
    batch = value if was.threads_batch in (None, was.threads) else was.threads_batch
    return replace(arm, settings=replace(was, threads=value, threads_batch=batch))


def _batch(arm: Arm, value: int) -> Arm:
    """A larger physical batch is cut to it, as the engines do."""
    ubatch = arm.settings.ubatch and min(arm.settings.ubatch, value)
    return replace(arm, settings=replace(arm.settings, batch=value, ubatch=ubatch))


def _batch_for(arm: Arm, ubatch: int) -> str:
    """A logical batch has to hold the physical one; what is not set will."""
    return f"batch={ubatch}" if 0 < (arm.settings.batch or 0) < ubatch else ""


def _flash_for(arm: Arm, kv: str) -> str:
    """A quantised V cache needs flash attention in llama.cpp."""
    return "" if kv in PLAIN_KV_TYPES or arm.settings.flash_attention else "flash=on"


LOADING = (
    Knob(
        "context",
        "tokens that prompt and answer share",
        "tokens",
        _TOKENS,
        setting("context"),
        ("ctx", "n-ctx", "num-ctx"),
    ),
    Knob(
        "batch",
        "prompt tokens in a logical batch; a larger ubatch is cut to it",
        "tokens",
        _TOKENS,
        _batch,
        ("n-batch",),
    ),
    Knob(
        "ubatch",
        "prompt tokens computed at once; a smaller batch grows to it, on both sides",
        "tokens",
        _TOKENS,
        setting("ubatch"),
        ("n-ubatch",),
        needs=_batch_for,
    ),
    Knob(
        "threads",
        "threads for decode, and for prefill unless threads-batch is set",
        "a number",
        _THREADS,
        _threads,
        ("n-threads",),
    ),
    Knob(
        "threads-batch",
        "threads for prefill",
        "a number",
        _THREADS,
        setting("threads_batch"),
        ("n-threads-batch",),
    ),
    Knob(
        "flash",
        "flash attention; each is compared with the other",
        "on, off",
        switch,
        setting("flash_attention"),
        ("flash-attn", "fa"),
        against=lambda is_on: "flash=off" if is_on else "flash=on",
    ),
    Knob(
        "kv",
        "type of the KV cache, keys and values; a quantised one turns flash attention on, on both sides",
        _KV_TYPES,
        kv_type,
        setting("kv_type_k", "kv_type_v"),
        ("kv-type", "cache-type"),
        needs=_flash_for,
    ),
    Knob("kv-k", "type of its keys", _KV_TYPES, kv_type, setting("kv_type_k"), ("cache-type-k",)),
    Knob(
        "kv-v",
        "type of its values; a quantised one turns flash attention on, on both sides",
        _KV_TYPES,
        kv_type,
        setting("kv_type_v"),
        ("cache-type-v",),
        needs=_flash_for,
    ),
    Knob(
        "gpu-layers",
        "layers on the GPU",
        "all, or a number",
        or_word("all", ALL_LAYERS, whole(0, _MOST_LAYERS)),
        setting("gpu_layers"),
        ("ngl", "n-gpu-layers"),
    ),
    Knob(
        "lookup",
        "tokens that prompt lookup proposes at a time; made text is not yours: try it with --prompts FILE",
        "off, or tokens",
        or_word("off", None, whole(1, _MOST_DRAFTED)),
        setting("lookup"),
        ("prompt-lookup",),
    ),
    Knob(
        "draft",
        "a small model that proposes tokens",
        "off, or a GGUF file",
        or_word("off", None, gguf),
        setting("draft_model"),
        ("draft-model",),
    ),
    Knob("model", "another file, such as a quantised one", "a GGUF file", gguf, setting("model")),
    Knob("mlock", "the weights are kept in memory", "on, off", switch, setting("mlock")),
)
