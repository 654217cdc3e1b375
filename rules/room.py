"""Room on the GPU: what wants to be in its memory, and how much of the KV cache this load needs.

Sizes are bytes. Rules that free the same memory take their values from here, so that on one page a knob is
turned to one value only.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

from rules.physics.quant import TYPE_BITS, file_bits_per_weight

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.measures import Measures
    from rules.remedies import Fix

GPU_MARGIN_BYTES = 1 << 30
"""Left free on each GPU for compute buffers and the display; llama.cpp's own --fit-target."""

PLENTY = 0.25
"""Share of the GPU's memory that is free: more than the display and other programs take."""

ALL_OF_IT = 0.99
"""Of the KV cache: its buffers are printed to a hundredth of a MiB."""

CONTEXT_SLACK = 1.2
SMALLEST_CONTEXT = 2_048

_TENTH = 2**30 / 10

LEAST_BITS = TYPE_BITS["IQ4_XS"]
"""Bits a weight of the smallest 4-bit file. Below, quality goes: Llama 3 70B loses 19 % in perplexity at
Q3_K_M, and a model of half the size in 4 bits is the better use of the same memory."""

GOOD_QUANT = "Q4_K_M"

_LARGE_KV_TYPES = (None, "f16", "bf16", "f32")
"""What 8 bits would halve; where no line names the type it is 16 bits, the default."""

_CUTS = ("prompt_truncated", "context_exceeded", "context_shift")


class Room:
    """One log's GPU memory.

    Args:
        m: the log's measures.
    """

    def __init__(self, m: Measures) -> None:
        self._m = m
        self._setup = m.setup

    # --- what there is, and what wants to be in it

    @property
    def vram_bytes(self) -> int | None:
        """Memory of all GPUs together; ``None`` where it is not known."""
        return self._m.hardware.vram_bytes

    @property
    def usable_bytes(self) -> int | None:
        """Of it, what weights and KV cache may take."""
        gpus = max(len(self._m.hardware.gpus), 1)
        return None if self.vram_bytes is None else self.vram_bytes - gpus * GPU_MARGIN_BYTES

    @property
    def weights_bytes(self) -> int | None:
        """All weights, wherever they are."""
        return self._setup.weights_bytes

    @property
    def kv_bytes(self) -> int:
        """The KV cache; 0 where its size is not logged."""
        return self._setup.kv_bytes or 0

    @property
    def weights_fit(self) -> bool | None:
        """Whether all weights would fit, without a KV cache."""
        return self.fits_beside(0)

    @property
    def all_fits(self) -> bool | None:
        """Whether all weights would fit beside the KV cache of now."""
        return self.fits_beside(self.kv_bytes)

    def fits_beside(self, kv_bytes: float) -> bool | None:
        """Whether all weights would fit beside a KV cache of this size; ``None`` where a size is unknown."""
        usable, weights = self.usable_bytes, self.weights_bytes
        return None if usable is None or weights is None else weights + kv_bytes <= usable

    @cached_property
    def gpu_weights_bytes(self) -> float | None:
        """Weights on the GPU: by buffer sizes, else by layers; ``None`` where the log tells neither."""
        s = self._setup
        if s.gpu_weights_bytes is not None:
            return float(s.gpu_weights_bytes)
        if s.weights_bytes is None or s.layers_offloaded is None or not s.layers_offloadable:
            return None
        return s.weights_bytes * s.layers_offloaded / s.layers_offloadable

    @cached_property
    def needed_bytes(self) -> float | None:
        """What the GPU has to hold, at least: weights, the KV cache of its layers, compute buffers."""
        weights, s = self.gpu_weights_bytes, self._setup
        if weights is None:
            return None
        return weights + self.kv_vram_bytes + (s.compute_bytes or 0)

    @cached_property
    def kv_vram_bytes(self) -> float:
        """KV cache in the GPU's memory: by buffer sizes, else that of the layers there.

        All of it where the log does not say how many layers are there.
        """
        s = self._setup
        if s.kv_cpu_bytes is not None:
            return float(max(self.kv_bytes - s.kv_cpu_bytes, 0))
        if s.layers_offloaded is None or not s.layers_offloadable:
            return float(self.kv_bytes)
        return self.kv_bytes * min(s.layers_offloaded / s.layers_offloadable, 1.0)

    @cached_property
    def kv_in_main_memory(self) -> bool:
        """All of the KV cache is in main memory, although half of the layers or more are on a GPU.

        The cache of a layer lies where its attention runs, unless the cache was told to stay (`-nkvo`).
        """
        s = self._setup
        if not (s.layers_offloaded and s.layers_offloadable and s.kv_cpu_bytes and self.kv_bytes):
            return False
        all_of_it = s.kv_cpu_bytes >= ALL_OF_IT * self.kv_bytes
        return (
            all_of_it
            and 2 * s.layers_offloaded >= s.layers_offloadable
            and not self._m.hardware.shared_memory
        )

    @property
    def plenty(self) -> bool:
        """So much of the GPU's memory is known to be free that nothing needs to make room."""
        needed, vram = self.needed_bytes, self.vram_bytes
        return bool(needed and vram) and (vram or 0) - (needed or 0) >= PLENTY * (vram or 0)

    @cached_property
    def filled(self) -> float | None:
        """`needed_bytes` over the memory there is; more than 1 can't all be in it."""
        return self.needed_bytes / self.vram_bytes if self.needed_bytes and self.vram_bytes else None

    # --- what this load needs

    @cached_property
    def at_once(self) -> int | None:
        """Most requests that ran at once; ``None`` where neither a clock nor the slots tell."""
        if self._m.overlap.most is not None:
            return self._m.overlap.most
        used = self._m.generations["slot"].drop_nulls()
        one_slot = used.len() > 0 and used.n_unique() == 1
        return 1 if one_slot or self._setup.slots == 1 else None

    @cached_property
    def used_slots(self) -> int | None:
        """Slots with a context of their own that this load needs: a power of two above what ran at once."""
        slots = self._setup.slots
        if slots is None or self._setup.kv_unified:
            return None
        return slots if self.at_once is None else min(1 << self.at_once.bit_length(), slots)

    @cached_property
    def cut(self) -> bool:
        """Whether a prompt or a context was cut, or a request refused for its length."""
        rows, events = self._m.generations, self._m.events
        return bool(events["kind"].is_in(_CUTS).any() or rows["truncated"].any())

    @cached_property
    def longest_tokens(self) -> float | None:
        """Tokens that 99 of 100 requests stayed within, prompt and answer together.

        ``None`` where the engine cut or refused prompts: their length then says nothing of what is needed.
        """
        rows = self._m.generations
        held = (rows["prompt_tokens"] + rows["output_tokens"]).drop_nulls()
        return None if self.cut else held.quantile(0.99)

    @cached_property
    def needed_tokens(self) -> float | None:
        """`longest_tokens`, times the requests at once where slots share one context."""
        sharing = (self.at_once or self._setup.slots or 1) if self._setup.kv_unified else 1
        return None if self.longest_tokens is None else self.longest_tokens * sharing

    @cached_property
    def used_context(self) -> int | None:
        """A power of two with room to spare for `needed_tokens`."""
        if self.needed_tokens is None:
            return None
        return max(1 << int(self.needed_tokens * CONTEXT_SLACK).bit_length(), SMALLEST_CONTEXT)

    @cached_property
    def used_kv_bytes(self) -> float:
        """KV cache of the slots and the context that this load needs."""
        return self._kv_of(self.used_context, self.used_slots)

    @cached_property
    def used_slots_kv_bytes(self) -> float:
        """KV cache of the slots that this load needs, each with the context of now."""
        return self._kv_of(self._setup.context, self.used_slots)

    def _kv_of(self, context: int | None, slots: int | None) -> float:
        per_token, now = self._setup.kv_bytes_per_token, self._setup.context
        if context is None or per_token is None:
            return self.kv_bytes
        return min(per_token * min(context, now or context) * (slots or 1), self.kv_bytes or math.inf)

    # --- what frees it

    def smaller_cache(self) -> Iterator[Fix]:
        """Slots that nobody uses, then context that nobody uses, then fewer bits for what is left."""
        yield from self.fewer_slots()
        yield from self.smaller_context()
        if self._setup.kv_type_k in _LARGE_KV_TYPES:
            yield self._m.fix("quantise-kv")

    def fewer_slots(self) -> Iterator[Fix]:
        """The slots that ran at once, where more are kept, with the context that each needs.

        They share all of the context where that was too small, and never get more than there is.
        """
        slots, now, each = self.used_slots, self._setup.slots, self._setup.context
        if slots is None or now is None or slots >= now or each is None:
            return
        total = self._setup.context_total or now * each
        kept = total if self.cut else min(slots * (self.used_context or each), total)
        yield self._m.fix("fewer-slots", slots=slots, now=now, total=kept)

    def smaller_context(self) -> Iterator[Fix]:
        """The context that was used, where more is kept."""
        tokens, now = self.used_context, self._setup.context
        if tokens is not None and (now is None or tokens < now):
            yield self._m.fix("smaller-context", tokens=tokens, total=tokens * (self.used_slots or 1))

    @cached_property
    def fitting_bytes(self) -> float | None:
        """The largest file that fits beside the KV cache that this load needs, rounded down."""
        usable, kv_bytes = self.usable_bytes, self.used_kv_bytes
        if usable is None or usable <= kv_bytes:
            return None
        return math.floor((usable - kv_bytes) / _TENTH) * _TENTH

    @cached_property
    def fitting_bits(self) -> float | None:
        """Bits a weight of this model in a file of `fitting_bytes`; ``None`` where its size is unknown."""
        fits, bits, weights = self.fitting_bytes, self._m.decoding.bits, self.weights_bytes
        return None if fits is None or bits is None or not weights else bits * fits / weights

    def smaller_file(self) -> Iterator[Fix]:
        """Weights that fit beside the KV cache that this load needs.

        Where that is a file of less than 4 bits, a smaller model comes first.
        """
        fits, bits = self.fitting_bytes, self.fitting_bits
        if fits is not None and bits is not None and bits < LEAST_BITS:
            good_bits = file_bits_per_weight(GOOD_QUANT) or LEAST_BITS
            billions = fits * 8 / good_bits / 1e9
            yield self._m.fix("model-that-fits", gib=gib(fits), billions=f"{billions:.2g}", quant=GOOD_QUANT)
            yield self._m.fix("few-bits", gib=gib(fits), bits=f"{bits:.1f}")
        elif fits is not None:
            yield self._m.fix("weights-that-fit", gib=gib(fits))
        elif self._m.decoding.smaller_quant:
            yield self._m.fix("smaller-quant", to=self._m.decoding.smaller_quant)
        else:
            yield self._m.fix("smaller-model")


def gib(n_bytes: float) -> str:
    """Gibibytes with one decimal, as in ``87.3``."""
    return f"{n_bytes / 2**30:,.1f}"
