"""What physics expects of a change: the runner's measured turns as `rules.prediction` takes them."""

from __future__ import annotations

from functools import cache
from os import cpu_count
from statistics import median
from typing import TYPE_CHECKING

from advisor.calibration import kept
from advisor.errors import InputError
from advisor.gguf import read_model
from advisor.runner.settings import ALL_LAYERS
from rules.prediction import Done, Facts, Host, Predicted, Task, predict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from advisor.gguf import ModelFile
    from advisor.runner.block import Block, Measured
    from advisor.runner.settings import Settings
    from advisor.runner.workload import Prompt

UBATCH = 512
"""Of both engines, unless it is set."""


def expect(before: Sequence[Block], after: Sequence[Block]) -> Predicted | None:
    """What should become of both phases; ``None`` without a whole turn of each side.

    Args:
        before: turns without the change.
        after: turns with it, of which only the prompts and the settings count.
    """
    whole = [block for block in before if block.is_complete and block.facts is not None]
    asked = next((block for block in after if block.is_complete), None)
    if not whole or asked is None or len(asked.measured) != len(whole[0].measured):
        return None
    engine = whole[0].facts
    assert engine is not None
    done = [_done(turns) for turns in zip(*(block.measured for block in whole), strict=True)]
    tasks = [
        _task(one, was.prompt, then.prompt)
        for one, was, then in zip(done, whole[0].measured, asked.measured, strict=True)
    ]
    has_gpu = any(processor.is_gpu for processor in engine.processors)
    was, then = (facts(block.side.arm.settings, engine.name, has_gpu=has_gpu) for block in (whole[0], asked))
    return predict(done, tasks, was, then, host())


def facts(settings: Settings, engine: str, *, has_gpu: bool) -> Facts:
    """A model and its settings, with what the engine does where nothing is set.

    Args:
        settings: as the engine was started.
        engine: its name.
        has_gpu: it lists one; without it all layers are on the CPU, whatever is set.
    """
    model = _model(settings.model)
    threads, threads_batch = _default_threads(engine)
    return Facts(
        read_bytes=None if model is None else model.read_bytes,
        active_parameters=None if model is None else model.active_parameters,
        cache=None if model is None else model.cache,
        kv_type_k=settings.kv_type_k or "f16",
        kv_type_v=settings.kv_type_v or "f16",
        threads=settings.threads or threads,
        threads_batch=settings.threads_batch or threads_batch,
        batch=settings.batch,
        ubatch=settings.ubatch or UBATCH,
        flash_attention=settings.flash_attention,
        layers_on_gpu=_on_gpu(settings.gpu_layers, model) if has_gpu else 0.0,
        speculation=_speculation(settings),
    )


def host() -> Host:
    """This machine, with its calibration where there is one."""
    import psutil

    try:
        calibration = kept()
    except InputError:
        calibration = None
    return Host(
        psutil.cpu_count(logical=False), calibration.gb_s_by_threads if calibration is not None else {}
    )


def _done(turns: Iterable[Measured]) -> Done:
    """A request's usual times, over all turns."""
    timed = [one.timed for one in turns]
    first = timed[0]
    new = first.prefill_tokens
    if new is None:
        new = first.prompt_tokens - (first.cached_tokens or 0)
    return Done(
        new_tokens=new,
        cached_tokens=first.prompt_tokens - new,
        prefill_ms=_median(one.prefill_ms for one in timed),
        output_tokens=first.output_tokens,
        decode_steps=first.decode_steps or 0,
        decode_ms=_median(one.decode_ms for one in timed),
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _task(done: Done, was: Prompt, then: Prompt) -> Task:
    """The request as it is asked with the change: an equal prompt is evaluated as it was."""
    if (was.tokens, was.shared) == (then.tokens, then.shared):
        return Task(done.new_tokens, done.cached_tokens, then.ask.output_tokens)
    reused = min(then.shared, len(then.tokens) - 1)
    return Task(len(then.tokens) - reused, reused, then.ask.output_tokens)


@cache
def _model(path: Path) -> ModelFile | None:
    try:
        return read_model(path)
    except InputError:
        return None


@cache
def _default_threads(engine: str) -> tuple[int | None, int | None]:
    """Threads for decode and prefill of an engine that is told nothing.

    llama-cpp-python takes half of the processors for decode and all for prefill (its `llama.py`), llama.cpp
    itself as many as there are cores.
    """
    import psutil

    if engine == "llama-cpp-python":
        processors = cpu_count() or 1
        return max(processors // 2, 1), processors
    cores = psutil.cpu_count(logical=False)
    return cores, cores


def _on_gpu(layers: int, model: ModelFile | None) -> float | None:
    """The share of layers; llama.cpp counts the output layer too."""
    if layers in (0, ALL_LAYERS):
        return float(layers == ALL_LAYERS)
    return None if model is None or model.layers is None else min(layers / (model.layers + 1), 1.0)


def _speculation(settings: Settings) -> str:
    if settings.draft_model is not None:
        return f"draft {settings.draft_model.name}"
    return "" if settings.lookup is None else f"lookup of {settings.lookup}"
