"""A model file's own facts, for logs that hide them: ``--gguf FILE``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from advisor.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


ORIGIN = "--gguf"


def read_gguf(path: Path) -> dict[str, Any]:
    """Facts of a GGUF file, under the names of `Setup`; bytes are exact.

    Raises:
        InputError: the file can't be read or is no GGUF.
    """
    from gguf import GGUFReader, LlamaFileType

    try:
        reader = GGUFReader(str(path))
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror or error}).") from None
    except (ValueError, IndexError, KeyError) as error:
        raise InputError(f"{path}: not a GGUF model file ({error}).") from None

    def value(key: str) -> Any:
        field = reader.get_field(key)
        return None if field is None else field.contents()

    arch = value("general.architecture")
    embedding, heads = value(f"{arch}.embedding_length"), value(f"{arch}.attention.head_count")
    head_dim = embedding // heads if isinstance(embedding, int) and isinstance(heads, int) and heads else None
    kv_heads = value(f"{arch}.attention.head_count_kv")
    file_type = value("general.file_type")
    return {
        "model": path.name,
        "architecture": arch,
        "parameters": sum(int(t.n_elements) for t in reader.tensors),
        "weights_bytes": sum(int(t.n_bytes) for t in reader.tensors),
        "quantization": _file_type(LlamaFileType, file_type),
        "layers": value(f"{arch}.block_count"),
        "kv_heads": kv_heads if isinstance(kv_heads, int) else None,
        "head_dim_k": value(f"{arch}.attention.key_length") or head_dim,
        "head_dim_v": value(f"{arch}.attention.value_length") or head_dim,
        "experts": value(f"{arch}.expert_count"),
        "experts_used": value(f"{arch}.expert_used_count"),
        "sliding_window": value(f"{arch}.attention.sliding_window"),
        "context_trained": value(f"{arch}.context_length"),
    }


def _file_type(names: Any, number: int | None) -> str | None:
    """``MOSTLY_Q4_K_M`` as ``Q4_K_M``; ``None`` for a type this library doesn't know."""
    try:
        name = "" if number is None else str(names(number).name)
    except ValueError:
        return None
    return name.removeprefix("MOSTLY_").removeprefix("ALL_") or None
