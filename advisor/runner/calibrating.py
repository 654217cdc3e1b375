"""Measures a machine for `advisor.calibration`: memory by threads, arithmetic, and a model that is given."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from advisor.calibration import SCHEMA, Calibration, DecodeRate, ModelRates, PrefillRate, Rate, ReadRate, here
from advisor.runner.kernels import Memory, Product
from advisor.runner.settings import Settings
from advisor.runner.shapes import sweep
from advisor.runner.workload import Workload, tokenised
from rules.physics.layers import cache_size_bytes
from rules.physics.prefill import prefill_flops
from rules.words import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from advisor.gguf import ModelFile
    from advisor.runner.engine import Backend, Engine, Timed
    from advisor.runner.workload import Prompt

LENGTHS = (128, 512, 1024)
CONTEXT = 1280

_MEMORY_S, _COMPUTE_S = 1.0, 1.0
_LEAST_BYTES, _BYTES_PER_CORE, _FREE_SHARE = 256 << 20, 32 << 20, 0.125
"""Of memory to read: four times the last cache of most processors, and of no more than is free to spare."""

_SIDE = 1024
_TIMES, _LEAST_TIMES = 3, 2
MODEL_S = 18.0
"""Each prompt is run so often; with a slow model the longer ones are left out, so that all ends in time."""


def measured(
    model: ModelFile | None,
    path: Path | None,
    backend: Backend | None,
    tell: Callable[[str], None],
    *,
    seconds: float = _MEMORY_S,
    memory_bytes: int | None = None,
) -> Calibration:
    """The figures of this machine.

    Args:
        model: what the file says; ``None`` for a calibration without one.
        path: the file.
        backend: runs it.
        tell: hears what is being measured.
        seconds: for each number of threads, and for arithmetic.
        memory_bytes: to read; ``None`` for much more than the caches hold.

    Raises:
        advisor.runner.engine.EngineError: the model can't be run.
    """
    machine = here()
    size = memory_bytes or _memory_bytes(machine.cores)
    memory = []
    for threads in sorted({1, 2, machine.cores // 2, machine.cores} & set(range(1, machine.cores + 1))):
        tell(f"reading memory with {plural(threads, 'thread')}")
        with Memory(size, threads) as read:
            memory.append(ReadRate(threads=threads, gb_s=_rate(read.rates(seconds))))
    tell("multiplying")
    product = Product(_SIDE)
    product.rates(0.0)
    compute = _rate(product.rates(seconds))
    rates = None
    if model is not None and path is not None and backend is not None:
        tell(f"loading {model.name}")
        rates = _of_model(model, path, backend, tell)
    return Calibration(
        schema=SCHEMA,
        measured_at=datetime.now(UTC).replace(microsecond=0),
        machine=machine,
        memory=memory,
        compute_gflops=compute,
        model=rates,
    )


def _memory_bytes(cores: int) -> int:
    import psutil

    wanted = max(_LEAST_BYTES, _BYTES_PER_CORE * cores)
    return min(wanted, int(psutil.virtual_memory().available * _FREE_SHARE))


def _rate(rates: Sequence[float]) -> Rate:
    return Rate(best=float(max(rates)), median=float(np.median(rates)))


def _of_model(model: ModelFile, path: Path, backend: Backend, tell: Callable[[str], None]) -> ModelRates:
    with TemporaryDirectory(prefix="phasewise-") as folder:
        log = Path(folder) / "engine.log"
        with backend.start(Settings(path, context=CONTEXT), log) as engine:
            prefill, decode = _rates(model, engine, tell)
            return ModelRates(
                name=model.name,
                read_bytes=model.read_bytes,
                engine=engine.name,
                engine_version=engine.version,
                on_gpu=any(processor.is_gpu for processor in engine.processors),
                prefill=prefill,
                decode=decode,
            )


def _rates(
    model: ModelFile, engine: Engine, tell: Callable[[str], None]
) -> tuple[list[PrefillRate], list[DecodeRate]]:
    prompts = tokenised(Workload("calibrate", tuple(sweep(LENGTHS))), engine)
    _asked(engine, prompts[0])
    end = time.monotonic() + MODEL_S
    prefill: list[PrefillRate] = []
    decode: list[DecodeRate] = []
    for prompt in prompts:
        tell(prompt.ask.label)
        timed: list[Timed] = []
        least = 0 if prefill else _LEAST_TIMES
        while len(timed) < _TIMES and (time.monotonic() < end or len(timed) < least):
            timed.append(_asked(engine, prompt))
        prefill += _prefill(model, timed)
        decode += _decode(model, len(prompt.tokens), timed)
    return prefill, decode


def _asked(engine: Engine, prompt: Prompt) -> Timed:
    engine.forget()
    return engine.ask(prompt.tokens, prompt.ask.output_tokens)


def _prefill(model: ModelFile, timed: Sequence[Timed]) -> list[PrefillRate]:
    known = [(one.prefill_tokens, one.prefill_ms) for one in timed if one.prefill_tokens and one.prefill_ms]
    if len(known) < _LEAST_TIMES:
        return []
    tokens = known[0][0]
    rate = _rate([1000 * n / ms for n, ms in known])
    gflops = None
    if model.attention_layers is not None and model.attention_width is not None:
        width = model.attention_layers, model.attention_width
        flops = prefill_flops(model.active_parameters, tokens, 0, *width)
        gflops = flops / 1e9 * rate.best / tokens
    return [PrefillRate(tokens=tokens, tok_s=rate, gflops=gflops)]


def _decode(model: ModelFile, prompt_tokens: int, timed: Sequence[Timed]) -> list[DecodeRate]:
    known = [(one.decode_steps, one.decode_ms) for one in timed if one.decode_steps and one.decode_ms]
    if len(known) < _LEAST_TIMES:
        return []
    rate = _rate([1000 * n / ms for n, ms in known])
    depth = prompt_tokens + known[0][0] // 2
    kv_bytes = None if model.cache is None else cache_size_bytes(model.cache, depth, "f16", "f16")
    read = model.read_bytes + (kv_bytes or 0.0)
    return [DecodeRate(depth=depth, tok_s=rate, kv_bytes=kv_bytes, gb_s=read * rate.best / 1e9)]
