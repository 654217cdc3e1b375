"""What `phasewise estimate` is asked: a model, a device, a request, each as far as it is known."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import TYPE_CHECKING

from advisor.errors import InputError
from rules.physics.kv import bytes_per_value
from rules.physics.layers import cache_size_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from advisor.calibration import Calibration
    from rules.physics.layers import LayerCache

_SIZE = re.compile(r"(?P<number>\d+\.?\d*(?:e\d+)?) ?(?P<unit>[kmgt]?)(?P<binary>i?)b?", re.IGNORECASE)


_SMALLEST_MODEL_BYTES = 1e5


@dataclass(frozen=True, slots=True)
class Model:
    """What is known of a model; None for what is not.

    Attributes:
        name: For the page.
        weights_bytes: All of them.
        read_bytes: Those that one token reads.
        layers: Their number.
        mixture: A mixture of experts.
        cache: What each layer keeps.
        kv_bytes_per_token: In f16, where it was given in place of `cache`.
        parameters: All of them.
        active_parameters: Those that one token passes through.
        attention_layers: Layers with attention.
        attention_width: Query heads times head size.
        quantization: Its name.
    """

    name: str
    weights_bytes: float
    read_bytes: float
    layers: int | None = None
    mixture: bool = False
    cache: Sequence[LayerCache] | None = None
    kv_bytes_per_token: float | None = None
    parameters: float | None = None
    active_parameters: float | None = None
    attention_layers: int | None = None
    attention_width: int | None = None
    quantization: str | None = None

    def kv_bytes(self, context_tokens: float, kv_type: str) -> float | None:
        """The cache of one sequence at this context."""
        if self.cache is not None:
            return cache_size_bytes(self.cache, context_tokens, kv_type, kv_type)
        size = bytes_per_value(kv_type)
        if self.kv_bytes_per_token is None or size is None:
            return None
        return self.kv_bytes_per_token * context_tokens * size / 2

    def scaled(self, ratio: float) -> Model:
        """The same model with its weights in other bits."""
        return replace(self, weights_bytes=self.weights_bytes * ratio, read_bytes=self.read_bytes * ratio)


@dataclass(frozen=True, slots=True)
class Hardware:
    """What is known of the device; None for what is not.

    Attributes:
        calibrated: What was measured of it; None for a device that is only known by its data sheet.
    """

    name: str | None = None
    device_class: str | None = None
    bandwidth_bounds_gb_s: tuple[float, float] | None = None
    tensor_tflops: float | None = None
    memory_bytes: float | None = None
    calibrated: Calibration | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """The request; None for what was not said.

    Attributes:
        prompt: Prompt tokens, cached ones included.
        output: Tokens to generate.
        cached: Of the prompt, tokens already in the cache.
        depth: Tokens in the cache before the prompt.
        points: Measured prefill, as prompt tokens and tok/s.
        decode_tok_s: Measured decode rate; takes the place of the prediction.
        flash_attention: Whether it is on.
        kv_type: KV type.
    """

    prompt: int | None = None
    output: int | None = None
    cached: int = 0
    depth: int = 0
    points: tuple[tuple[float, float], ...] = ()
    decode_tok_s: float | None = None
    flash_attention: bool = True
    kv_type: str = "f16"

    def halved(self) -> Ask:
        """The same request with half of what comes before the answer."""
        prompt = None if self.prompt is None else self.prompt // 2
        return replace(self, prompt=prompt, cached=self.cached // 2, depth=self.depth // 2)

    @property
    def context_mid_answer(self) -> float:
        """Tokens in the cache when half of the answer is there."""
        return self.depth + (self.prompt or 0) + (self.output or 0) / 2

    @property
    def context_at_end(self) -> int:
        """Tokens in the cache when the answer is complete."""
        return self.depth + (self.prompt or 0) + (self.output or 0)


def model_of(
    gguf: Path | None,
    weights: str | None,
    active_weights: str | None,
    layers: int | None,
    kv_bytes_per_token: float | None,
) -> Model | None:
    """The model of a file, or of the numbers given in place of it; given numbers go before the file's.

    Raises:
        InputError: the file can't be read, or a number is missing or impossible.
    """
    if gguf is None and weights is None:
        for option, value in (
            ("--active-weights-bytes", active_weights),
            ("--layers", layers),
            ("--kv-bytes-per-token", kv_bytes_per_token),
        ):
            if value is not None:
                raise InputError(f"{option} needs a model too: give --weights-bytes N, or --gguf FILE.")
        return None
    _finite("--kv-bytes-per-token", kv_bytes_per_token)
    model = _of_file(gguf) if gguf is not None else Model("a model of this size", 0, 0)
    if weights is not None:
        size = _bytes("--weights-bytes", weights)
        if size < _SMALLEST_MODEL_BYTES:
            raise InputError(f"--weights-bytes {weights}: no model is that small; give bytes, or 4.58GiB.")
        model = replace(model, weights_bytes=size, read_bytes=size)
    if active_weights is not None:
        active = _bytes("--active-weights-bytes", active_weights)
        if active > model.weights_bytes:
            raise InputError(f"--active-weights-bytes {active_weights}: more than the model weighs.")
        model = replace(model, read_bytes=active, mixture=active < model.weights_bytes)
    if kv_bytes_per_token is not None:
        model = replace(model, cache=None, kv_bytes_per_token=kv_bytes_per_token)
    return model if layers is None else replace(model, layers=layers)


def _of_file(path: Path) -> Model:
    from advisor.gguf import read_model

    file = read_model(path)
    if not file.weights_bytes:
        raise InputError(f"{path}: this file holds no weights.")
    return Model(
        name=file.name,
        weights_bytes=file.weights_bytes,
        read_bytes=file.read_bytes,
        layers=file.layers,
        mixture=file.mixture,
        cache=file.cache,
        parameters=file.parameters,
        active_parameters=file.active_parameters,
        attention_layers=file.attention_layers,
        attention_width=file.attention_width,
        quantization=file.quantization,
    )


def hardware_of(
    device: str | None,
    bandwidth_gb_s: float | None,
    tflops: float | None,
    vram: str | None,
    *,
    is_here: bool = False,
) -> Hardware:
    """The device by its name, or by the numbers given in place of it, completed by ``phasewise.toml``.

    Args:
        device: its name.
        bandwidth_gb_s: of its memory.
        tflops: of its tensor cores.
        vram: its memory.
        is_here: without any of these it is this machine, if that was measured.

    Raises:
        InputError: nothing is known of a device of this name and no bandwidth was given, or a size is none.
    """
    from advisor.config import machine, parse_size
    from rules.hardware import Machine
    from rules.physics.devices import find_device

    try:
        memory_bytes = None if vram is None else parse_size(vram)
    except ValueError:
        raise InputError(f"--vram {vram}: give a size such as 24GiB.") from None
    _finite("--bandwidth", bandwidth_gb_s)
    _finite("--tflops", tflops)
    given = machine(Machine(device, bandwidth_gb_s, memory_bytes))
    if given.measured_on or (is_here and tflops is None):
        from advisor.this_machine import measured_hardware

        if here := measured_hardware(given, tflops):
            return here
    found = find_device(given.device, given.vram_bytes) if given.device else None
    if given.device and found is None and given.bandwidth_gb_s is None:
        raise InputError(
            f"{given.device}: no facts known of this device; give its memory's speed with --bandwidth GB/s."
        )
    bounds = found.bandwidth_bounds_gb_s if found else None
    listed = found.memory_gb * 2**30 if found and found.memory_gb else None
    return Hardware(
        name=found.name if found else given.device,
        device_class=found.device_class if found else None,
        bandwidth_bounds_gb_s=(given.bandwidth_gb_s,) * 2 if given.bandwidth_gb_s else bounds,
        tensor_tflops=tflops or (found.tensor_tflops if found else None),
        memory_bytes=given.vram_bytes or listed,
    )


def ask_of(
    prompt: int | None,
    output: int | None,
    cached: int,
    depth: int,
    points: Sequence[str] | None,
    decode_tok_s: float | None,
    flash_attention: bool,
) -> Ask:
    """The request.

    Raises:
        InputError: more is cached than there is, or a point is none.
    """
    _finite("--decode-tok-s", decode_tok_s)
    if cached > (prompt or 0):
        raise InputError(f"--cached {cached}: more than --prompt {prompt or 0}.")
    measured = tuple(_point(text) for text in points or ())
    return Ask(prompt, output, cached, depth, measured, decode_tok_s, flash_attention)


def _finite(option: str, value: float | None) -> None:
    if value is not None and not isfinite(value):
        raise InputError(f"{option} {value}: give a number.")


def _point(text: str) -> tuple[float, float]:
    try:
        tokens, tok_s = (float(number) for number in text.split(":"))
    except ValueError:
        tokens = tok_s = 0.0
    if not (0 < tokens < inf and 0 < tok_s < inf):
        raise InputError(f"--prefill-point {text}: give TOKENS:TOK_S, such as 4096:1500.")
    return tokens, tok_s


def _bytes(option: str, text: str) -> float:
    """``4917737553``, ``4.9GB`` or ``4.58GiB``."""
    number = _SIZE.fullmatch(text.strip())
    size = 0.0
    if number is not None:
        base = 1024 if number["binary"] else 1000
        size = float(number["number"]) * base ** "_KMGT".index((number["unit"] or "_").upper())
    if not 0 < size < inf:
        raise InputError(f"{option} {text}: give bytes, such as 4917737553 or 4.58GiB.")
    return size
