"""Waiting for a slot is not logged.

What it looks at:
    Requests whose clock starts when a slot takes them, in a log where several ran at once, or where a slot
    stayed busy after its client had gone.

Why it matters:
    A request that arrives while all slots are busy waits unseen. Its client's time to first token can be
    seconds above the one shown.

When not to worry:
    One client that sends one request at a time never waits.

What to change:
    Compare with the client's own clock. For llama-server, `--metrics` shows how many requests wait at a
    moment (`llamacpp:requests_deferred`).

Sources:
    llama.cpp tools/server/README.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.rule import Caveat

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "queue-invisible"

HELD_MS = 1_000.0


def check(m: Measures) -> Caveat | None:
    """Say from where the time to first token counts, where waiting is likely."""
    unseen = m.generations.filter((pl.col("ttft_from") == "slot") & pl.col("queue_ms").is_null()).height
    held = m.events.filter((pl.col("kind") == "aborted") & (pl.col("value") >= HELD_MS)).height
    if not unseen or (m.serial and not held):
        return None
    why = _why(m, held)
    ask = " `--metrics` shows waiting requests (requests_deferred)." if m.engine == "llama-server" else ""
    return Caveat(
        ID,
        "Time to first token counts from the moment a slot took the request: waiting before that is not "
        f"logged, and {why}.{ask}",
    )


def _why(m: Measures, held: int) -> str:
    if m.serial:
        slots = "a slot stayed busy" if held == 1 else f"{held} times a slot stayed busy"
        return f"{slots} after its client had gone"
    if m.overlap.most is not None:
        of = f" on {m.setup.slots} slots" if m.setup.slots else ""
        return f"up to {m.overlap.most} requests ran at once{of}"
    return "several slots were in use"
