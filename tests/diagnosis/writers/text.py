"""Numbers as llama.cpp prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.diagnosis.facts import Asked


def clock(ms: float) -> str:
    """Since the process started: minutes, seconds, ms, us."""
    millis, micros = divmod(round(ms * 1000), 1000)
    seconds, millis = divmod(millis, 1000)
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes}.{seconds:02d}.{millis:03d}.{micros:03d}"


def rate(label: str, ms: float, tokens: int, steps: int | None = None) -> str:
    """A timing; ``steps`` where the rate is over fewer tokens than are printed."""
    divisor = steps if steps is not None else tokens
    each = f"{ms / max(divisor, 1):8.2f} ms per token, {1000 * divisor / ms:8.2f} tokens per second"
    return f"{label} = {ms:10.2f} ms / {tokens:5d} tokens ({each})"


def total(asked: Asked) -> str:
    """The third timing line."""
    return f"      total time = {asked.busy_ms:10.2f} ms / {asked.evaluated + asked.output:5d} tokens"


def acceptance(request: Asked, label: str) -> Iterable[str]:
    """What became of the drafted tokens, if there were any."""
    if request.draft is not None:
        accepted, drafted = request.draft
        length = 1 + accepted / (request.output - accepted)
        counts = f"({accepted:5d} accepted / {drafted:5d} generated), mean len = {length:5.2f}"
        yield f"{label} = {accepted / drafted:0.5f} {counts}"
