"""How a model is loaded and run: the same settings for every engine of the runner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ALL_LAYERS = -1
BATCH, UBATCH = 2048, 512
"""Of llama.cpp's own programs, where nothing is asked for."""

LOOKUP_NGRAM = 3
"""Prompt lookup proposes what followed so many last tokens where they stood before."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What an engine is started with; ``None`` leaves a setting to the engine's own default.

    Attributes:
        model: the GGUF file.
        context: tokens that prompt and answer share; one sequence.
        batch, ubatch: prompt tokens a logical and a physical batch takes.
        threads, threads_batch: for decode, and for prefill.
        flash_attention: on or off.
        kv_type_k, kv_type_v: names as llama.cpp spells them, such as ``q8_0``.
        gpu_layers: layers on the GPU; `ALL_LAYERS` for all of them.
        lookup: tokens that prompt lookup proposes at a time; ``None`` for no speculation.
        draft_model: the GGUF file of a draft model.
        mlock: the weights are kept in memory.
    """

    model: Path
    context: int = 4096
    batch: int | None = None
    ubatch: int | None = None
    threads: int | None = None
    threads_batch: int | None = None
    flash_attention: bool | None = None
    kv_type_k: str | None = None
    kv_type_v: str | None = None
    gpu_layers: int = ALL_LAYERS
    lookup: int | None = None
    draft_model: Path | None = None
    mlock: bool = False
