"""Requests as long as a log's, made anew: their texts are not in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.runner.workload import Ask, Segment
from rules.prompts import FIXED_SHARE
from rules.words import count, plural

if TYPE_CHECKING:
    from advisor.runner.analysis_file import Summary

REQUESTS = 3
PROMPT_TOKENS, OUTPUT_TOKENS = 1024, 64
"""Of a request whose sizes the log doesn't tell."""

_LEAST_PROMPT, _LEAST_OUTPUT = 32, 8
_LEAST_CUT_OUTPUT = 32
"""Answers are not cut below it: decode could not be measured."""


@dataclass(frozen=True, slots=True)
class _Size:
    """Tokens of a request: its prompt, the part of it that others share, and its answer."""

    prompt: float
    shared: float
    output: float


@dataclass(frozen=True, slots=True)
class Made:
    """Requests, whether they are shorter than the log's, and how they differ from those in words."""

    asks: tuple[Ask, ...]
    is_cut: bool
    notes: tuple[str, ...]


def like_the_log(summary: Summary, context: int, budget_tokens: int, reused: float | None = None) -> Made:
    """Requests as long as the log's: two of the middle, and one that only a tenth are longer than.

    Args:
        summary: of the log.
        context: tokens that prompt and answer may have.
        budget_tokens: prompt and answer tokens of all requests, at most.
        reused: of the tokens that the log's prompts evaluated, the share that they have in common, 0-1;
            ``None`` for none beside those that were cached.
    """
    notes = []
    prompt, output = summary.prompt_tokens, summary.output_tokens
    if not prompt.p50:
        prompt = summary.prefill_tokens
    middle = prompt.p50 or PROMPT_TOKENS
    long = max(prompt.p90 or middle, middle)
    answer, long_answer = output.p50 or OUTPUT_TOKENS, output.p90 or output.p50 or OUTPUT_TOKENS
    if not prompt.p50 or not output.p50:
        notes.append("the log does not tell how long its prompts or answers are, so they are made up")
    cached = _cached(summary)
    shared = cached + (middle - cached) * (reused or 0.0)
    if reused is not None:
        notes.append(f"the first of {REQUESTS} prompts is read whole either way")
    wanted = [_Size(middle, shared, answer)] * (REQUESTS - 1) + [_Size(long, shared, long_answer)]
    sizes = _fitting(wanted, context, budget_tokens)
    asks = tuple(_ask(number, size) for number, size in enumerate(sizes, 1))
    return Made(asks, sizes != wanted, (*notes, *_told(wanted, sizes, summary)))


def _cached(summary: Summary) -> float:
    """Tokens of a typical prompt."""
    prompt, evaluated = summary.prompt_tokens.p50, summary.prefill_tokens.p50
    return max(prompt - evaluated, 0.0) if prompt and evaluated else 0.0


def _fitting(wanted: list[_Size], context: int, budget: int) -> list[_Size]:
    """Sizes that fit the budget and, with some room for what a knob adds, the context.

    Answers are cut where they take more than half of either, and then no shorter than decode can be measured
    on; all else that is too much is cut from the prompts.
    """
    room, answers = 0.95 * context, [size.output for size in wanted]
    factor = min(1.0, budget / 2 / sum(answers), room / 2 / max(answers))
    answers = [max(factor * tokens, min(tokens, _LEAST_CUT_OUTPUT)) for tokens in answers]
    rooms = [(room - answer) / size.prompt for size, answer in zip(wanted, answers, strict=True)]
    factor = max(min(1.0, (budget - sum(answers)) / sum(size.prompt for size in wanted), *rooms), 0.0)
    return [
        _Size(size.prompt * factor, size.shared * factor, answer)
        for size, answer in zip(wanted, answers, strict=True)
    ]


def _ask(number: int, size: _Size) -> Ask:
    """Shared tokens first, what a cut may shorten in the middle, and a question that stays."""
    prompt = max(round(size.prompt), _LEAST_PROMPT)
    shared = min(round(size.shared), prompt - 2)
    kept = min(max(round(FIXED_SHARE * prompt) - shared, 1), prompt - shared - 1)
    segments = [
        Segment("instructions that all of them share", shared, is_fixed=True),
        Segment(f"material {number}", prompt - shared - kept),
        Segment(f"question {number}", kept, is_fixed=True),
    ]
    asked = tuple(segment for segment in segments if segment.size)
    return Ask(f"request {number}", asked, max(round(size.output), _LEAST_OUTPUT), is_fresh=number == 1)


def _told(wanted: list[_Size], sizes: list[_Size], summary: Summary) -> list[str]:
    notes = []
    if sizes != wanted:
        notes.append(
            f"{count(round(sizes[0].prompt))} prompt and {count(round(sizes[0].output))} answer tokens a "
            f"request stand for the log's {count(wanted[0].prompt)} and {count(wanted[0].output)}, "
            "so that a turn is short and fits the context"
        )
    if (at_once := summary.concurrency) is not None and at_once > 1:
        notes.append(f"the log's engine ran {plural(at_once, 'request')} at once, the runner runs one")
    return notes
