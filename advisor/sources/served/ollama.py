"""Ollama has no metrics: `/api/ps` tells which models are loaded, and how much of each is in GPU memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from parsers.formats.json_values import count, text
from parsers.records import Event

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ENGINE = "ollama"


class Model(NamedTuple):
    """A loaded model.

    Attributes:
        facts: under the names of `Setup`.
        placed: where it lies, in words.
    """

    facts: dict[str, Any]
    placed: str


def version(data: Any) -> dict[str, Any]:
    """The answer of ``/api/version``."""
    return {"engine_version": text(data, "version") if isinstance(data, dict) else None}


def is_version(data: Any) -> bool:
    """Whether this is what Ollama answers at ``/api/version``."""
    return isinstance(data, dict) and text(data, "version") is not None and data.keys() <= {"version"}


def loaded(data: Any) -> dict[str, Model] | None:
    """The models that ``/api/ps`` lists, by name; ``None`` where it is no such answer."""
    listed = data.get("models") if isinstance(data, dict) else None
    if not isinstance(listed, list):
        return None
    named = ((text(one, "name"), one) for one in listed if isinstance(one, dict))
    return {name: _model(name, one) for name, one in named if name is not None}


def _model(name: str, told: dict[str, Any]) -> Model:
    told_details = told.get("details")
    details: dict[str, Any] = told_details if isinstance(told_details, dict) else {}
    size, on_gpu = count(told, "size"), count(told, "size_vram") or 0
    facts = {
        "model": name,
        "architecture": text(details, "family"),
        "quantization": text(details, "quantization_level"),
        "context": count(told, "context_length") or None,
        "layers_offloaded": 0 if size and not on_gpu else None,
    }
    placed = f"{on_gpu / size:.0%} of {size / 1e9:.1f} GB in GPU memory" if size else "size unknown"
    return Model(facts, placed)


def changes(before: Mapping[str, Model], now: Mapping[str, Model]) -> Iterator[Event]:
    """What was unloaded, then what was loaded."""
    for name in before.keys() - now.keys():
        yield Event(engine=ENGINE, kind="model_unload", detail=name)
    for name in now.keys() - before.keys():
        yield Event(engine=ENGINE, kind="model_load", detail=f"{name}, {now[name].placed}")
