"""Everything a probe found, with what it can't tell and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.probe import prefill, separate
from advisor.probe.client import ALONE
from advisor.probe.plan import Kind
from advisor.probe.result import Probe
from advisor.probe.target import UNKNOWN
from advisor.probe.waiting import waits
from rules.words import count, duration, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from advisor.probe.asking import Asked
    from advisor.probe.client import Sample
    from advisor.probe.plan import Plan
    from advisor.probe.result import Cached, Prefill
    from advisor.probe.waiting import Waits

_CUT = 0.6
"""Prompts come out within a fifth of the size that is aimed at; so few tokens are not all of one."""


def found(asked: Asked, plan: Plan, address: str) -> Probe:
    """The result.

    Args:
        asked: what came.
        plan: what was to be asked.
        address: of the server, as it may be shown.
    """
    samples, target = asked.samples, asked.target
    alone, waited = separate.lone(samples), waits(samples)
    line = prefill.fit(alone)
    cached = separate.cached(samples, line)
    return Probe(
        schema="phasewise.probe/1",
        address=address,
        engine=target.engine,
        engine_version=target.version,
        model=target.model or next((one.model for one in samples if one.model), None),
        context=target.context,
        slots=target.slots,
        api=target.api.value,
        output_tokens=plan.output,
        requests=len(samples),
        is_complete=asked.fault is None and not asked.is_interrupted and not asked.too_long,
        lengths=separate.lengths(samples, line),
        prefill=line,
        decode=separate.decode(samples),
        cached=cached,
        queue=waited.result if waited else None,
        server=separate.server(samples, line),
        alone=separate.shares(alone, target, line),
        together=separate.shares(waited.samples, target, line, waited) if waited else None,
        unknown=list(_unknown(asked, line, waited)),
        next=list(_next(asked, cached, waited, address)),
    )


def _unknown(asked: Asked, line: Prefill | None, waited: Waits | None) -> Iterator[str]:
    """Why something is null, a sentence each."""
    samples = asked.samples
    for tokens, why in asked.too_long.items():
        yield f"{count(tokens)} prompt tokens: they don't fit the server's context ({why})."
    for one in separate.lengths(samples, None):
        if one.prompt_tokens and one.prompt_tokens < _CUT * one.aimed_tokens:
            told = f"the server counts {count(one.prompt_tokens)}, so it cut the prompt"
            yield f"{count(one.aimed_tokens)} prompt tokens: {told}."
    if not samples:
        yield "Everything: no request was answered."
        return
    if not any(one.prompt_tokens for one in samples):
        yield "Prefill in tokens per second: the server does not count prompt tokens (no `usage`)."
    elif line is None:
        yield "Prefill in tokens per second: that takes prompts of two lengths at least, four in all."
    elif line.tok_s is None:
        yield "One rate of prefill: attention makes longer prompts slower, so each length has its own."
    elif len({one.planned.tokens for one in separate.lone(samples)}) < prefill.CURVE_LENGTHS:
        yield "Whether prefill slows down with length, which hides what requests cost: give three --lengths."
    yield from _of_decode(samples)
    if waited is None:
        yield "Queueing: too few of the requests that were sent at once got an answer."
    elif waited.source is None:
        yield (
            f"Queue and prefill apart: {plural(waited.served, 'request')} got tokens at the same time, so "
            "prompts that come together share the engine, and only its log can split their wait."
        )
    if not any(one.own for one in samples):
        yield "Whether other users' requests were in the way: the server states no times of its own."


def _of_decode(samples: Sequence[Sample]) -> Iterator[str]:
    counted = [one for one in samples if one.output_tokens]
    if not counted:
        yield "Decode in tokens per second: the server does not count its tokens (no `usage`)."
        return
    timed = [one for one in counted if one.decode_steps]
    if not timed:
        yield "Decode: each answer came as one piece; it is not streamed, or has one token."
        return
    events, tokens = sum(len(one.came_s) for one in timed), sum(one.output_tokens or 0 for one in timed)
    if tokens > ALONE * events:
        yield f"Gaps between tokens: an event holds {tokens / events:.1f} of them."
    least = min(one.output_tokens or 0 for one in counted)
    if least < max(one.output_tokens or 0 for one in counted) / 2:
        yield f"Decode is less sure: some answers ended early, one after {plural(least, 'token')}."


def _next(asked: Asked, again: Cached | None, waited: Waits | None, address: str) -> Iterator[str]:
    """What to do now."""
    if any(one.own for one in asked.samples if one.planned.kind is Kind.LENGTH):
        yield f"Your own requests, not these: `phasewise tail {address}`, or `phasewise analyze` on its log."
    elif asked.target.engine == UNKNOWN:
        yield "Real requests, split by phase: `phasewise analyze` on its log, if `phasewise formats` has it."
    else:
        yield f"Real requests, split by phase: `phasewise tail {address}`, or `phasewise analyze` on its log."
    late = max((ms for ms in waited.ms if ms is not None), default=0.0) if waited else 0.0
    if waited is not None and late > waited.alone_ms and waited.served < len(waited.samples):
        yield (
            f"{plural(waited.served, 'request')} at a time: of {len(waited.samples)} at once the last waited "
            f"{duration(late)}. More slots help if the memory allows them; its log says how often it happens."
        )
    if again is not None and again.is_cached is False:
        yield "No prefix was cached: see whether the engine's prefix cache is off; repeats would come faster."
