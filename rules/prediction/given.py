"""What a prediction is made from, and what it says of a phase."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rules.physics.layers import LayerCache

Bound = Literal["estimate", "at_most", "at_least"]


@dataclass(frozen=True, slots=True)
class Task:
    """What one request asks: prompt tokens to evaluate and in the cache, and tokens to generate."""

    new_tokens: float
    cached_tokens: float
    output_tokens: float


@dataclass(frozen=True, slots=True)
class Done:
    """A request as it was measured before the change; ``None`` is unknown.

    Attributes:
        new_tokens, cached_tokens: of its prompt, evaluated and reused.
        prefill_ms: time of the evaluated ones.
        output_tokens: generated.
        decode_steps: of those, the tokens that ``decode_ms`` paid for.
        decode_ms: time of the answer.
    """

    new_tokens: float
    cached_tokens: float
    prefill_ms: float | None
    output_tokens: float
    decode_steps: float
    decode_ms: float | None


@dataclass(frozen=True, slots=True)
class Facts:
    """A model and how it runs; ``None`` is unknown, or the engine's own default.

    Attributes:
        read_bytes: weights that one token reads.
        active_parameters: that one token passes through.
        cache: what each layer keeps, as `rules.physics.layers.cache_layers` says.
        kv_type_k, kv_type_v: types of the KV cache.
        threads, threads_batch: for decode, and for prefill.
        batch, ubatch: prompt tokens in a logical and a physical batch; llama.cpp's default is 512.
        flash_attention: whether it is on.
        layers_on_gpu: share of the layers, 0-1.
        speculation: which kind and how long, in words; empty for none.
    """

    read_bytes: float | None = None
    active_parameters: float | None = None
    cache: Sequence[LayerCache] | None = None
    kv_type_k: str = "f16"
    kv_type_v: str = "f16"
    threads: int | None = None
    threads_batch: int | None = None
    batch: int | None = None
    ubatch: int = 512
    flash_attention: bool | None = None
    layers_on_gpu: float | None = 0.0
    speculation: str = ""


@dataclass(frozen=True, slots=True)
class Host:
    """The machine.

    Attributes:
        physical_cores: ``None`` where they can't be told from threads.
        gb_s_by_threads: measured bandwidth of main memory by number of threads; empty without a calibration.
    """

    physical_cores: int | None = None
    gb_s_by_threads: Mapping[int, float] = field(default_factory=dict)

    def gb_s(self, threads: int | None) -> float | None:
        """Bandwidth with so many threads, between measured numbers on the line between them."""
        if threads is None or not self.gb_s_by_threads or threads < min(self.gb_s_by_threads):
            return None
        measured = sorted(self.gb_s_by_threads)
        return float(np.interp(threads, measured, [self.gb_s_by_threads[n] for n in measured]))

    def working(self, threads: int) -> int:
        """Of so many threads those that have a core of their own."""
        return min(threads, self.physical_cores or threads)


@dataclass(frozen=True, slots=True)
class Expected:
    """What should become of a phase.

    Attributes:
        ratio: time after over time before, of all requests together; ``None`` where no formula can tell.
        basis: what it rests on, or why there is none; a sentence without its full stop.
        bound: ``at_most`` where the change can be smaller than the ratio says, ``at_least`` where it can be
            larger.
    """

    ratio: float | None
    basis: str
    bound: Bound = "estimate"
