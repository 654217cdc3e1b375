"""Model files that fuzzing begins with: small GGUF files, made here."""

from __future__ import annotations

import struct
from functools import cache

_U32, _STRING, _ARRAY = 4, 8, 9


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _fact(key: str, kind: int, value: bytes) -> bytes:
    return _text(key) + struct.pack("<I", kind) + value


@cache
def gguf() -> tuple[bytes, ...]:
    """Files with some metadata and tensors, one without either, and one of the other byte order."""
    facts = [
        _fact("general.architecture", _STRING, _text("llama")),
        _fact("general.file_type", _U32, struct.pack("<I", 15)),
        _fact("llama.block_count", _U32, struct.pack("<I", 2)),
        _fact("llama.attention.head_count", _U32, struct.pack("<I", 4)),
        _fact("llama.attention.head_count_kv", _ARRAY, struct.pack("<IQ2I", _U32, 2, 2, 1)),
        _fact("llama.embedding_length", _U32, struct.pack("<I", 32)),
        _fact("llama.expert_count", _U32, struct.pack("<I", 4)),
        _fact("llama.expert_used_count", _U32, struct.pack("<I", 2)),
        _fact("tokenizer.ggml.tokens", _ARRAY, struct.pack("<IQ", _STRING, 2) + _text("a") + _text("b")),
    ]
    tensors = [
        _text(name) + struct.pack("<IQQIQ", 2, 32, 2, 0, 256 * at)
        for at, name in enumerate(("token_embd.weight", "blk.0.ffn_up_exps.weight"))
    ]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts))
    body = head + b"".join(facts) + b"".join(tensors)
    whole = body + bytes(-len(body) % 32) + bytes(512)
    empty = b"GGUF" + struct.pack("<IQQ", 3, 0, 0)
    return whole, empty, b"GGUF" + struct.pack(">IQQ", 3, 0, 0), whole[:100]
