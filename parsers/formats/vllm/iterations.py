"""Engine steps, logged with ``--enable-logging-iteration-details``: the best a vLLM log has.

Without async scheduling the elapsed time is the step's own; with it, as the host saw it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import line
from parsers.formats.vllm.stats import share
from parsers.records import Interval

if TYPE_CHECKING:
    import re

    from parsers.formats.base import At

ITERATION = line(
    "iteration",
    b"iteration elapsed time: ",
    rb"(?:Engine \d+: )?Iteration\(\d+\): (?P<prefills>\d+) context requests, (?P<prefill_tokens>\d+) context"
    rb" tokens, (?P<decodes>\d+) generation requests, (?P<decode_tokens>\d+) generation tokens, iteration"
    rb" elapsed time: (?P<ms>\d+\.\d+) ms(?P<dummy> \(dummy\))?(?:, \w+ KV cache usage: (?P<kv>[\d.]+)%)?",
)


def iteration(m: re.Match[bytes], at: At) -> Interval | None:
    """The row of a step; ``None`` for a dummy step, which only keeps pace with other ranks."""
    if m["dummy"]:
        return None
    prefills, decodes = int(m["prefills"]), int(m["decodes"])
    return Interval(
        line=at.number,
        engine="vllm",
        time=at.time,
        kind="iteration",
        span_ms=float(m["ms"]),
        prefill_tokens=int(m["prefill_tokens"]),
        decode_tokens=int(m["decode_tokens"]),
        running=prefills + decodes,
        kv_usage=share(m["kv"]),
        phase=_PHASES[prefills > 0, decodes > 0],
    )


_PHASES = {
    (True, True): "mixed",
    (True, False): "prefill",
    (False, True): "decode",
    (False, False): "idle",
}
