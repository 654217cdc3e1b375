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

import re
from typing import TYPE_CHECKING

import polars as pl

from rules.rule import Caveat

if TYPE_CHECKING:
    from rules.measures import Measures

ID = "interval-lines"

_ALL_TOKENS, _COMPUTED_ONLY = (0, 14), (0, 17)
"""The last vLLM known to count cached prompt tokens, and the first known not to."""


def check(m: Measures) -> Caveat | None:
    """Say what the windows can't give."""
    averaged = m.intervals.filter(
        (pl.col("kind") == "window")
        & pl.any_horizontal(pl.col("prefill_tok_s", "decode_tok_s", "span_ms").is_not_null())
    )
    if not averaged.height or m.attribution.split:
        return None
    span_ms = averaged["span_ms"].median()
    over = (
        f"over {round(span_ms / 1000, 1):g} s and " if isinstance(span_ms, int | float) else "over time and "
    )
    told = "answer" if m.intervals["source"].str.starts_with("http").all() else "stats line"
    one = averaged.height == 1
    what = f"The only {told} is an average" if one else f"The {averaged.height:,} {told}s are averages"
    return Caveat(
        ID,
        f"{what} {over}over all requests, idle time included: no "
        f"request's time to first token and no engine speed follows from them.{_prompt_tokens(m)}",
    )


def _prompt_tokens(m: Measures) -> str:
    """Which prompt tokens vLLM counts, where its version tells."""
    version = re.match(r"(\d+)\.(\d+)", m.setup.engine_version or "")
    if m.engine != "vllm" or version is None:
        return ""
    known = int(version[1]), int(version[2])
    if known >= _COMPUTED_ONLY:
        return " Its prompt throughput leaves out tokens from the prefix cache."
    return " Its prompt throughput counts tokens from the prefix cache too." if known <= _ALL_TOKENS else ""
