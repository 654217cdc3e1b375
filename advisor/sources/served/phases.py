"""What a window was spent on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.sources.served.llama_server import Slots
    from parsers.records import Interval


def phase_of(row: Interval, slots: Slots | None) -> str:
    """As `parsers.formats.vllm.stats.phase` decides it, by whole tokens, and by the slots if those are open.

    A window is short. Where no token came, or not one for each request, they may read long prompts, or be
    slow to write: only a slot tells.
    """
    running, made = row.running, row.decode_tokens
    if running is not None and row.waiting and row.waiting >= running:
        return "queue"
    if running is None or made is None or row.prefill_tok_s is None:
        return slots.phase if slots is not None else row.phase
    if row.prefill_tok_s > 0:
        return "prefill" if made <= running else "mixed"
    if slots is not None:
        return ("mixed" if slots.prefilling else "decode") if made else slots.phase
    if made < running:
        return "unknown"
    return "decode" if made else "idle"
