"""Batching: what a step for several sequences costs, and what waiting costs.

A mixture of experts is left out on purpose: every token of a batch wakes other experts, and a step for two
can take longer than two steps for one (GLM-4.5-Air: 170 tok/s in batches of one, 112 of two;
ik_llama.cpp#1630).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rules.physics.decode import DecodeConstants

SATURATED = 0.8
"""Share of busy slots from which waiting runs away: an M/M/1 queue waits rho/(1 - rho) services, 4 here."""

MEASURED_EFFICIENCY = {1: 1.00, 2: 0.99, 4: 0.95, 8: 0.78, 16: 0.63, 32: 0.44}
"""Aggregate rate of B sequences over B times the rate of one: Llama 2 7B Q4_0 on an AMD Radeon 8060S with HIP
(lhl/strix-halo-testing). At 64 another kernel takes over and the rate falls below that of 8."""


def ridge_flop_per_byte(tensor_tflops: float, bandwidth_gb_s: float) -> float:
    """Operations that a device can do while it reads one byte (roofline; LLMs: arXiv:2402.16363).

    Args:
        tensor_tflops: Dense FP16 tensor throughput in 1e12 operations per second.
        bandwidth_gb_s: Memory bandwidth in 1e9 bytes per second.

    Raises:
        ValueError: When either is not positive.
    """
    _positive(tensor_tflops, bandwidth_gb_s)
    return tensor_tflops * 1e3 / bandwidth_gb_s


def crossover_sequences(tensor_tflops: float, bandwidth_gb_s: float, bits_per_weight: float) -> float:
    """B*: sequences in a batch from which decode is bound by compute, no longer by memory.

    A weight of b bytes is read once and does 2*B operations, so B* = ridge * b / 2. An upper bound: kernels
    reach less of their peak compute than of their bandwidth.

    Raises:
        ValueError: When one of them is not positive.
    """
    _positive(bits_per_weight)
    return ridge_flop_per_byte(tensor_tflops, bandwidth_gb_s) * (bits_per_weight / 8) / 2


def step_ms(
    sequences: int,
    weight_bytes: float,
    kv_bytes_per_sequence: float,
    bandwidth_gb_s: float,
    layers: int,
    constants: DecodeConstants | None,
    *,
    active_parameters: float | None = None,
    sustained_tflops: float | None = None,
) -> float | None:
    """Time of one decode step for B sequences of a dense model, which gives each of them a token.

    max((W + B * kv) / (eta * BW), 2 * P * B / compute) + tau * L (Pope et al. 2022, arXiv:2211.05102).

    Args:
        sequences: B.
        weight_bytes: Weights, read once a step.
        kv_bytes_per_sequence: KV cache that one sequence reads.
        bandwidth_gb_s: Data-sheet memory bandwidth.
        layers: Layers of the model.
        constants: Of the device's class; None gives None.
        active_parameters: P. Without it or `sustained_tflops` only the memory bound is known, which holds
            well below `crossover_sequences`.
        sustained_tflops: Compute that kernels reach: MFU times peak.

    Raises:
        ValueError: When a count, size or rate is not positive.
    """
    if constants is None:
        return None
    _positive(sequences, weight_bytes, bandwidth_gb_s)
    read_ms = (weight_bytes + sequences * kv_bytes_per_sequence) / (constants.eta * bandwidth_gb_s * 1e6)
    compute_ms = 0.0
    if active_parameters is not None and sustained_tflops is not None:
        _positive(active_parameters, sustained_tflops)
        compute_ms = 2 * active_parameters * sequences / (sustained_tflops * 1e9)
    return max(read_ms, compute_ms) + constants.tau_us_per_layer * layers / 1000


def decode_tok_s_during_prefill(chunk_tokens: float, prefill_tok_s: float) -> float:
    """Decode rate of a stream that shares its steps with another request's prefill chunks.

    One token a step, and a step lasts as long as its chunk: Rp / chunk (Agrawal et al. 2024,
    arXiv:2403.02310).

    Args:
        chunk_tokens: Prompt tokens in a step, such as `-b` or `--max-num-batched-tokens`.
        prefill_tok_s: Prefill rate, Rp.

    Raises:
        ValueError: When either is not positive.
    """
    _positive(chunk_tokens, prefill_tok_s)
    return prefill_tok_s / chunk_tokens


def stall_ms(new_tokens: float, prefill_tok_s: float) -> float:
    """How long the others wait, or crawl, while a prompt of this many new tokens is evaluated: U / Rp.

    Raises:
        ValueError: When the rate is not positive.
    """
    _positive(prefill_tok_s)
    return 1000 * new_tokens / prefill_tok_s


def utilisation(service_ms: float, slots: int, window_ms: float) -> float:
    """Rho: time that requests held slots over the time that all slots offered; see `SATURATED`.

    Args:
        service_ms: Sum of prefill and decode time of all requests.
        slots: Slots that serve them.
        window_ms: Time from the first arrival to the last answer.

    Raises:
        ValueError: When slots or window are not positive.
    """
    _positive(slots, window_ms)
    return service_ms / (slots * window_ms)


def _positive(*values: float) -> None:
    if min(values) <= 0:
        raise ValueError("counts, sizes, rates and times must be positive")
