"""``phasewise estimate``: what a request will cost, from a model, a device and measured rates.

Nothing runs. What cannot be told from the given numbers is None; what is rough says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from advisor.errors import InputError
from rules.decoding import QUANT_LADDER, TELLING_BYTES
from rules.physics.decode import bandwidth_ceiling_tok_s
from rules.physics.predict import (
    NOTHING,
    Guess,
    decode_guess,
    decode_guess_at,
    prefill_guess,
    prefill_guess_from_tflops,
)
from rules.physics.prefill import prefill_flops
from rules.physics.quant import bits_per_weight, file_bits_per_weight, quant_name

if TYPE_CHECKING:
    from advisor.calibration import ModelRates
    from advisor.estimate_inputs import Ask, Hardware, Model

SCHEMA = "phasewise.estimate/1"

SPARE_BYTES = 1 << 30
"""Kept free for compute buffers and the driver: what llama.cpp's `--fit-target` keeps by default."""


SAME_MODEL, SAME_MODEL_ERROR = 1.001, 0.15
SAME_CLASS, SAME_CLASS_ERROR = 2.0, 0.3
"""Ratio of the bytes that two models' tokens read, up to which one's measured decode says the other's, and
how far off it may be: kernels of other quantizations read at other rates."""

DEEPER = 1.2
"""For each doubling of the context past the deepest that was measured, the range is so much wider."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The answer: times in ms, rates in tok/s."""

    model: Model | None
    hardware: Hardware
    ask: Ask
    decode: Guess
    prefill: Guess
    ceiling_tok_s: float | None
    kv_bytes: float | None

    @property
    def ms_per_token(self) -> float | None:
        """Time per output token."""
        return 1000 / self.decode.value if self.decode.value else None

    @property
    def prefill_tok_s(self) -> float | None:
        """Rate over the tokens that are evaluated."""
        ms, new = self.prefill.value, (self.ask.prompt or 0) - self.ask.cached
        return 1000 * new / ms if ms and new else None

    @property
    def decode_ms(self) -> Guess:
        """Time for all output tokens."""
        tokens, rate = self.ask.output, self.decode
        if tokens == 0:
            return Guess(0.0, 0.0, 0.0, "nothing to generate")
        if tokens is None:
            return NOTHING
        value, low, high = (1000 * tokens / r if r else None for r in (rate.value, rate.high, rate.low))
        return Guess(value, low, high, rate.basis)

    @property
    def total_ms(self) -> Guess:
        """Prefill and decode; queue and load are not in it."""
        one, other = self.prefill, self.decode_ms
        return Guess(
            _sum(one.value, other.value),
            _sum(one.low, other.low),
            _sum(one.high, other.high),
            "prefill and decode",
        )

    @property
    def needed_bytes(self) -> float | None:
        """Weights, cache and `SPARE_BYTES`."""
        if self.model is None or self.kv_bytes is None:
            return None
        return self.model.weights_bytes + self.kv_bytes + SPARE_BYTES

    @property
    def fits(self) -> bool | None:
        """Whether it fits the device's memory; None when one of both is unknown."""
        memory = self.hardware.memory_bytes
        if memory is None or self.model is None:
            return None
        if self.needed_bytes is not None:
            return self.needed_bytes <= memory
        return False if self.model.weights_bytes + SPARE_BYTES > memory else None

    def as_json(self) -> dict[str, Any]:
        """The keys of `estimate --format json`."""
        total, decode_ms = self.total_ms.value, self.decode_ms.value
        share = None
        if total and decode_ms is not None:
            share = {"prefill": 1 - decode_ms / total, "decode": decode_ms / total}
        return {
            "schema": SCHEMA,
            "decode_tok_s": self.decode.value,
            "decode_ms_per_token": self.ms_per_token,
            "bandwidth_ceiling_tok_s": self.ceiling_tok_s,
            "prefill_tok_s": self.prefill_tok_s,
            "prefill_ms": self.prefill.value,
            "ttft_ms": self.prefill.value,
            "total_ms": total,
            "phase_share": share,
            "kv_bytes": self.kv_bytes,
            "weights_bytes": round(self.model.weights_bytes) if self.model else None,
            "fits": self.fits,
            "range": {
                "decode_tok_s": _bounds(self.decode),
                "prefill_ms": _bounds(self.prefill),
                "total_ms": _bounds(self.total_ms),
            },
            "basis": {"decode": self.decode.basis or None, "prefill": self.prefill.basis or None},
        }


def estimate(model: Model | None, hardware: Hardware, ask: Ask) -> Estimate:
    """What the request will cost.

    Raises:
        InputError: nothing was given that it could rest on.
    """
    if model is None and not ask.points and ask.decode_tok_s is None:
        raise InputError(
            "nothing to estimate from; give the model (--gguf FILE, or --weights-bytes N and --layers L) and "
            "the device (--device NAME or --bandwidth GB/s)."
        )
    kv_read = model.kv_bytes(ask.context_mid_answer, ask.kv_type) if model else None
    ceiling = None
    if model and hardware.bandwidth_bounds_gb_s:
        fastest = hardware.bandwidth_bounds_gb_s[1]
        ceiling = bandwidth_ceiling_tok_s(model.read_bytes + (kv_read or 0.0), fastest)
    return Estimate(
        model=model,
        hardware=hardware,
        ask=ask,
        decode=_decode(model, hardware, ask, kv_read or 0.0),
        prefill=_prefill(model, hardware, ask),
        ceiling_tok_s=ceiling,
        kv_bytes=model.kv_bytes(ask.context_at_end, ask.kv_type) if model else None,
    )


def _decode(model: Model | None, hardware: Hardware, ask: Ask, kv_read: float) -> Guess:
    if ask.decode_tok_s is not None:
        return Guess(ask.decode_tok_s, ask.decode_tok_s, ask.decode_tok_s, "the measured rate")
    if model is None:
        return NOTHING
    if measured := _measured_decode(model, hardware, ask, kv_read):
        return measured if _runs_as_measured(hardware, ask) else NOTHING
    if hardware.bandwidth_bounds_gb_s is None or (hardware.calibrated and model.read_bytes < TELLING_BYTES):
        return NOTHING
    guess = decode_guess(
        model.read_bytes,
        kv_read,
        hardware.bandwidth_bounds_gb_s,
        hardware.device_class,
        model.layers,
        mixture=model.mixture,
        flash_attention=ask.flash_attention,
    )
    if hardware.calibrated is None:
        return guess
    return replace(guess, basis=f"{guess.basis}, with the memory's bandwidth {hardware.calibrated.words}")


def _measured_model(hardware: Hardware) -> ModelRates | None:
    return hardware.calibrated.model if hardware.calibrated else None


def _runs_as_measured(hardware: Hardware, ask: Ask) -> bool:
    """Otherwise nothing can be told: attention on a CPU computes more than it reads."""
    known = _measured_model(hardware)
    return known is not None and (ask.kv_type, ask.flash_attention) == ("f16", known.flash_attention)


def _measured_decode(model: Model, hardware: Hardware, ask: Ask, kv_read: float) -> Guess | None:
    """From what this machine did with this model, or with one whose tokens read about as much."""
    known = _measured_model(hardware)
    if hardware.calibrated is None or known is None or known.decode_gb_s is None or model.mixture:
        return None
    if not known.reads_like(model.read_bytes, SAME_CLASS):
        return None
    error = SAME_MODEL_ERROR if known.reads_like(model.read_bytes, SAME_MODEL) else SAME_CLASS_ERROR
    error = max(error, known.decode_spread)
    basis = f"as fast as {known.name} was read, {hardware.calibrated.words}"
    guess = _beyond(
        decode_guess_at(model.read_bytes, kv_read, known.decode_gb_s, error, basis),
        ask.context_mid_answer / known.decode[-1].depth,
    )
    most = hardware.bandwidth_bounds_gb_s
    if most is None or guess.high is None:
        return guess
    ceiling = bandwidth_ceiling_tok_s(model.read_bytes + kv_read, most[1])
    return replace(guess, high=max(min(guess.high, ceiling), guess.value or 0.0))


def _beyond(guess: Guess, depths: float) -> Guess:
    """A decode rate at so many times the deepest measured context."""
    if depths <= 1 or guess.low is None or guess.high is None:
        return guess
    wider = DEEPER ** math.log2(depths)
    basis = f"{guess.basis}, at {depths:.1f} times the deepest context that was"
    return replace(guess, low=guess.low / wider, high=guess.high * wider, basis=basis)


def _prefill(model: Model | None, hardware: Hardware, ask: Ask) -> Guess:
    if ask.prompt is None:
        return NOTHING
    new, before = ask.prompt - ask.cached, ask.depth + ask.cached
    points = ask.points or _measured_points(model, hardware, ask)
    if points or not new:
        guess = prefill_guess(points, new, before)
        if ask.points or not new or hardware.calibrated is None:
            return guess
        return replace(guess, basis=f"{guess.basis} ({hardware.calibrated.words})")
    if model is None or hardware.tensor_tflops is None or model.active_parameters is None:
        return NOTHING
    attention = model.attention_layers or 0, model.attention_width or 0
    return prefill_guess_from_tflops(
        prefill_flops(model.active_parameters, new, before, *attention), hardware.tensor_tflops
    )


def _measured_points(model: Model | None, hardware: Hardware, ask: Ask) -> tuple[tuple[float, float], ...]:
    """What this machine did with this very model."""
    known = _measured_model(hardware)
    if model is None or known is None or model.name != known.name or not _runs_as_measured(hardware, ask):
        return ()
    if not known.reads_like(model.read_bytes, SAME_MODEL):
        return ()
    return tuple((float(one.tokens), one.tok_s.median) for one in known.prefill)


def what_if(now: Estimate) -> list[tuple[str, Estimate]]:
    """The same request with one thing changed: quantization, KV type, half the context.

    A measured decode rate changes as the predicted one does; where none can be predicted there is no answer.
    """
    model, ask = now.model, now.ask
    if model is None:
        return []
    changed: list[tuple[str, Model, Ask]] = []
    if model.parameters:
        bits = bits_per_weight(model.weights_bytes, model.parameters)
        for quant in QUANT_LADDER:
            target = file_bits_per_weight(quant, model.parameters)
            if target is not None and quant != quant_name(model.quantization or ""):
                changed.append((f"weights in {quant}", model.scaled(target / bits), ask))
    if now.kv_bytes and ask.kv_type == "f16":
        changed.append(("KV cache in q8_0", model, replace(ask, kv_type="q8_0")))
    if (ask.prompt or 0) + ask.depth > 1:
        changed.append(("half the context", model, ask.halved()))
    answers = ((name, _calibrated(now, other, asked)) for name, other, asked in changed)
    return [(name, answer) for name, answer in answers if answer is not None]


def _calibrated(now: Estimate, model: Model, ask: Ask) -> Estimate | None:
    """The estimate of a change; a measured decode rate is scaled by the predicted effect."""
    predicted = estimate(model, now.hardware, replace(ask, decode_tok_s=None))
    if ask.decode_tok_s is None:
        return predicted
    before = estimate(now.model, now.hardware, replace(now.ask, decode_tok_s=None))
    if not before.decode.value or not predicted.decode.value:
        return None
    rate = ask.decode_tok_s * predicted.decode.value / before.decode.value
    return estimate(model, now.hardware, replace(ask, decode_tok_s=rate))


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _bounds(guess: Guess) -> list[float] | None:
    return None if guess.low is None or guess.high is None else [guess.low, guess.high]
