"""Windows are averages over time and over all requests.

What it looks at:
    Logs that have stats lines or batch lines instead of requests.

Why it matters:
    vLLM's stats line divides the tokens of ten seconds by ten seconds, idle time included, and credits a
    prompt only when it is done. No request's time to first token and no speed follows from it.

When not to worry:
    Queue lengths and KV usage are momentary and right. Step lines (`Iteration(...)`) have exact times.

What to change:
    `log-hides-timings` names the switch.

Sources:
    vLLM vllm/v1/metrics/loggers.py; the printed rates of SGLang also include idle time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from rules.rule import Caveat

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "interval-lines"


def check(m: Measures) -> Caveat | None:
    """Say what the windows can't give."""
    averaged = m.intervals.filter(pl.col("kind") == "window")
    if not averaged.height or m.attribution.split:
        return None
    span_ms = averaged["span_ms"].median()
    over = f"over {span_ms / 1000:.0f} s and " if isinstance(span_ms, int | float) else "over time and "
    return Caveat(
        ID,
        f"The {averaged.height} stats lines are averages {over}over all requests, idle time included: no "
        "request's time to first token and no engine speed follows from them.",
    )
