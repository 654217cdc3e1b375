"""Decode as this log shows it: what a token costs, what it should cost here, and what stands in the way.

A measured time per token says something about the machine only where one request ran alone and every counted
token was generated one at a time: samples of overlapping requests and speculative runs are left out.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.physics.decode import (
    DECODE_CONSTANTS,
    HealthBand,
    decode_constants,
    decode_ms_per_token,
    health,
    health_band,
)
from rules.physics.kv import kv_bytes_per_token
from rules.physics.quant import TYPE_BITS, bits_per_weight, file_bits_per_weight, quant_name

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.physics.devices import Device

REACHED_LEAST, REACHED_MOST = 0.5, 1.0
"""Share of the data-sheet bandwidth that healthy runs reach where a device class has no fit: 0.56 (RX 5700
XT) to 0.91 (RX 9070 XT), a desktop CPU 0.68. Above 1 the figures don't describe this machine."""

SLOWEST_US_PER_LAYER = max(constants.tau_us_per_layer for constants in DECODE_CONSTANTS.values())

TELLING_BYTES = 1e9
"""Smaller models are bound by kernel launches and live in caches: their bandwidth tells nothing."""

SHALLOW = 0.25
"""KV cache over weights, in bytes that a token reads, up to which the prediction holds: of 510 published rows
like that none is below 0.6 of it; deeper, the attention kernel decides (0.26 at 64k on a Radeon 8060S)."""

QUANT_LADDER = ("F16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M")
"""Below Q4_K_M little is won and quality drops: Llama 3 70B loses 5 % in perplexity there, 19 % at Q3_K_M."""

OLLAMA_LADDER = ("F16", "Q8_0", "Q4_K_M")
"""What `ollama create --quantize` makes."""

LADDER_STEP = 0.9
"""A smaller file is worth a download from a tenth off."""

_MIXTURE_NAME = re.compile(r"moe|\d+x\d+b|-a\d+(?:\.\d+)?b|gpt-?oss|deepseek2", re.IGNORECASE)


class Decoding:
    """One log's decode beside what its machine should give.

    Args:
        m: the log's measures.
    """

    def __init__(self, m: Measures) -> None:
        self._m = m
        self._setup = m.setup

    # --- samples

    @cached_property
    def speculative(self) -> bool:
        """A draft was used: counted tokens then include accepted ones, which cost no step of their own."""
        drafted = self._m.generations["draft_tokens"].fill_null(0) > 0
        return bool(drafted.any()) or self._setup.speculative is not None

    @cached_property
    def alone(self) -> pl.DataFrame:
        """Valid decode samples of requests that nothing overlapped."""
        valid = self._m.valid_decode
        if self._m.serial:
            return valid
        return valid.join(self._m.overlap.alone.select("source", "line"), on=["source", "line"], how="semi")

    @cached_property
    def ms_per_token(self) -> float | None:
        """Median time per generated token of a request that ran alone, ms."""
        if not self.alone.height:
            return None
        return float(np.median((self.alone["decode_ms"] / self.alone["decode_steps"]).to_numpy()))

    # --- what a token reads

    @cached_property
    def mixture(self) -> bool:
        """A mixture of experts: a token reads only part of the weights, and no log says how much."""
        if self._setup.experts is not None:
            return self._setup.experts > 0
        named = f"{self._setup.architecture or ''} {self._setup.model or ''}"
        return _MIXTURE_NAME.search(named) is not None

    @cached_property
    def kv_read_bytes(self) -> float | None:
        """KV bytes that one token reads, at the median context half-way through the answers."""
        per_token = self._kv_bytes_per_token
        halfway = self.alone.select(
            pl.coalesce("context_tokens", pl.col("prompt_tokens") + pl.col("output_tokens"))
            - pl.col("output_tokens") / 2
        ).to_series()
        if per_token is None or not halfway.drop_nulls().len():
            return None
        return per_token * float(np.median(halfway.drop_nulls().to_numpy()))

    @property
    def shallow(self) -> bool | None:
        """Contexts are short enough for reading the weights to set the time; ``None`` where KV is unknown."""
        kv, weights = self.kv_read_bytes, self._setup.weights_bytes
        return None if kv is None or weights is None else kv <= SHALLOW * weights

    @property
    def _kv_bytes_per_token(self) -> float | None:
        s = self._setup
        if s.kv_bytes_per_token is not None or s.sliding_window:
            return s.kv_bytes_per_token
        if s.layers is None or s.kv_heads is None or s.head_dim_k is None or s.head_dim_v is None:
            return None
        heads = [s.kv_heads] * s.layers
        return kv_bytes_per_token(
            heads, s.head_dim_k, s.head_dim_v, s.kv_type_k or "f16", s.kv_type_v or "f16"
        )

    @cached_property
    def bits(self) -> float | None:
        """Bits per weight of the model's file: of its quantization, else bytes over parameters."""
        s = self._setup
        name = quant_name(s.quantization) if s.quantization else None
        if name is not None and (known := file_bits_per_weight(name, s.parameters) or TYPE_BITS.get(name)):
            return known
        return bits_per_weight(s.weights_bytes, s.parameters) if s.weights_bytes and s.parameters else None

    def shrink(self, quant: str) -> float | None:
        """Size of the file in another quantization over its size now."""
        target = file_bits_per_weight(quant, self._setup.parameters)
        return None if self.bits is None or target is None else target / self.bits

    @cached_property
    def smaller_quant(self) -> str | None:
        """The next smaller quantization that still keeps quality; none from Q4_K_M down."""
        ladder = OLLAMA_LADDER if self._m.engine == "ollama" else QUANT_LADDER
        steps = ((quant, self.shrink(quant)) for quant in ladder)
        return next((quant for quant, ratio in steps if ratio is not None and ratio <= LADDER_STEP), None)

    # --- what it should cost

    @property
    def gpu(self) -> Device | None:
        """See `rules.hardware.Hardware.gpu`."""
        return self._m.hardware.gpu

    @property
    def _gpu_gb_s(self) -> float | None:
        """Bandwidth of the GPU, whether it holds the weights or not: given, else from its data sheet."""
        given = None if self._m.machine.measured_on else self._m.machine.bandwidth_gb_s
        return given or (self.gpu.bandwidth_gb_s if self.gpu else None)

    def predicted_ms(self, weights_bytes: float | None = None) -> float | None:
        """Predicted ms per token with all weights on the GPU; unknown for mixtures and unfitted classes.

        Args:
            weights_bytes: another size of the same model; default its own.
        """
        gpu, layers = self.gpu, self._setup.layers
        weights = weights_bytes or self._setup.weights_bytes
        bandwidth = self._gpu_gb_s
        if gpu is None or layers is None or weights is None or bandwidth is None or self.mixture:
            return None
        constants = decode_constants(gpu.device_class)
        return decode_ms_per_token(weights, self.kv_read_bytes or 0.0, bandwidth, layers, constants)

    @cached_property
    def slowest_ms(self) -> float | None:
        """The most that a healthy token takes on any GPU of this bandwidth, ms: for classes without a fit."""
        layers, weights, bandwidth = self._setup.layers, self._setup.weights_bytes, self._gpu_gb_s
        if self.gpu is None or layers is None or weights is None or bandwidth is None or self.mixture:
            return None
        read_ms = (weights + (self.kv_read_bytes or 0.0)) / (REACHED_LEAST * bandwidth * 1e6)
        return read_ms + SLOWEST_US_PER_LAYER * layers / 1000

    @property
    def fitted(self) -> bool:
        """Decode of this class of GPU can be predicted; of others only the bandwidth in use is known."""
        return self.gpu is not None and decode_constants(self.gpu.device_class) is not None

    @cached_property
    def health(self) -> float | None:
        """Measured speed over predicted speed; 1 is as predicted."""
        predicted, measured = self.predicted_ms(), self.ms_per_token
        if predicted is None or measured is None or self.speculative:
            return None
        return health(predicted, measured)

    @property
    def band(self) -> HealthBand | None:
        """What `health` says."""
        return None if self.health is None else health_band(self.health)

    @cached_property
    def read_gb_s(self) -> float | None:
        """GB/s that decode reads: weights and KV cache once a token; at least that where KV is unknown."""
        measured, weights = self.ms_per_token, self._setup.weights_bytes
        if measured is None or weights is None or self.mixture or self.speculative:
            return None
        return (weights + (self.kv_read_bytes or 0.0)) / (measured * 1e6)

    @cached_property
    def reached(self) -> float | None:
        """Share of the data-sheet bandwidth that decode reads at (model bandwidth utilization, MBU)."""
        bandwidth = self._m.bandwidth_gb_s
        if self.read_gb_s is None or bandwidth is None or (self._setup.weights_bytes or 0) < TELLING_BYTES:
            return None
        return self.read_gb_s / bandwidth

    # --- where the weights are

    @cached_property
    def split(self) -> bool:
        """Some of the layers run on the GPU and the rest on the CPU."""
        on_gpu, all_layers = self._setup.layers_offloaded, self._setup.layers_offloadable
        return on_gpu is not None and all_layers is not None and 0 < on_gpu < all_layers

    @cached_property
    def cpu_bytes(self) -> float | None:
        """Weight bytes on the CPU, the embedding table with them: by buffer sizes, else by layers."""
        s = self._setup
        if s.gpu_weights_bytes is not None and s.weights_bytes is not None:
            return max(float(s.weights_bytes - s.gpu_weights_bytes), 0.0)
        if s.cpu_weights_bytes is not None:
            return float(s.cpu_weights_bytes)
        if s.weights_bytes is None or s.layers_offloaded is None or not s.layers_offloadable:
            return None
        return s.weights_bytes * (1 - s.layers_offloaded / s.layers_offloadable)

    @cached_property
    def slowed_by(self) -> str | None:
        """What makes decode slower than its bytes explain, if the log shows such a thing."""
        if self.split:
            return "part of the model is on the CPU"
        if self._setup.eager:
            return "eager mode is on"
        if self._m.hardware.gpus and (self._m.room.filled or 0.0) > 1:
            return "more is on the GPU than its memory holds"
        if self._m.cpu.paging:
            return "the weights do not fit in main memory"
        if self.band in ("suspect", "wrong") and self.kv_read_bytes is not None:
            return "decode is far below what this machine should give"
        if not self.fitted and self.reached is not None and self.reached < REACHED_LEAST:
            return "decode reads far less than the memory delivers"
        return None
