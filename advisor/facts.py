"""What other sources than the log say of the setup: they fill what it hides; differences are noted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rules.physics.quant import quant_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parsers.setup import Setup

SAME = 0.02
"""Logs round sizes to two digits after the point."""

NAMES = ("model", "architecture", "engine_version")
"""One thing has many names, so these contradict nothing."""


def complete(setup: Setup, origin: str, facts: Mapping[str, Any]) -> None:
    """Fill what the log did not state; where the engine printed a fact, the printed one stays.

    Args:
        setup: it is changed.
        origin: where the facts are from, such as ``--gguf``.
        facts: by the names of `Setup`; ``None`` states nothing.
    """
    for name, value in facts.items():
        known = getattr(setup, name)
        if value is None:
            continue
        if known is None:
            setup.learn(origin, **{name: value})
        elif name not in NAMES and _differ(known, value):
            setup.disputed[name] = f"{value} by {origin}"


def _differ(known: Any, value: Any) -> bool:
    if isinstance(known, str) and isinstance(value, str):
        return (quant_name(known) or known.lower()) != (quant_name(value) or value.lower())
    if isinstance(known, bool) or isinstance(value, bool):
        return bool(known != value)
    return bool(abs(known - value) > SAME * max(abs(known), abs(value)))
