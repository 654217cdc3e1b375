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

_SWITCH = {b"True": True, b"False": False}
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
        "devices": [Device(name="CPU", backend="CPU")] if _stated(arguments, b"device") == b"cpu" else None,
    }


def mixes(arguments: bytes) -> bool:
    """True with ``--enable-mixed-chunk``."""
    return bool(_switch(arguments, b"enable_mixed_chunk"))


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
