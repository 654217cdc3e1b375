"""What a run that tries nothing comes to, in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.options import Shape
from rules.words import count, percent, rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.runner.result import PhaseShare, Spread, Summary


def answer(workload: str, summary: Sequence[Summary], share: PhaseShare | None, disturbed: str) -> str:
    """The answer.

    Args:
        workload: the name of the shape or file.
        summary: each request.
        share: what each phase takes of their time.
        disturbed: what else ran, as the end of a sentence; empty for a machine at rest.
    """
    if disturbed:
        return f"Too disturbed to measure: {disturbed}. Close them, and run it again."
    if workload == Shape.SWEEP:
        return _sweep(summary)
    if share is None:
        return ""
    return f"Prefill takes {percent(share.prefill)} of these requests' time, decode {percent(share.decode)}."


def _sweep(summary: Sequence[Summary]) -> str:
    """How both rates fall from the shortest prompt to the longest; a length's requests are nobody's."""
    told = sorted(summary, key=lambda line: line.prompt_tokens)
    rates = [
        f"{name} {_fall(known[0], known[-1])}"
        for name, of in (
            ("prefill", [line.prefill_tok_s for line in told]),
            ("decode", [line.decode_tok_s for line in told]),
        )
        if len(known := [one for one in of if one is not None]) > 1
    ]
    if not rates:
        return ""
    ends = f"From {count(told[0].prompt_tokens)} to {count(told[-1].prompt_tokens)} prompt tokens"
    return f"{ends}, {' and '.join(rates)}."


def _fall(first: Spread, last: Spread) -> str:
    return f"goes from {rate(first.p50)} to {rate(last.p50)}"
