"""Prompts did not fit the context: answers were computed from a part of the text.

What it looks at:
    The engine's own lines: prompts cut before they were read, requests refused because the context is too
    small, and contexts that filled up while answering, where the engine drops its older half and goes on.

Why it matters:
    An answer to half a question looks like any other answer. Most engines cut silently; what goes first is
    the beginning, where the instructions are. A prompt cut at another place each turn also misses the
    cache.

When not to worry:
    Endless generation with context shifting on purpose, such as story writing.

What to change:
    A context that holds the longest prompt and its answer; else a shorter prompt, cut by you and not by the
    engine. Ollama cuts a prompt that is longer than `num_ctx` to about half of it. No time is claimed: a
    whole prompt takes longer to read than a cut one.

Sources:
    ollama#8903; llama.cpp tools/server (context size, context shift); Ollama llm/llama_server.go (the cut).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import polars as pl

from rules.contexts import larger_context, trained_for
from rules.rule import Confidence, NotApplicable, Phase, Rule
from rules.sessions import PROMPT, REQUEST, placed

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.rule import Answer, Evidence

RULE = Rule(
    id="prompt-truncated",
    phase=Phase.PREFILL,
    title="Answers were computed from a cut prompt",
    remedies=("raise-context", "trim-history"),
    verify="Send the longest prompt again: no line about a cut, and as many prompt tokens as you sent.",
    quality=True,
    sources=("ollama#8903",),
)

HEADROOM = 1.2
ROUND_TOKENS = 1_024


@dataclass(frozen=True, slots=True)
class _Kind:
    """One way to run out of context, worst first."""

    event: str
    title: str
    label: str
    happened: str
    tokens: str


_KINDS = (
    _Kind(
        "prompt_truncated",
        RULE.title,
        "cut from prompts",
        "Prompts cut to fit the context: {n}",
        "; the answers ignore {tokens:,.0f} tokens",
    ),
    _Kind(
        "context_exceeded",
        "Prompts were refused because they are longer than the context",
        "over the context, in refused requests",
        "Requests refused because their prompts are longer than the context: {n}",
        ", by {tokens:,.0f} tokens together",
    ),
    _Kind(
        "context_shift",
        "The context filled up while answering, and older text was dropped",
        "dropped while answering",
        "Times the context filled up while an answer was written: {n}",
        ", and {tokens:,.0f} tokens of older text were dropped",
    ),
    _Kind(
        "truncated",
        "Requests ran out of context",
        "marked as truncated",
        "Requests that ended because the context was full, or lost a part of it: {n}",
        "",
    ),
)


def check(m: Measures) -> Answer:
    """Ask whether text was cut, refused or dropped for lack of context."""
    cuts = _cuts(m)
    found = [(kind, rows) for kind in _KINDS if (rows := cuts.filter(pl.col("kind") == kind.event)).height]
    if not found:
        return NotApplicable("no line says that text was cut, refused or dropped")
    fixes, wont_help = _fixes(m, cuts)
    return RULE.finding(
        title=found[0][0].title,
        confidence=Confidence.CERTAIN,
        why=" ".join(_sentence(kind, rows) for kind, rows in found),
        evidence=[
            *(_evidence(m, kind, rows) for kind, rows in found),
            *([m.stated("context", "context of a request", unit="tokens")] if m.setup.context else []),
        ],
        requests=cuts.filter(pl.col("request_id").is_null() | pl.struct(REQUEST).is_first_distinct()).height,
        fixes=fixes,
        wont_help=wont_help,
    )


def _cuts(m: Measures) -> pl.DataFrame:
    """Every cut the log tells of: events, and rows marked as truncated that no event explains."""
    columns = (*REQUEST, "line", "kind", "value")
    events = m.events.filter(pl.col("kind").is_in([kind.event for kind in _KINDS]))
    marked = m.generations.filter("truncated").with_row_index("row")
    rows = (
        marked.join(placed(events, marked), on="row", how="anti")
        .with_columns(kind=pl.lit("truncated"), value=pl.lit(None, pl.Float64))
        .select(columns)
    )
    return pl.concat([events.select(columns), rows])


def _sentence(kind: _Kind, rows: pl.DataFrame) -> str:
    lost = _lost(rows)
    return kind.happened.format(n=rows.height) + (kind.tokens.format(tokens=lost) if lost else "") + "."


def _evidence(m: Measures, kind: _Kind, rows: pl.DataFrame) -> Evidence:
    if not kind.tokens:
        return m.evidence(kind.label, rows.height, "requests", rows=rows)
    return m.evidence(kind.label, _lost(rows), "tokens", rows=rows)


def _lost(cuts: pl.DataFrame) -> float | None:
    """Tokens lost by these cuts, where they tell."""
    return float(cuts["value"].sum()) if cuts["value"].count() else None


def _fixes(m: Measures, cuts: pl.DataFrame) -> tuple[tuple[Fix, ...], tuple[str, ...]]:
    """A larger context if the model can use it, with the size that the longest request needed."""
    trim = m.fix("trim-history")
    needed, trained = _needed(m, cuts), m.setup.context_trained
    if needed is None:
        unknown = "<longest prompt + answer>"
        return (m.fix("raise-context", context=unknown, total=unknown), trim), ()
    if trained is not None and needed > trained:
        return (trim,), (
            f"A larger context: the model was trained for {trained:,} tokens, not {needed:,.0f}.",
        )
    larger = larger_context(m, ceil(needed * HEADROOM / ROUND_TOKENS) * ROUND_TOKENS)
    return ((larger, trim), ()) if larger else ((trim,), trained_for(m))


def _needed(m: Measures, cuts: pl.DataFrame) -> float | None:
    """Tokens of the longest request as it was meant: what it had, and what a cut took from its prompt."""
    taken = pl.when(pl.col("kind").is_in(["prompt_truncated", "context_exceeded"])).then("value").fill_null(0)
    had = PROMPT + pl.col("output_tokens").fill_null(0)
    rows = m.generations.select(*REQUEST, had=had).drop_nulls()
    longest = cuts.join(rows, on=REQUEST, how="left").select(
        (pl.coalesce("had", pl.lit(m.setup.context, pl.Int64)) + taken).max()
    )
    value = longest.item()
    return None if value is None else float(value)
