"""What vLLM says of itself when it starts. Only what a line states; `auto` and `None` state nothing."""

from __future__ import annotations

import re

from parsers.formats.base import line, text
from parsers.setup import Device

VERSION = (
    line("started", b"vLLM API server version ", rb"vLLM API server version (?P<version>\S+)"),
    line("started", "█  version ".encode(), rb"[^\w\"']*version (?P<version>\d\S*)"),
)

CONFIG = line(
    "config",
    b"LLM engine ",
    rb"Initializing an? (?:V\d )?LLM engine (?:\(v(?P<version>[^)]+)\) )?with config: (?P<config>.*)",
)

ARGUMENTS = (
    line("arguments", b"non-default args: ", rb"non-default args: (?P<arguments>.*)"),
    line("arguments", b"args: Namespace(", rb"args: Namespace\((?P<arguments>.*)"),
)

_LOADED = rb" took (?P<size>\d+\.\d+) (?:GiB|GB)"
WEIGHTS = (
    line("weights", b"Loading model weights took ", rb"Loading model weights" + _LOADED),
    line("weights", b"Model loading took ", rb"Model loading" + _LOADED),
)
"""Both units are GiB in the source. Each worker prints its own share."""

KV_SIZE = line("kv_size", b" KV cache size: ", rb"[A-Z]+ KV cache size: (?P<tokens>[\d,]+) tokens")

FACTS = (
    KV_SIZE,
    line("kv_memory", b"Available KV cache memory: ", rb"Available KV cache memory: (?P<size>\d+\.\d+) GiB"),
    line(
        "chunked",
        b"Chunked prefill is enabled with ",
        rb"Chunked prefill is enabled with max_num_batched_tokens=(?P<tokens>\d{1,12})",
    ),
    line(
        "block",
        b"Setting attention block size to ",
        rb"Setting attention block size to (?P<tokens>\d{1,12}) tokens",
    ),
    line(
        "no_prefix_caching",
        b"without support for prefix caching",
        rb"Hybrid or mamba-based model detected without support for prefix caching: disabling",
    ),
    line("eager", b"Enforce eager set", rb"Enforce eager set"),
    line("eager", b"Cudagraph is disabled under eager mode", rb"Cudagraph is disabled under eager mode"),
    line("architecture", b"Resolved architecture: ", rb"Resolved architecture: (?P<name>\w{1,80})"),
)
"""What it finds out while it starts, later values over earlier ones."""

_MODEL = re.compile(rb"(?:^|, )model=(['\"])(?P<model>.*?)\1")
_SPECULATIVE = re.compile(rb", speculative_config=SpeculativeConfig\((?P<inside>[^()]*)\)")
_METHOD = re.compile(rb"method='([\w.-]+)'")
_DRAFTED = re.compile(rb"\bnum_spec(?:ulative)?_tokens=(\d{1,6})")
_COUNTS = {
    "max_running": b"max_num_seqs",
    "chunk_tokens": b"max_num_batched_tokens",
    "block_tokens": b"block_size",
    "tensor_parallel": b"tensor_parallel_size",
}
_PLAIN_TYPES = {b"torch.bfloat16": "BF16", b"torch.float16": "F16", b"torch.float32": "F32"}
_SWITCH = {b"True": True, b"False": False}


def config_facts(config: bytes) -> dict[str, object]:
    """The setup facts in the text after ``with config:``."""
    model = _MODEL.search(config)
    context, parallel = _stated(config, b"max_seq_len"), _stated(config, b"tensor_parallel_size")
    kv_type = text(_stated(config, b"kv_cache_dtype"))
    quantization = text(_stated(config, b"quantization"))
    on_cpu = _value(config, b"device_config") == b"cpu"
    return {
        "model": text(model["model"]) if model else None,
        "quantization": quantization or _PLAIN_TYPES.get(_value(config, b"dtype") or b""),
        "context": int(context) if context and context.isdigit() else None,
        "kv_type_k": kv_type,
        "kv_type_v": kv_type,
        "eager": _SWITCH.get(_value(config, b"enforce_eager") or b""),
        "prefix_caching": _SWITCH.get(_value(config, b"enable_prefix_caching") or b""),
        "speculative": _speculative(config),
        "draft_max": _drafted(config),
        "tensor_parallel": int(parallel) if parallel and parallel.isdigit() else None,
        "devices": [Device(name="CPU", backend="CPU")] if on_cpu else None,
    }


def loads_one_model(config: bytes) -> bool:
    """True when one worker holds all weights of one model, so that what it loaded is the model's size."""
    sizes = [_value(config, key + b"_parallel_size") for key in (b"tensor", b"pipeline", b"data")]
    alone = sizes[0] == b"1" and all(size in (None, b"1") for size in sizes)
    return alone and _speculative(config) in (None, "ngram")


def argument_facts(arguments: bytes) -> dict[str, object]:
    """The setup facts in the arguments line; only numbers are read, since it may hold keys."""
    share = re.search(rb"\bgpu_memory_utilization['\"]?[:=] ?(\d?\.\d+)", arguments)
    counts = {
        fact: re.search(rb"\b" + key + rb"['\"]?[:=] ?(\d{1,12})\b", arguments)
        for fact, key in _COUNTS.items()
    }
    return {
        "memory_share": float(share[1]) if share else None,
        **{fact: int(found[1]) for fact, found in counts.items() if found},
    }


def gib_bytes(printed: bytes) -> int:
    """GiB in bytes, as exact as they were printed."""
    return round(float(printed) * (1 << 30))


def _value(config: bytes, key: bytes) -> bytes | None:
    match = re.search(rb"(?:^|, +)" + key + rb"=([^,]+)", config)
    return match[1].strip() if match else None


def _stated(config: bytes, key: bytes) -> bytes | None:
    value = _value(config, key)
    return None if value in (b"None", b"auto") else value


def _speculative(config: bytes) -> str | None:
    """The method of speculation; V0 only names the draft model, ``[ngram]`` where there is none."""
    match = _SPECULATIVE.search(config)
    if match is None:
        return None
    if method := _METHOD.search(match["inside"]):
        return text(method[1])
    return "ngram" if b"[ngram]" in match["inside"] else "draft"


def _drafted(config: bytes) -> int | None:
    """How many tokens are drafted at once."""
    speculative = _SPECULATIVE.search(config)
    found = _DRAFTED.search(speculative["inside"]) if speculative else None
    return int(found[1]) if found else None
