"""The log has no clock for its requests, or only a coarse one.

What it looks at:
    Requests on several slots without a start on the process's own clock.

Why it matters:
    Whether they overlapped, and how long nothing happened, can't be told. Rates may be those of shared
    work.

When not to worry:
    One slot serves one request after the other, so no clock is needed.

What to change:
    Log with timestamps: `--log-timestamps --log-prefix` for llama-server until b9150, `docker logs -t` for
    a container.

Sources:
    llama.cpp tools/server/README.md; Ollama starts llama-server with --no-log-timestamps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.rule import Caveat

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "clock"


def check(m: Measures) -> Caveat | None:
    """Say what can't be told without a clock."""
    if m.generations.height <= 1 or m.overlap.most is not None or m.serial:
        return None
    if m.generations["finished_at"].null_count() < m.generations.height:
        clock = "Requests only have the time at which they ended"
    else:
        clock = "This log has no clock"
    return Caveat(ID, f"{clock}: which requests overlapped, and how long nothing happened, can't be told.")
