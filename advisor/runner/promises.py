"""What is promised of a remedy: by physics from what was measured, else by the finding that it is from."""

from __future__ import annotations

from contextlib import suppress
from statistics import median
from typing import TYPE_CHECKING

from advisor.calibration import kept
from advisor.errors import InputError
from advisor.runner.model_file import checked
from advisor.runner.settings import ALL_LAYERS
from rules.prediction import Done, Facts, Host, Task, predict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from advisor.gguf import ModelFile
    from advisor.runner.block import Block, Measured
    from advisor.runner.plan import Trying
    from advisor.runner.settings import Settings
    from rules.prediction import Expected
    from rules.trials import Phase

_DEFAULT_KV, _DEFAULT_UBATCH = "f16", 512


def promises(trying: Trying, before: Sequence[Block], after: Sequence[Block]) -> Mapping[Phase, Expected]:
    """What is to be expected of each phase.

    Args:
        trying: the remedy.
        before: turns without it.
        after: turns with it, of which only the prompts count.
    """
    has_gpu = any(processor.is_gpu for block in before if block.facts for processor in block.facts.processors)
    found = predict(
        [_done(turns) for turns in zip(*(block.measured for block in before), strict=True)],
        [_task(one) for one in after[0].measured],
        _facts(before[0].side.arm.settings, has_gpu=has_gpu),
        _facts(after[0].side.arm.settings, has_gpu=has_gpu),
        _host(),
    )
    by_physics: dict[Phase, Expected] = {"prefill": found.prefill, "decode": found.decode}
    return {
        phase: trying.promised.get(phase, one) if one.ratio is None else one
        for phase, one in by_physics.items()
    }


def _done(turns: Sequence[Measured]) -> Done:
    """A request's median turn."""
    timed = [one.timed for one in turns]
    prompt = turns[0].prompt
    return Done(
        new_tokens=len(prompt.tokens) - prompt.shared,
        cached_tokens=prompt.shared,
        prefill_ms=_middle(t.prefill_ms for t in timed),
        output_tokens=prompt.ask.output_tokens,
        decode_steps=_middle(t.decode_steps for t in timed) or 0.0,
        decode_ms=_middle(t.decode_ms for t in timed),
    )


def _task(one: Measured) -> Task:
    new = len(one.prompt.tokens) - one.prompt.shared
    return Task(new, one.prompt.shared, one.prompt.ask.output_tokens)


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _facts(settings: Settings, *, has_gpu: bool) -> Facts:
    model = checked(settings.model)
    return Facts(
        read_bytes=model.read_bytes if model else None,
        active_parameters=model.active_parameters if model else None,
        cache=model.cache if model else None,
        kv_type_k=settings.kv_type_k or _DEFAULT_KV,
        kv_type_v=settings.kv_type_v or _DEFAULT_KV,
        threads=settings.threads,
        threads_batch=settings.threads_batch or settings.threads,
        batch=settings.batch,
        ubatch=settings.ubatch or _DEFAULT_UBATCH,
        flash_attention=settings.flash_attention,
        layers_on_gpu=_on_gpu(settings, model) if has_gpu else 0.0,
        speculation=_speculation(settings),
    )


def _on_gpu(settings: Settings, model: ModelFile | None) -> float | None:
    """The share of the layers that a GPU holds; llama.cpp counts the output as one more."""
    if settings.gpu_layers == ALL_LAYERS:
        return 1.0
    return min(settings.gpu_layers / (model.layers + 1), 1.0) if model and model.layers else None


def _speculation(settings: Settings) -> str:
    if settings.draft_model is not None:
        return f"a draft model, {settings.draft_model.name}"
    return f"prompt lookup of {settings.lookup} tokens" if settings.lookup else ""


def _host() -> Host:
    import psutil

    calibration = None
    with suppress(InputError):  # what is kept is another machine's, or broken: then nothing is known
        calibration = kept()
    return Host(psutil.cpu_count(logical=False), calibration.gb_s_by_threads if calibration else {})
