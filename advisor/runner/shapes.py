"""Workloads that look like what people run: a chat, retrieval, an agent, a summary, a sweep of lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.options import Shape
from advisor.runner.workload import Ask, Segment, Workload

if TYPE_CHECKING:
    from collections.abc import Sequence


LENGTHS = (256, 512, 1024, 2048)
CHUNKS = 4

_SYSTEM = Segment("you are the librarian of this town", 384)
_STEPS = 64
"""Tokens that decode is measured over at each length of the sweep."""


def workload(
    shape: Shape, *, lengths: Sequence[int] = LENGTHS, chunks: int = CHUNKS, output_tokens: int | None = None
) -> Workload:
    """The requests of a shape.

    Args:
        shape: which.
        lengths: tokens of the prompts of `Shape.SWEEP`.
        chunks: retrieved texts in each prompt of `Shape.RAG`.
        output_tokens: of each answer, in place of the shape's own.
    """
    made = {
        Shape.SWEEP: lambda: sweep(lengths),
        Shape.CHAT: _chat,
        Shape.RAG: lambda: _rag(chunks),
        Shape.AGENT: _agent,
        Shape.SUMMARISE: _summarise,
    }[shape]()
    if output_tokens is not None:
        made = [Ask(ask.label, ask.segments, output_tokens, ask.is_fresh) for ask in made]
    return Workload(shape.value, tuple(made))


def sweep(lengths: Sequence[int]) -> list[Ask]:
    """Prompts of several lengths, none cached: prefill at each length, and decode at each context depth."""
    return [Ask(f"{n} tokens", (Segment(f"length {n}", n),), _STEPS, is_fresh=True) for n in lengths]


def _chat() -> list[Ask]:
    """Three questions under one system prompt."""
    questions = (Segment(f"question {n}", 48, is_fixed=True) for n in (1, 2, 3))
    return [Ask(f"chat {n}", (_SYSTEM, q), 64, is_fresh=n == 1) for n, q in enumerate(questions, 1)]


def _rag(chunks: int) -> list[Ask]:
    """Three questions under one system prompt, each with texts of its own."""
    return [
        Ask(
            f"rag {n}",
            (
                _SYSTEM,
                *(Segment(f"text {c} of question {n}", 256) for c in range(1, chunks + 1)),
                Segment(f"question {n}", 32, is_fixed=True),
            ),
            64,
            is_fresh=n == 1,
        )
        for n in (1, 2, 3)
    ]


def _agent() -> list[Ask]:
    """Five steps, each with all that was said before it and a tool's new answer.

    The answers are made text too, so that every engine and setting reads the same prompts.
    """
    steps = [
        (
            Segment(f"step {n}, what was found", 192),
            Segment(f"step {n}, what is asked", 32, is_fixed=True),
        )
        for n in range(1, 6)
    ]
    return [
        Ask(f"step {n}", (_SYSTEM, *(part for step in steps[:n] for part in step)), 32, is_fresh=n == 1)
        for n in range(1, 6)
    ]


def _summarise() -> list[Ask]:
    """Two long texts, each with a short summary."""
    return [
        Ask(
            f"summary {n}",
            (Segment(f"document {n}", 1500), Segment("sum this up in three sentences", 24, is_fixed=True)),
            64,
            is_fresh=True,
        )
        for n in (1, 2)
    ]
