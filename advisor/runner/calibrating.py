"""Measures a machine for `advisor.calibration`: memory by threads, arithmetic, and a model that is given."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from advisor.calibration import SCHEMA, Calibration, DecodeRate, ModelRates, PrefillRate, Rate, ReadRate, here
from advisor.runner.cores import cores
from advisor.runner.kernels import Memory, Product, uncached_bytes
from advisor.runner.settings import BATCH, UBATCH, Settings
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

LENGTHS = (128, 1024)
CONTEXT, OUTPUT_TOKENS = 1280, 32

_PART_S, _SIDE = 1.0, 1024
_WARM_TOKENS, _WARM_OUTPUT_TOKENS = 32, 4
_TIMES, _LEAST_TIMES = 3, 2
MODEL_S = 18.0
"""Each prompt is run so often; with a slow model less often, or the long one not at all, to end in time."""


def measured(
    model: ModelFile | None,
    path: Path | None,
    backend: Backend | None,
    tell: Callable[[str], None],
    note: Callable[[], None],
    *,
    seconds: float = _PART_S,
    memory_bytes: int | None = None,
) -> Calibration:
    """The figures of this machine.

    Args:
        model: what the file says; ``None`` for a calibration without one.
        path: the file.
        backend: runs it.
        tell: hears what is being measured.
        note: called whenever something was, while what measured it still runs.
        seconds: for each number of threads, and for arithmetic.
        memory_bytes: to read; ``None`` for much more than the caches hold.

    Raises:
        advisor.runner.engine.EngineError: the model can't be run.
    """
    machine = here()
    size = memory_bytes or uncached_bytes(machine.cores)
    memory = []
    for threads in sorted({1, 2, machine.cores // 2, machine.cores} & set(range(1, machine.cores + 1))):
        tell(f"reading memory with {plural(threads, 'thread')}")
        with Memory(size, threads) as read:
            memory.append(ReadRate(threads=threads, gb_s=_rate(read.rates(seconds))))
    tell("multiplying")
    product = Product(_SIDE)
    product.rates(0.0)
    compute = _rate(product.rates(seconds))
    note()
    rates = None
    if model is not None and path is not None and backend is not None:
        tell(f"loading {model.name}")
        rates = _of_model(model, path, backend, tell, note)
    return Calibration(
        schema=SCHEMA,
        measured_at=datetime.now(UTC).replace(microsecond=0),
        machine=machine,
        memory=memory,
        compute_gflops=compute,
        model=rates,
    )


def _rate(rates: Sequence[float]) -> Rate:
    return Rate(best=float(max(rates)), median=float(np.median(rates)))


def _of_model(
    model: ModelFile, path: Path, backend: Backend, tell: Callable[[str], None], note: Callable[[], None]
) -> ModelRates:
    threads = cores()
    settings = Settings(
        path,
        context=CONTEXT,
        batch=BATCH,
        ubatch=UBATCH,
        threads=threads,
        threads_batch=threads,
        flash_attention=True,
    )
    with TemporaryDirectory(prefix="phasewise-") as folder:
        log = Path(folder) / "engine.log"
        with backend.start(settings, log) as engine:
            runs = _runs(engine, tell, note)
            return ModelRates(
                name=model.name,
                read_bytes=model.read_bytes,
                engine=engine.name,
                engine_version=engine.version,
                on_gpu=any(processor.is_gpu for processor in engine.processors),
                threads=threads,
                flash_attention=True,
                prefill=[rate for _, timed in runs for rate in _prefill(model, timed)],
                decode=[rate for prompt, timed in runs for rate in _decode(model, len(prompt.tokens), timed)],
            )


def _runs(
    engine: Engine, tell: Callable[[str], None], note: Callable[[], None]
) -> list[tuple[Prompt, list[Timed]]]:
    """Each prompt in turn, several times over: what disturbs the machine for a while meets them all."""
    asks = [replace(ask, output_tokens=OUTPUT_TOKENS) for ask in sweep(LENGTHS)]
    prompts = tokenised(Workload("calibrate", tuple(asks)), engine)

    def asked(tokens: Sequence[int], output_tokens: int) -> Timed:
        engine.forget()
        timed = engine.ask(tokens, output_tokens)
        note()
        return timed

    asked(prompts[0].tokens[:_WARM_TOKENS], _WARM_OUTPUT_TOKENS)
    begin_s = time.monotonic()
    first = asked(prompts[0].tokens, OUTPUT_TOKENS)
    if _LEAST_TIMES * _round_s(first, prompts) > MODEL_S:
        prompts = prompts[:1]
    runs: list[tuple[Prompt, list[Timed]]] = [(prompt, []) for prompt in prompts]
    runs[0][1].append(first)
    for number in range(1, _TIMES + 1):
        if number > _LEAST_TIMES and (time.monotonic() - begin_s) * number / (number - 1) > MODEL_S:
            break
        tell(f"prompts, round {number} of {_TIMES}")
        for prompt, timed in runs:
            if len(timed) < number:
                timed.append(asked(prompt.tokens, OUTPUT_TOKENS))
    return runs


def _round_s(first: Timed, prompts: Sequence[Prompt]) -> float:
    """What all prompts once will take, by what the first of them took."""
    prefill_ms = first.ttft_ms or first.total_ms
    tokens = sum(len(prompt.tokens) for prompt in prompts) / len(prompts[0].tokens)
    return (prefill_ms * tokens + (first.total_ms - prefill_ms) * len(prompts)) / 1000


def _prefill(model: ModelFile, timed: Sequence[Timed]) -> list[PrefillRate]:
    known = [(one.prefill_tokens, one.prefill_ms) for one in timed if one.prefill_tokens and one.prefill_ms]
    if len(known) < _LEAST_TIMES:
        return []
    tokens = known[0][0]
    rate = _rate([1000 * n / ms for n, ms in known])
    gflops = None
    if model.attention_layers is not None and model.attention_width is not None:
        width = model.attention_layers, model.attention_width
        flops = prefill_flops(model.active_parameters - model.head_parameters, tokens, 0, *width)
        flops += 2 * model.head_parameters  # of the last token only
        gflops = flops / 1e9 * rate.median / tokens
    return [PrefillRate(tokens=tokens, tok_s=rate, gflops=gflops)]


def _decode(model: ModelFile, prompt_tokens: int, timed: Sequence[Timed]) -> list[DecodeRate]:
    known = [(one.decode_steps, one.decode_ms) for one in timed if one.decode_steps and one.decode_ms]
    if len(known) < _LEAST_TIMES:
        return []
    rate = _rate([1000 * n / ms for n, ms in known])
    depth = prompt_tokens + known[0][0] // 2
    kv_bytes = None if model.cache is None else cache_size_bytes(model.cache, depth, "f16", "f16")
    read = model.read_bytes + (kv_bytes or 0.0)
    return [DecodeRate(depth=depth, tok_s=rate, kv_bytes=kv_bytes, gb_s=read * rate.median / 1e9)]
