"""A larger context: what every rule advises that would give a request more of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.remedies import Fix


def larger_context(m: Measures, tokens: int) -> Fix | None:
    """A context of so many tokens for each request, or of all that the model was trained for.

    ``None`` where that is no more than there is.
    """
    now, trained = m.setup.context, m.setup.context_trained
    context = tokens if trained is None else min(tokens, trained)
    if now is not None and context <= now:
        return None
    slots = 1 if m.setup.kv_unified else m.setup.slots or 1
    return m.fix("raise-context", context=context, total=context * slots)


def trained_for(m: Measures) -> tuple[str, ...]:
    """That a larger context is no way out, where requests have all that the model was trained for."""
    now, trained = m.setup.context, m.setup.context_trained
    if now is None or trained is None or now < trained:
        return ()
    return (f"A larger context: the model was trained for {trained:,} tokens, and has them.",)


def doubled_context(m: Measures) -> tuple[Fix, ...]:
    """Twice the context, where the model is known to be trained for it."""
    now, trained = m.setup.context, m.setup.context_trained
    if now is None or trained is None or trained < 2 * now:
        return ()
    larger = larger_context(m, 2 * now)
    return (larger,) if larger else ()
