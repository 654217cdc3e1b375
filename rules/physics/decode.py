"""Decode: ms per token from the bytes that each token reads, and how a measurement compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

HealthBand = Literal["too_fast", "healthy", "watch", "suspect", "wrong"]

MOE_BYTES_FACTOR = 1.15
"""Active bytes of a mixture of experts over file size times active share: attention and embeddings are stored
at more bits than experts, and every token reads them."""

MOE_BYTES_UNCERTAINTY = 0.25


@dataclass(frozen=True, slots=True)
class DecodeConstants:
    """Two fitted constants of a class of devices.

    Attributes:
        eta: Part of the data-sheet bandwidth that decode kernels reach.
        tau_us_per_layer: Time per layer in us that no byte explains: kernel launches, norms, synchronization.
        plain_kv_slope: Time to read the KV cache without flash attention, over what the data-sheet bandwidth
            would take (as `kv_slope_ratio`): the median of 8B and 7B models. With flash attention it is read
            like weights, 1 / eta (1.26 and 1.38 were measured).
        label: What the constants were fitted to.
        mean_error: Mean |error| of that fit.
    """

    eta: float
    tau_us_per_layer: float
    plain_kv_slope: float
    label: str
    mean_error: float


_RTX_LABEL = "GeForce RTX 30/40 and RTX workstation cards, 25 rows"

DECODE_CONSTANTS: dict[str, DecodeConstants] = {
    "geforce": DecodeConstants(0.95, 80.0, 2.8, _RTX_LABEL, 0.054),
    "workstation": DecodeConstants(0.95, 80.0, 2.2, _RTX_LABEL, 0.054),
    "datacenter": DecodeConstants(0.63, 95.0, 4.9, "A100 and H100, 8 rows", 0.047),
    "apple": DecodeConstants(0.91, 155.0, 8.9, "Apple M1-M3, 70 rows (145 us without Ultra chips)", 0.051),
    "strix": DecodeConstants(
        0.88, 95.0, 8.6, "Ryzen AI Max+ 395, ROCm and Vulkan, 40 rows, one machine", 0.038
    ),
}
"""By device class. Fitted to llama.cpp, batch 1: for CUDA to 8B and 70B models in the public tables of
XiongjieDai/GPU-Benchmarks-on-LLM-Inference (May 2024), for Apple to 7B models of llama.cpp#4167, for Strix to
dense models of 7B to 31B (lhl/strix-halo-testing, kyuz0/amd-strix-halo-toolboxes). CPU, other AMD and Intel
devices have no fit. `benchmarks/predict.py` holds them against published rows."""


def decode_constants(device_class: str | None) -> DecodeConstants | None:
    """Constants of a device class; None for a class without a fit, where decode can't be predicted."""
    return DECODE_CONSTANTS.get(device_class) if device_class else None


def bandwidth_ceiling_tok_s(bytes_per_token: float, bandwidth_gb_s: float) -> float:
    """Most tokens per second that memory allows at batch 1: bandwidth over bytes read per token.

    Nothing decodes faster; healthy runs of small quantised models stay far below (0.64 for 8B Q4_K_M on an
    RTX 4090).

    Args:
        bytes_per_token: Active weights plus the KV cache read for one token.
        bandwidth_gb_s: Memory bandwidth in 1e9 bytes per second.

    Raises:
        ValueError: When either is not positive.
    """
    _positive(bytes_per_token, bandwidth_gb_s)
    return bandwidth_gb_s * 1e9 / bytes_per_token


def decode_ms_per_token(
    weight_bytes: float,
    kv_bytes: float,
    bandwidth_gb_s: float,
    layers: int,
    constants: DecodeConstants | None,
    *,
    flash_attention: bool = True,
) -> float | None:
    """Predicted ms per token at batch 1: (W + kv) / (eta * BW) + tau * L.

    Without flash attention the KV cache takes `plain_kv_slope` * kv / BW instead.

    Bandwidth model as in Pope et al. 2022 (arXiv:2211.05102), plus a fixed time per layer; constants from
    `DECODE_CONSTANTS`.

    Args:
        weight_bytes: Weights read for one token; of a mixture of experts the active part.
        kv_bytes: KV cache read for one token: all of it that attention looks at.
        bandwidth_gb_s: Data-sheet memory bandwidth in 1e9 bytes per second.
        layers: Layers of the model.
        constants: Of the device's class; None gives None.
        flash_attention: Whether it is on.

    Raises:
        ValueError: When weights or bandwidth are not positive.
    """
    if constants is None:
        return None
    _positive(weight_bytes, bandwidth_gb_s)
    kv_slope = 1 / constants.eta if flash_attention else constants.plain_kv_slope
    return (
        _read_ms(weight_bytes, constants.eta * bandwidth_gb_s)
        + kv_slope * _read_ms(kv_bytes, bandwidth_gb_s)
        + constants.tau_us_per_layer * layers / 1000
    )


def health(predicted_ms: float, measured_ms: float) -> float:
    """Measured speed over predicted speed; 1 is as predicted, 0.5 is half as fast.

    Raises:
        ValueError: When either time is not positive.
    """
    _positive(predicted_ms, measured_ms)
    return predicted_ms / measured_ms


HEALTHY, HEALTHY_MIXTURE = (0.75, 1.3), (0.5, 1.6)
"""`health` of runs that nothing is wrong with. No row behind `DECODE_CONSTANTS` falls below 0.76; of a
mixture of experts the bytes per token are only known to 25 %."""

UNFITTED_SHARE = (0.5, 1.0)
"""Share of the data-sheet bandwidth that healthy runs reach where a class has no fit: 0.56 (RX 5700 XT) to
0.91 (RX 9070 XT), a desktop CPU 0.68."""


def health_band(value: float, *, wide: bool = False) -> HealthBand:
    """What a `health` value says.

    Within `HEALTHY` is healthy, below 0.6 is suspect and below 0.35 surely wrong. Above, the inputs don't
    describe this machine.

    Args:
        value: From `health`.
        wide: For a mixture of experts: within `HEALTHY_MIXTURE`, and the lower bands move in proportion.
    """
    healthy, fastest = HEALTHY_MIXTURE if wide else HEALTHY
    suspect, wrong = (0.4, 0.233) if wide else (0.6, 0.35)
    if value > fastest:
        return "too_fast"
    if value >= healthy:
        return "healthy"
    if value >= suspect:
        return "watch"
    return "suspect" if value >= wrong else "wrong"


def moe_bytes_per_token(file_bytes: float, active_parameters: float, parameters: float) -> float:
    """Estimate, good to 25 %, of the weights that one token of a mixture of experts reads."""
    _positive(file_bytes, active_parameters, parameters)
    return file_bytes * min(1.0, MOE_BYTES_FACTOR * active_parameters / parameters)


def partial_offload_ms_per_token(
    weight_bytes: float,
    layers_on_gpu: int,
    layers: int,
    gpu_effective_gb_s: float,
    cpu_effective_gb_s: float,
    overhead_ms: float = 0.0,
) -> float:
    """Weight-reading time per token with some layers on the CPU: GPU and CPU take turns (ollama#8393).

    x/y * W/BW_gpu + (1 - x/y) * W/BW_cpu, for x of y layers on the GPU.

    Args:
        weight_bytes: Weights read for one token.
        layers_on_gpu: x, as the log counts offloaded layers.
        layers: y, in the same count.
        gpu_effective_gb_s: Bandwidth that the GPU reaches: data sheet times eta.
        cpu_effective_gb_s: Bandwidth that the CPU reaches.
        overhead_ms: Time per token on top, such as tau * L.

    Raises:
        ValueError: When sizes or rates are not positive, or x is not within 0..y.
    """
    _positive(weight_bytes, layers, gpu_effective_gb_s, cpu_effective_gb_s)
    if not 0 <= layers_on_gpu <= layers:
        raise ValueError("layers_on_gpu must be between 0 and layers")
    on_gpu = weight_bytes * layers_on_gpu / layers
    return (
        _read_ms(on_gpu, gpu_effective_gb_s)
        + _read_ms(weight_bytes - on_gpu, cpu_effective_gb_s)
        + overhead_ms
    )


def quantisation_saving_ms_per_token(
    old_bytes: float, new_bytes: float, bandwidth_gb_s: float, constants: DecodeConstants | None
) -> float | None:
    """Ms per token saved by reading fewer weight bytes: (W_old - W_new) / (eta * BW).

    Not in proportion to size: the time per layer stays. Holds for plain and k-quants; i-quants and trellis
    quants are bound by unpacking and may even lose. None without constants.
    """
    if constants is None:
        return None
    _positive(bandwidth_gb_s)
    return _read_ms(old_bytes - new_bytes, constants.eta * bandwidth_gb_s)


def kv_slope_ratio(beta_ms_per_token: float, kv_bytes_per_token: float, bandwidth_gb_s: float) -> float:
    """Rho: growth of decode time with context, over what reading the KV cache would cost.

    Up to 1.6 attention is bound by bandwidth, so a smaller KV type or shorter context pays; above 2.5 the
    attention kernel is the problem and comes first.

    Args:
        beta_ms_per_token: Slope of ms per output token against tokens in context.
        kv_bytes_per_token: KV bytes per token of context.
        bandwidth_gb_s: Data-sheet memory bandwidth.
    """
    _positive(kv_bytes_per_token, bandwidth_gb_s)
    return beta_ms_per_token / _read_ms(kv_bytes_per_token, bandwidth_gb_s)


def _read_ms(size_bytes: float, rate_gb_s: float) -> float:
    return size_bytes / (rate_gb_s * 1e6)


def _positive(*values: float) -> None:
    if min(values) <= 0:
        raise ValueError("sizes, rates and times must be positive")
