"""What the answers of a probe say of each phase, and what they can't."""

from __future__ import annotations

from statistics import median, stdev
from typing import TYPE_CHECKING

from advisor.probe.plan import Kind
from advisor.probe.result import Cached, Decode, Length, Server, Shares
from advisor.probe.rows import rows_of
from advisor.probe.waiting import own_ms
from advisor.section import Phases

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from advisor.probe.client import Sample
    from advisor.probe.result import Interval, Prefill
    from advisor.probe.target import Target
    from advisor.probe.waiting import Waits

_WHOLE = 0.9
"""From this share of the tokens in events of their own, gaps between events are gaps between tokens."""
_FASTER, _AS_SLOW = 0.7, 0.85
"""A repeat that takes less of the first prefill was cached, one that takes more was not."""
_CLEAR = 3
"""Prefill that is not so many times the scatter of the times to the first token can't be compared."""


def lone(samples: Iterable[Sample]) -> list[Sample]:
    """Requests that ran alone with prompts that no cache knew."""
    return [one for one in samples if one.planned.kind is Kind.LENGTH]


def of_kind(samples: Iterable[Sample], kind: Kind) -> list[Sample]:
    """Those of a kind."""
    return [one for one in samples if one.planned.kind is kind]


def lengths(samples: Sequence[Sample], line: Prefill | None) -> list[Length]:
    """Medians for each length."""
    alone = lone(samples)
    sizes = sorted({one.planned.tokens for one in alone})
    return [_length(size, [one for one in alone if one.planned.tokens == size], line) for size in sizes]


def _length(aimed: int, samples: list[Sample], line: Prefill | None) -> Length:
    own_ms = [one.own.prefill_ms for one in samples if one.own and one.own.prefill_ms]
    ttft_ms = median(one.ttft_ms for one in samples)
    tokens = _middle(one.prefill_tokens for one in samples)
    prefill_ms = median(own_ms) if own_ms else max(ttft_ms - line.fixed_ms.value, 0.0) if line else None
    tpot_ms = _middle(map(tpot, samples))
    return Length(
        aimed_tokens=aimed,
        requests=len(samples),
        prompt_tokens=_middle(one.prompt_tokens for one in samples),
        ttft_ms=ttft_ms,
        prefill_ms=prefill_ms,
        prefill_tok_s=1000 * tokens / prefill_ms if tokens and prefill_ms else None,
        prefill_from=None if prefill_ms is None else "server" if own_ms else "stream",
        decode_ms=median(one.decode_ms for one in samples),
        tpot_ms=tpot_ms,
        decode_tok_s=1000 / tpot_ms if tpot_ms else None,
    )


def tpot(sample: Sample) -> float | None:
    """Time per output token after the first, by the stream, ms."""
    return sample.decode_ms / sample.decode_steps if sample.decode_steps else None


def decode(samples: Sequence[Sample]) -> Decode | None:
    """How tokens came, of all that ran alone."""
    alone = [one for one in samples if one.planned.kind is not Kind.AT_ONCE]
    if not alone:
        return None
    tpot_ms = _middle(map(tpot, alone))
    tokens = sum(one.output_tokens or 0 for one in alone)
    events = sum(len(one.came_s) for one in alone if one.output_tokens)
    gaps_ms = [
        1000 * (b - a)
        for one in alone
        if one.decode_steps and len(one.came_s) - 1 >= _WHOLE * one.decode_steps
        for a, b in zip(one.came_s, one.came_s[1:], strict=False)
    ]
    has_gaps = bool(gaps_ms) and events >= _WHOLE * tokens
    return Decode(
        tpot_ms=tpot_ms,
        tok_s=1000 / tpot_ms if tpot_ms else None,
        itl_p50_ms=_quantile(gaps_ms, 0.5) if has_gaps else None,
        itl_p90_ms=_quantile(gaps_ms, 0.9) if has_gaps else None,
        itl_max_ms=max(gaps_ms) if has_gaps else None,
        tokens_per_event=tokens / events if events else None,
    )


def cached(samples: Sequence[Sample], line: Prefill | None) -> Cached | None:
    """The prompt that was sent again, if it was."""
    repeats = of_kind(samples, Kind.REPEAT)
    alone = lone(samples)
    first = next((one for one in alone if repeats and one.planned.name == repeats[0].planned.name), None)
    if first is None:
        return None
    again_ms = median(one.ttft_ms for one in repeats)
    prompt, counted = repeats[-1].prompt_tokens, repeats[-1].cached_tokens
    if counted is not None and prompt:
        is_cached: bool | None = counted > prompt / 2
    else:
        alike_ms = [one.ttft_ms for one in alone if one.planned.tokens == first.planned.tokens]
        is_cached = _is_cached(alike_ms, first.ttft_ms, again_ms, line.fixed_ms if line else None)
    return Cached(
        first_ttft_ms=first.ttft_ms,
        repeat_ttft_ms=again_ms,
        prompt_tokens=prompt,
        cached_tokens=counted,
        is_cached=is_cached,
    )


def _is_cached(
    alike_ms: Sequence[float], first_ms: float, again_ms: float, fixed_ms: Interval | None
) -> bool | None:
    """Whether prefill took less the second time, whatever in its interval every request costs.

    Args:
        alike_ms: times to the first token of prompts of this length that no cache knew.
        first_ms: of this one, the first time.
        again_ms: of this one, again.
        fixed_ms: what every request costs; unknown, it may be most of it.
    """
    at_least_ms, about_ms = (fixed_ms.low, fixed_ms.value) if fixed_ms else (0.0, 0.0)
    if len(alike_ms) < 2 or first_ms - about_ms <= _CLEAR * stdev(alike_ms):
        return None
    if again_ms - at_least_ms < _FASTER * (first_ms - at_least_ms):
        return True
    at_most_ms = fixed_ms.high if fixed_ms else None
    if at_most_ms is None or first_ms <= at_most_ms:
        return None
    return False if again_ms - at_most_ms > _AS_SLOW * (first_ms - at_most_ms) else None


def server(samples: Sequence[Sample], line: Prefill | None) -> Server | None:
    """Both clocks; ``None`` where the server tells nothing."""
    told = [one for one in lone(samples) if own_ms(one) is not None]
    if not told:
        return None
    fixed_ms = line.fixed_ms.value if line else 0.0
    longest = max(one.planned.tokens for one in told)
    long = [one for one in told if one.planned.tokens == longest]
    return Server(
        prefill_tok_s=_middle(_rate(one.prefill_tokens, own_ms(one)) for one in long),
        stream_prefill_tok_s=_middle(_rate(one.prefill_tokens, one.ttft_ms - fixed_ms) for one in long),
        decode_tok_s=_middle(
            _rate(one.own.decode_steps, one.own.decode_ms) for one in told if one.own is not None
        ),
        stream_decode_tok_s=_middle(_rate(one.decode_steps, one.decode_ms) for one in told),
    )


def shares(
    samples: Sequence[Sample], target: Target, line: Prefill | None, waited: Waits | None = None
) -> Shares | None:
    """Where the time of these requests went, by the project's own attribution.

    Where the server tells no prefill, it is what is left of the time to the first token without waiting and
    without what every request costs.

    Args:
        samples: the requests.
        target: who answered.
        line: what prefill costs.
        waited: what they waited, of requests that were sent at once.
    """
    from parsers import Tables
    from rules.attribution import attribute, verdict

    rows = rows_of(samples, target, "")
    queue_ms = waited.ms if waited is not None else (0.0,) * len(rows)
    for row, wait_ms in zip(rows, queue_ms, strict=True):
        row.queue_ms = wait_ms if waited is not None else None
        if row.prefill_ms is None and line is not None and wait_ms is not None and row.ttft_ms is not None:
            row.prefill_ms = max(row.ttft_ms - line.fixed_ms.value - wait_ms, 0.0)
    tables = Tables()
    tables.extend(rows)
    found = attribute(tables.requests)
    if not found.wall_ms:
        return None
    return Shares(wall_ms=found.wall_ms, share=Phases(**found.phase_share), phase=verdict(found).phase)


def _rate(tokens: int | None, ms: float | None) -> float | None:
    return 1000 * tokens / ms if tokens and ms and ms > 0 else None


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
