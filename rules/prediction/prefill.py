"""What a change does to prefill."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rules.physics.prefill import fit_prefill
from rules.prediction.both import by_threads, common_effects
from rules.prediction.given import Expected
from rules.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rules.prediction.given import Done, Facts, Host, Task


def prefill_effects(
    done: Sequence[Done], after: Sequence[Task], was: Facts, then: Facts, host: Host
) -> Iterator[Expected]:
    """Each effect on prefill, as `rules.prediction.predict` takes them."""
    yield from common_effects(was, then)
    before = [(d.new_tokens, d.cached_tokens) for d in done]
    if before != [(task.new_tokens, task.cached_tokens) for task in after]:
        yield _prompts(done, after)
    if _is_other_model(was, then):
        yield _computed(was, then)
    if (was.kv_type_k, was.kv_type_v) != (then.kv_type_k, then.kv_type_v):
        yield Expected(None, "no formula tells what the type of the KV cache does to prefill")
    if _chunks(done, after, was) != _chunks(done, after, then):
        yield Expected(None, "no formula tells how fast batches of another size are read on this processor")
    if (change := _prefill_threads(was, then)) is not None:
        yield by_threads(*change, was, host)


def _prompts(done: Sequence[Done], after: Sequence[Task]) -> Expected:
    """Other prompts: by the model fitted to the measured ones, and no prompt faster than a decode step."""
    timed = [(d, task) for d, task in zip(done, after, strict=True) if d.prefill_ms and d.new_tokens > 0]
    new, cached, ms = (
        np.array([getattr(d, name) for d, _ in timed], dtype=np.float64)
        for name in ("new_tokens", "cached_tokens", "prefill_ms")
    )
    fit = fit_prefill(new, cached, ms)
    if fit is None:
        return Expected(None, "no prompt was measured before")
    new_then = np.array([task.new_tokens for _, task in timed], dtype=np.float64)
    cached_then = np.array([task.cached_tokens for _, task in timed], dtype=np.float64)
    least_ms = np.minimum(_step_ms(done), ms)
    fitted, fitted_then = fit.model.predict_ms(new, cached), fit.model.predict_ms(new_then, cached_then)
    after_ms = np.where(new_then > 0, np.maximum(ms * fitted_then / fitted, least_ms), 0.0)
    how = "by the model fitted to the measured prompts" if fit.quadratic else "in proportion to them"
    counts = f"{count(float(new_then.sum()))} prompt tokens to evaluate, not {count(float(new.sum()))}"
    return Expected(float(after_ms.sum() / ms.sum()), f"{counts}, {how}")


def _step_ms(done: Sequence[Done]) -> float:
    """The shortest measured time per token: a batch of any size reads the weights once."""
    steps = [d.decode_ms / d.decode_steps for d in done if d.decode_ms and d.decode_steps > 0]
    return min(steps, default=0.0)


def _computed(was: Facts, then: Facts) -> Expected:
    if not was.active_parameters or not then.active_parameters:
        return Expected(None, "the models' parameters are not known")
    ratio = then.active_parameters / was.active_parameters
    same = abs(ratio - 1) < 0.01
    basis = "a prompt passes through as many weights, whatever their bits" if same else "by active parameters"
    return Expected(1.0 if same else ratio, basis)


def _chunks(done: Sequence[Done], after: Sequence[Task], facts: Facts) -> list[float]:
    """How large the batches are that each prompt is read in."""
    most = min(facts.ubatch, facts.batch or facts.ubatch)
    return [min(most, max(d.new_tokens, task.new_tokens)) for d, task in zip(done, after, strict=True)]


def _prefill_threads(was: Facts, then: Facts) -> tuple[int | None, int | None] | None:
    one, other = was.threads_batch or was.threads, then.threads_batch or then.threads
    return None if one == other else (one, other)


def _is_other_model(was: Facts, then: Facts) -> bool:
    return (was.read_bytes, was.active_parameters) != (then.read_bytes, then.active_parameters)
