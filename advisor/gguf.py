"""What a GGUF model file says: facts that a log hides, and what a token reads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.errors import InputError
from advisor.gguf_bounds import check_bounds
from advisor.redact import clean
from rules.physics.layers import cache_layers

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rules.physics.layers import LayerCache

ORIGIN = "--gguf"

_PART = re.compile(r"^(?P<stem>.*)-\d{5}-of-(?P<count>\d{5})\.gguf$")
_BLOCK = re.compile(r"^blk\.(\d+)\.")
_EXPERTS = re.compile(r"_exps\.|ffn_(?:gate|up|down)\.\d+\.")
_HEAD, _EMBEDDING = "output.weight", "token_embd.weight"
"""The one stands in for the other where it is missing."""

_MOST, _MOST_LAYERS = 1 << 31, 10_000
"""Of any count, and of layers."""

_BY_LAYER = {
    *("attention.head_count", "attention.head_count_kv", "feed_forward_length"),
    *("attention.sliding_window_pattern", "attention.recurrent_layers"),
}
"""What may be told for each layer apart."""

_LOOKED_UP = ("token_embd.", "per_layer_token_embd.", "position_embd.", "token_types.")


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model as its file describes it; bytes are exact.

    Attributes:
        name: Of the file.
        architecture: As llama.cpp names it.
        quantization: Of most tensors, such as Q4_K_M.
        parameters: All of them.
        active_parameters: Those that one token passes through.
        head_parameters: Of those, the ones that only a token whose next one is asked for passes through.
        weights_bytes: All tensors.
        read_bytes: Weights that one token reads.
        layers: Without those that only predict further tokens.
        mixture: A mixture of experts.
        cache: What each layer keeps; None where the arrangement is not known.
        attention_layers: Layers with a KV cache; None like `cache`.
        attention_width: Query heads times head size; None where layers differ.
        facts: All metadata under its own keys.
    """

    name: str
    architecture: str | None
    quantization: str | None
    parameters: int
    active_parameters: float
    head_parameters: int
    weights_bytes: int
    read_bytes: float
    layers: int | None
    mixture: bool
    cache: list[LayerCache] | None
    attention_layers: int | None
    attention_width: int | None
    facts: dict[str, Any]


def read_gguf(path: Path) -> dict[str, Any]:
    """Facts of a GGUF file, under the names of `Setup`.

    Raises:
        InputError: the file can't be read or is no GGUF.
    """
    model = read_model(path)
    facts = _of_architecture(model.architecture, model.facts)
    embedding, heads = facts.get("embedding_length"), facts.get("attention.head_count")
    head_dim = embedding // heads if isinstance(embedding, int) and isinstance(heads, int) and heads else None
    kv_heads = facts.get("attention.head_count_kv")
    latent = "attention.key_length_mla" in facts
    return {
        "model": model.name,
        "architecture": model.architecture,
        "parameters": model.parameters,
        "weights_bytes": model.weights_bytes,
        "quantization": model.quantization,
        "layers": facts.get("block_count"),
        "kv_heads": kv_heads if isinstance(kv_heads, int) else None,
        "head_dim_k": facts.get("attention.key_length") or head_dim,
        "head_dim_v": 0 if latent else facts.get("attention.value_length") or head_dim,
        "experts": facts.get("expert_count"),
        "experts_used": facts.get("expert_used_count"),
        "sliding_window": facts.get("attention.sliding_window"),
        "context_trained": facts.get("context_length"),
    }


def read_model(path: Path) -> ModelFile:
    """The model in a GGUF file; of a model in parts, name any part.

    Raises:
        InputError: the file or one of its parts can't be read or is no GGUF.
    """
    from gguf import LlamaFileType

    read = [_read(part) for part in _parts(path)]
    facts = {key: value for facts, _ in reversed(read) for key, value in reversed(facts.items())}
    named = facts.get("general.architecture")
    architecture = named if isinstance(named, str) else None
    own = _of_architecture(architecture, facts)
    tensors = [tensor for _, tensors in read for tensor in tensors]
    names = [tensor.name for tensor in tensors]
    elements = [int(tensor.n_elements) for tensor in tensors]
    by_name = dict(zip(names, elements, strict=True))
    n_layers = own.get("block_count")
    if isinstance(n_layers, int):
        n_layers -= own.get("nextn_predict_layers") or 0
    used, experts = own.get("expert_used_count"), own.get("expert_count")
    shares = _shares_read(names, n_layers, used / experts if used and experts else 1.0)
    cache = cache_layers(architecture, own)
    return ModelFile(
        name=path.name,
        architecture=architecture,
        quantization=_file_type(LlamaFileType, facts.get("general.file_type")),
        parameters=sum(elements),
        active_parameters=sum(n * share for n, share in zip(elements, shares, strict=True)),
        head_parameters=by_name.get(_HEAD) or by_name.get(_EMBEDDING, 0),
        weights_bytes=sum(int(tensor.n_bytes) for tensor in tensors),
        read_bytes=sum(int(tensor.n_bytes) * share for tensor, share in zip(tensors, shares, strict=True)),
        layers=n_layers if isinstance(n_layers, int) else None,
        mixture=bool(experts),
        cache=cache,
        attention_layers=None if cache is None else sum(layer.k_values > 0 for layer in cache),
        attention_width=_attention_width(own),
        facts=facts,
    )


def _parts(path: Path) -> list[Path]:
    """All files of a model in parts; else the file itself."""
    named = _PART.match(path.name)
    if named is None:
        return [path]
    count = int(named["count"])
    parts = [path.with_name(f"{named['stem']}-{n:05}-of-{count:05}.gguf") for n in range(1, count + 1)]
    for number, part in enumerate(parts, 1):
        if path.exists() and not part.exists():
            raise InputError(f"{path}: part {number} of {count} is missing ({part.name}).")
    return parts if path.exists() else [path]


def _read(path: Path) -> tuple[dict[str, Any], list[Any]]:
    """The metadata of a file without the tokenizer's, and its tensors."""
    from gguf import GGUFReader

    try:
        check_bounds(path)
        reader = GGUFReader(str(path))
        fields = ((key, field) for key, field in reader.fields.items() if not key.startswith("tokenizer."))
        return {key: field.contents() for key, field in fields}, reader.tensors
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror or error}).") from None
    except (ValueError, LookupError, ArithmeticError) as error:
        raise InputError(f"{path}: not a GGUF model file ({clean(str(error))}).") from None


def _of_architecture(architecture: str | None, facts: dict[str, Any]) -> dict[str, Any]:
    """The counts of the architecture's own metadata, its prefix left out; none that no model has."""
    prefix = f"{architecture}."
    own = {key.removeprefix(prefix): value for key, value in facts.items() if key.startswith(prefix)}
    counts = {
        key: value
        for key, value in own.items()
        if _is_count(value, _MOST) and (key in _BY_LAYER or not isinstance(value, list))
    }
    if not _is_count(counts.get("block_count"), _MOST_LAYERS):
        counts.pop("block_count", None)
    return counts


def _is_count(value: object, most: int) -> bool:
    """A number a model may have, or one for each of its layers."""
    if isinstance(value, list):
        return len(value) <= _MOST_LAYERS and all(_is_count(one, most) for one in value)
    return isinstance(value, int) and 0 <= value <= most


def _shares_read(names: Iterable[str], n_layers: object, experts_read: float) -> list[float]:
    """Share of each tensor that one token reads.

    An embedding is looked up, not read, unless it is also the output head; layers past `n_layers` predict
    further tokens and rest; of experts the chosen ones are read.
    """
    names = list(names)
    tied = _HEAD not in names

    def share(name: str) -> float:
        if name.startswith("token_embd.") and tied:
            return 1.0
        block = _BLOCK.match(name)
        if name.startswith(_LOOKED_UP) or (block and isinstance(n_layers, int) and int(block[1]) >= n_layers):
            return 0.0
        return experts_read if _EXPERTS.search(name) else 1.0

    return [share(name) for name in names]


def _attention_width(own: dict[str, Any]) -> int | None:
    heads, size = own.get("attention.head_count"), own.get("attention.key_length")
    size = own.get("attention.key_length_mla") or size
    if not isinstance(heads, int):
        return None
    return heads * size if isinstance(size, int) else own.get("embedding_length")


def _file_type(names: Any, number: int | None) -> str | None:
    """``MOSTLY_Q4_K_M`` as ``Q4_K_M``; ``None`` for a type this library doesn't know."""
    try:
        name = "" if number is None else str(names(number).name)
    except ValueError:
        return None
    return name.removeprefix("MOSTLY_").removeprefix("ALL_") or None
