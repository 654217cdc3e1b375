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

_MODEL = re.compile(rb"(?:^|, )model=(['\"])(?P<model>.*?)\1")
_SPECULATIVE = re.compile(rb", speculative_config=SpeculativeConfig\((?P<inside>[^)]*)\)")
_METHOD = re.compile(rb"method='([\w.-]+)'")
_MAX_RUNNING = re.compile(rb"\bmax_num_seqs['\"]?[:=] ?(\d+)")
_PLAIN_TYPES = {b"torch.bfloat16": "BF16", b"torch.float16": "F16", b"torch.float32": "F32"}
_SWITCH = {b"True": True, b"False": False}


def config_facts(config: bytes) -> dict[str, object]:
    """The setup facts in the text after ``with config:``."""
    model = _MODEL.search(config)
    context = _stated(config, b"max_seq_len")
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
        "devices": [Device(name="CPU", backend="CPU")] if on_cpu else None,
    }


def loads_one_model(config: bytes) -> bool:
    """True when one worker holds all weights of one model, so that what it loaded is the model's size."""
    sizes = [_value(config, key + b"_parallel_size") for key in (b"tensor", b"pipeline", b"data")]
    alone = sizes[0] == b"1" and all(size in (None, b"1") for size in sizes)
    return alone and _speculative(config) in (None, "ngram")


def max_running(arguments: bytes) -> int | None:
    """``--max-num-seqs`` in the arguments line; ``None`` where it is not given."""
    match = _MAX_RUNNING.search(arguments)
    return int(match[1]) if match else None


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
