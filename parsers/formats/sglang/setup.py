"""What SGLang says of itself when it starts. Only what a line states; `auto` and `None` state nothing."""

from __future__ import annotations

import re

from parsers.formats.base import line, text
from parsers.formats.sglang.record import HEAD
from parsers.setup import Device

ARGUMENTS = line("arguments", b"server_args=", HEAD + rb"server_args=(?:ServerArgs\(|\{)(?P<arguments>.*)")
"""Printed as a record, newest as a dictionary."""

SIZES = line(
    "sizes",
    b"max_total_num_tokens=",
    HEAD + rb"max_total_num_tokens=(?P<total>\d+), (?:chunked_prefill_size=(?P<chunk>-?\d+|None), )?"
    rb"max_prefill_tokens=\d+, max_running_requests=(?P<running>\d+), context_len=(?P<context>\d+)",
)

KV_ALLOCATED = line(
    "kv_allocated",
    b"KV Cache is allocated",
    HEAD + rb"KV Cache is allocated\. .*K size: (?P<keys>\d+\.\d+) GB, V size: (?P<values>\d+\.\d+) GB",
)
"""Its GB are GiB. Each rank prints its own share."""

_SWITCH = {b"True": True, b"False": False}
_LONGEST_COUNT = 12
_NOT_STATED = (b"None", b"auto", b"")


def facts(arguments: bytes) -> dict[str, object]:
    """The setup facts in the server's arguments; they also hold keys, which are not read."""
    kv_type = text(_stated(arguments, b"kv_cache_dtype"))
    speculative = text(_stated(arguments, b"speculative_algorithm"))
    return {
        "model": text(_stated(arguments, b"model_path")),
        "quantization": text(_stated(arguments, b"quantization")),
        "kv_type_k": kv_type,
        "kv_type_v": kv_type,
        "prefix_caching": _not(_switch(arguments, b"disable_radix_cache")),
        "eager": _switch(arguments, b"disable_cuda_graph"),
        "speculative": speculative.lower() if speculative else None,
        "draft_max": _count(arguments, b"speculative_num_draft_tokens"),
        "block_tokens": _count(arguments, b"page_size"),
        "chunk_tokens": _count(arguments, b"chunked_prefill_size"),
        "tensor_parallel": _count(arguments, b"tp_size"),
        "max_running": _count(arguments, b"max_running_requests"),
        "memory_share": _share(arguments, b"mem_fraction_static"),
        "devices": [Device(name="CPU", backend="CPU")] if _stated(arguments, b"device") == b"cpu" else None,
    }


def mixes(arguments: bytes) -> bool:
    """True with ``--enable-mixed-chunk``."""
    return bool(_switch(arguments, b"enable_mixed_chunk"))


def in_one_process(arguments: bytes) -> bool:
    """True when one rank holds all of the KV cache."""
    sizes = [_count(arguments, key) for key in (b"tp_size", b"pp_size", b"dp_size")]
    return sizes[0] == 1 and all(size in (None, 1) for size in sizes)


def kv_bytes(m: re.Match[bytes]) -> int:
    """Keys and values together, as exact as they were printed."""
    return round((float(m["keys"]) + float(m["values"])) * (1 << 30))


def _count(arguments: bytes, key: bytes) -> int | None:
    value = _stated(arguments, key)
    return int(value) if value and value.isdigit() and len(value) <= _LONGEST_COUNT else None


def _share(arguments: bytes, key: bytes) -> float | None:
    value = _stated(arguments, key)
    return float(value) if value and re.fullmatch(rb"0?\.\d{1,6}", value) else None


def _not(switch: bool | None) -> bool | None:
    return None if switch is None else not switch


def _switch(arguments: bytes, key: bytes) -> bool | None:
    return _SWITCH.get(_stated(arguments, key) or b"")


def _stated(arguments: bytes, key: bytes) -> bytes | None:
    match = re.search(rb"(?:^|, )'?" + key + rb"(?:=|': )(?:'([^']*)'|([^,)}]*))", arguments)
    if match is None:
        return None
    value = match[1] if match[1] is not None else match[2]
    return None if value in _NOT_STATED else value
