"""What a change does to decode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rules.physics.kv import bytes_per_value
from rules.physics.layers import cache_size_bytes
from rules.prediction.both import by_threads, common_effects
from rules.prediction.given import Expected
from rules.words import count, percent, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rules.prediction.given import Done, Facts, Host, Task
    from rules.savings import Array

_SAME_DEPTH = 0.05
"""Prompts that differ by less are as deep, such as with and without a few words before them."""

_DEPTH_SPAN = 2.0
"""Deepest over shallowest request, from which their steps show what a token of context takes."""


def decode_effects(
    done: Sequence[Done], after: Sequence[Task], was: Facts, then: Facts, host: Host
) -> Iterator[Expected]:
    """Each effect on decode, as `rules.prediction.predict` takes them."""
    yield from common_effects(was, then)
    timed = [(d, task) for d, task in zip(done, after, strict=True) if d.decode_ms and d.decode_steps > 0]
    if not timed:
        yield Expected(None, "no answer was measured before")
        return
    ms = np.array([d.decode_ms for d, _ in timed], dtype=np.float64)
    steps = np.array([d.decode_steps for d, _ in timed], dtype=np.float64)
    steps_then = steps + [task.output_tokens - d.output_tokens for d, task in timed]
    left_ms = ms * np.maximum(steps_then, 0.0) / steps
    if (steps_then != steps).any():
        counts = f"{count(float(steps_then.sum()))} tokens to generate, not {count(float(steps.sum()))}"
        yield Expected(float(left_ms.sum() / ms.sum()), counts)
    prompt = np.array([d.new_tokens + d.cached_tokens for d, _ in timed])
    prompt_then = np.array([task.new_tokens + task.cached_tokens for _, task in timed])
    is_other_depth = not np.allclose(prompt, prompt_then, rtol=_SAME_DEPTH)
    depth, depth_then = prompt + steps / 2, prompt_then + steps_then / 2
    slope_ms = _ms_per_context_token(depth, ms / steps) if is_other_depth else None
    if slope_ms is not None:
        yield _by_depth(left_ms, ms / steps, slope_ms, depth, depth_then)
    is_read_otherwise = _kept(was) != _kept(then) or (is_other_depth and slope_ms is None)
    if is_read_otherwise and not _reads_its_cache(was):
        why = "without flash attention, attention" if was.layers_on_gpu == 1 else "attention on a CPU"
        yield Expected(None, f"{why} computes more than it reads")
    elif is_read_otherwise or was.read_bytes != then.read_bytes:
        read = _read(was, depth if slope_ms is None else depth_then), _read(then, depth_then)
        yield _by_bytes(left_ms, ms / steps, read, (was, then), host)
    if was.threads != then.threads:
        yield _decode_threads(left_ms, ms / steps, _read(was, depth), (was, then), host)


def _kept(facts: Facts) -> tuple[object, ...]:
    return facts.cache, facts.kv_type_k, facts.kv_type_v


def _reads_its_cache(facts: Facts) -> bool:
    """Whether a step's attention takes the time of reading the KV cache.

    The time of a token of context over that of its bytes, at the memory's bandwidth, is 1.3 to 1.4 on GPUs
    with flash attention, much as it is of weights; 2.7 to 9 without it, and about 5 on a CPU.
    """
    return facts.layers_on_gpu == 1 and facts.flash_attention is True


def _ms_per_context_token(depth: Array, step_ms: Array) -> float | None:
    """What each token of context adds to a step, from requests of different depths; `None` of alike ones."""
    if depth.max() < _DEPTH_SPAN * depth.min():
        return None
    slope_ms, bare_ms = np.polyfit(depth, step_ms, 1, w=1 / step_ms)
    return float(slope_ms) if slope_ms >= 0 and bare_ms >= 0 else None


def _by_depth(left_ms: Array, step_ms: Array, slope_ms: float, depth: Array, depth_then: Array) -> Expected:
    """Another depth, by what these requests show; never more than in proportion to it."""
    proportional = depth_then / depth
    factor = 1 + slope_ms * (depth_then - depth) / step_ms
    limits = np.minimum(proportional, 1.0), np.maximum(proportional, 1.0)
    ratio = np.average(np.clip(factor, *limits), weights=left_ms)
    said = (
        f"an answer is {count(float(depth_then.mean()))} tokens deep, not {count(float(depth.mean()))}, and "
        f"each takes {1000 * slope_ms:.2g} µs of a step, as these requests show"
    )
    return Expected(float(ratio), said)


def _read(facts: Facts, depth: Array) -> Array | None:
    """Bytes that a token reads at each context depth: weights and KV cache."""
    if facts.read_bytes is None or facts.cache is None:
        return None
    kept = [cache_size_bytes(facts.cache, tokens, facts.kv_type_k, facts.kv_type_v) for tokens in depth]
    return None if None in kept else facts.read_bytes + np.array(kept, dtype=np.float64)


def _by_bytes(
    left_ms: Array,
    step_ms: Array,
    read: tuple[Array | None, Array | None],
    facts: tuple[Facts, Facts],
    host: Host,
) -> Expected:
    """Fewer or more bytes a token, over the time that reading them takes.

    With the measured bandwidth that is bytes / bandwidth, and the rest of a step stays. Without one, the
    whole step is in proportion to the bytes, which it can be at most.
    """
    before, then = read
    if before is None or then is None:
        types = [t for f in facts for t in (f.kv_type_k, f.kv_type_v) if bytes_per_value(t) is None]
        unknown = f"the size of {types[0]} values" if types else "how much a token reads of this model"
        return Expected(None, f"{unknown} is not known")
    was = facts[0]
    bandwidth = host.gb_s(was.threads) if was.layers_on_gpu == 0 else None
    proportional = then / before
    said = f"a token reads {size(float(then.mean()))}, not {size(float(before.mean()))}"
    if bandwidth is None:
        ratio = np.average(proportional, weights=left_ms)
        return Expected(float(ratio), said, "at_most")
    factor = 1 + (then - before) / (bandwidth * 1e6) / step_ms
    limits = np.minimum(proportional, 1.0), np.maximum(proportional, 1.0)
    ratio = np.average(np.clip(factor, *limits), weights=left_ms)
    return Expected(float(ratio), f"{said}, at the measured {bandwidth:.3g} GB/s")


def _decode_threads(
    left_ms: Array, step_ms: Array, read: Array | None, facts: tuple[Facts, Facts], host: Host
) -> Expected:
    """Reading gets as much faster as memory does with so many threads, and what else a step does is shared.

    With a calibration: bytes / bandwidth of a step is reading, the rest computing. A small model reads for a
    fraction of its step only, so the bandwidth alone says nothing of it.
    """
    was, then = facts
    computed = by_threads(was.threads, then.threads, was, host)
    before, after = host.gb_s(was.threads), host.gb_s(then.threads)
    if computed.ratio is None or before is None or after is None or read is None:
        return computed
    reading_ms = np.minimum(read / (before * 1e6), step_ms)
    factor = (reading_ms * before / after + (step_ms - reading_ms) * computed.ratio) / step_ms
    share = float(np.average(reading_ms / step_ms, weights=left_ms))
    said = (
        f"{percent(share)} of a step is reading, at {after:.3g} GB/s and not {before:.3g}, as measured; the "
        f"rest is {computed.basis}"
    )
    return Expected(float(np.average(factor, weights=left_ms)), said, "at_most")
