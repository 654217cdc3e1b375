"""What a change does to prefill."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rules.comparison.effect import FLOOR
from rules.physics.prefill import PrefillModel, fit_prefill
from rules.prediction.both import by_threads, common_effects
from rules.prediction.given import Expected
from rules.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rules.prediction.given import Done, Facts, Host, Task

_CLEAN_SAMPLES = 3
"""Requests that show attention where their lengths span enough: each is the median of several turns."""

_ALIKE = 0.1
"""Of a change: two formulas that differ by less say the same."""


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
    """Other prompts: by the model fitted to the measured ones, and no prompt faster than a decode step.

    Where these don't show how much of prefill is attention, the truth lies between all of it in proportion
    to the tokens, and all in proportion to the pairs of tokens.
    """
    timed = [(d, task) for d, task in zip(done, after, strict=True) if d.prefill_ms and d.new_tokens > 0]
    new, cached, ms = (
        np.array([getattr(d, name) for d, _ in timed], dtype=np.float64)
        for name in ("new_tokens", "cached_tokens", "prefill_ms")
    )
    fit = fit_prefill(new, cached, ms, min_samples=_CLEAN_SAMPLES)
    if fit is None:
        return Expected(None, "no prompt was measured before")
    new_then = np.array([task.new_tokens for _, task in timed], dtype=np.float64)
    cached_then = np.array([task.cached_tokens for _, task in timed], dtype=np.float64)
    least_ms = np.minimum(_step_ms(done), ms)

    def ratio_by(model: PrefillModel) -> float:
        factor = model.predict_ms(new_then, cached_then) / model.predict_ms(new, cached)
        return float(np.where(new_then > 0, np.maximum(ms * factor, least_ms), 0.0).sum() / ms.sum())

    counts = f"{count(float(new_then.sum()))} prompt tokens to evaluate, not {count(float(new.sum()))}"
    if fit.quadratic:
        return Expected(ratio_by(fit.model), f"{counts}, by the model fitted to the measured prompts")
    ratio, by_pairs = ratio_by(PrefillModel(1.0)), ratio_by(PrefillModel(0.0, 1.0))
    if abs(by_pairs - ratio) <= max(_ALIKE * abs(1 - ratio), FLOOR):
        return Expected(ratio, f"{counts}, in proportion to them")
    if (1 - ratio) * (1 - by_pairs) <= 0:
        return Expected(None, f"{counts}, behind so many more that attention may outweigh them")
    if abs(1 - by_pairs) > abs(1 - ratio):
        return Expected(ratio, f"{counts}, in proportion to them; attention makes it more", "at_least")
    return Expected(ratio, f"{counts}, in proportion to them; attention makes it less", "at_most")


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
