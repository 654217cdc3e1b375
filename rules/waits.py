"""What requests wait for, and the rows that show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.kv_pool import larger_pool
from rules.memory import kv_oom_risk
from rules.queue import concurrency_over_saturated, kv_pool_full_preempt, prefill_stalls_decode
from rules.remedies import fix
from rules.samples import median
from rules.stalls import largest, of_intervals

if TYPE_CHECKING:
    from rules.measures import Measures
    from rules.remedies import Fix

SHARED_POOL = ("vllm", "sglang", "lmdeploy", "tensorrt-llm", "tgi")
"""Engines that run as many requests as KV pool, step and cap allow; others have slots."""

DEFAULT_CAPS = {"vllm": (128, 256, 1_024)}
"""Requests at once that an engine allows where it is not told, by version and device: as many running each
time is no chance."""

REACHED = 0.75
"""Of a cap: a line is printed at a moment, and the place of a request that just ended may still be free."""

KV_FULL, FILLED = 0.9, 0.95
"""Share of the KV cache in use from which it is full, and up to which more requests may fill it."""

WORTH_MORE = 1.1
"""Times as many requests at once: less is not worth a restart."""

LARGEST_STEP = 16_384
"""Tokens of a step beyond which little is won: vLLM's largest default."""

_STEP_TEST = (
    "Under the same load with the first of these, see whether fewer wait. If not, look up the limit of "
    "requests at once that the engine was started with; if fewer run, prompts come faster than this machine "
    "reads them."
)
_LIMIT_TEST = (
    "Look up the limit of requests at once that the engine was started with: if fewer run, prompts come "
    "faster than this machine reads them."
)

BATCH_LINES, BATCH_START, BATCH_LEFT = 8, 0.2, 0.5
"""A batch job's backlog, in eight lines or more, is largest in their first fifth and halved at the end."""


@dataclass(frozen=True, slots=True)
class Holdup:
    """What keeps requests waiting.

    Attributes:
        fixes: what to change, best first.
        why: a sentence, where the log shows a cause.
        sure: the log shows it; if not, it is one of several and ``verify`` decides.
        wont_help: what people would try in vain.
        verify: the test that decides.
    """

    fixes: tuple[Fix, ...]
    why: str = ""
    sure: bool = True
    wont_help: tuple[str, ...] = ()
    verify: str | None = None


def holdup(m: Measures, waiting: pl.DataFrame) -> Holdup:
    """What requests wait for: room in the KV cache, a cap, or the tokens of a step.

    Args:
        m: the log's measures.
        waiting: the intervals in which requests waited; empty where only requests tell.
    """
    kv_usage = median(waiting.select("kv_usage"))
    if (kv_usage is not None and kv_usage >= KV_FULL) or m.finds(kv_pool_full_preempt):
        return _kv_full(m)
    running = largest(waiting["running"]) or m.overlap.most
    cap = _cap(m, running)
    if m.engine not in SHARED_POOL and cap is None:
        return Holdup((more_slots(m, running),))
    if m.engine in SHARED_POOL and running is None:
        why = "What was full meanwhile, these numbers don't say."
        return Holdup((more_slots(m, None),), why=why, sure=False, verify=_LIMIT_TEST)
    if cap is None or (m.engine in SHARED_POOL and (running or 0) < REACHED * cap):
        return _step_or_cap(m)
    more = 2 * cap if not (kv_usage and running) else min(2 * cap, int(FILLED * running / kv_usage))
    if more < WORTH_MORE * cap:
        return _kv_full(m)
    if m.setup.max_running is not None or m.setup.slots is not None:
        return Holdup((more_slots(m, cap, more),))
    return Holdup(
        (more_slots(m, cap, more),),
        why=f"{cap} is a number that this engine takes where no limit is given.",
        sure=False,
        verify=f"Start it with room for {more} at once: if as many then run, the limit held the others up.",
    )


def _cap(m: Measures, running: int | None) -> int | None:
    stated = m.setup.max_running or m.setup.slots
    return stated or next((cap for cap in DEFAULT_CAPS.get(m.engine or "", ()) if cap == running), None)


def more_slots(m: Measures, cap: int | None, more: int | None = None) -> Fix:
    """More at once; in words where their number is not known.

    Another machine where more give no more, or where the memory that each takes is not there.
    """
    if m.decoding.split or m.finds(kv_oom_risk) or m.finds(concurrency_over_saturated):
        return m.fix("more-replicas")
    return m.fix("more-slots", slots=more or 2 * cap) if cap else fix("more-slots", None, slots="more")


def _kv_full(m: Measures) -> Holdup:
    larger = larger_pool(m)
    vain = ["More requests at once: the KV cache is full, so they would push each other out."]
    if not larger:
        vain.append("A larger share of the memory or an 8-bit KV cache: both are in use.")
    return Holdup(larger or (m.fix("more-replicas"),), wont_help=tuple(vain))


def _step_or_cap(m: Measures) -> Holdup:
    """No cap that the log names is reached, and the KV cache has room or is not told."""
    step = m.setup.chunk_tokens
    tokens = min(2 * (step or LARGEST_STEP), LARGEST_STEP)
    admit = tokens != step and not m.finds(prefill_stalls_decode)
    limits = "a limit that the log does not name"
    if step is not None:
        limits = f"the {step:,} tokens of a step, or {limits}"
    return Holdup(
        (*((m.fix("admit-more", tokens=tokens),) if admit else ()), m.fix("more-replicas")),
        why=f"No limit of requests at once is known to be reached; what holds them up may be {limits}.",
        sure=False,
        verify=_STEP_TEST if admit else _LIMIT_TEST,
    )


def drains(rows: pl.DataFrame) -> bool:
    """Whether the backlog of these intervals only shrinks, as a batch job's that hands in all at once."""
    if rows.select("source", "run").n_unique() != 1:
        return False
    waiting = rows.sort("line")["waiting"]
    waiting = waiting[(waiting > 0).arg_max() or 0 :]
    peak = waiting.arg_max() or 0
    after = waiting[peak:]
    return (
        waiting.len() >= BATCH_LINES
        and peak <= BATCH_START * waiting.len()
        and not (after.diff() > 0).any()
        and int(after[-1]) <= BATCH_LEFT * int(after[0])
    )


def while_stalled(m: Measures, waiting: pl.DataFrame) -> bool:
    """Whether requests mostly wait where answers stand still, which is `prefill-stalls-decode`'s matter."""
    if not m.finds(prefill_stalls_decode):
        return False
    stall = of_intervals(m, m.thresholds(prefill_stalls_decode.RULE)["times_slower"])
    if isinstance(stall, str):
        return False
    still = waiting.join(stall.rows.select("source", "line"), on=["source", "line"], how="semi")
    return still.height >= waiting.height / 2


def busy_until(requests: pl.DataFrame) -> pl.DataFrame:
    """How long after each request's arrival one that had arrived before was still running, in ms."""
    still = pl.col("finished_at").cum_max().shift(1).over("source") - pl.col("started_at")
    return (
        requests.drop_nulls(["started_at", "finished_at"])
        .sort("source", "started_at", "finished_at")
        .select("source", "line", busy_ms=(still.dt.total_microseconds() / 1000).fill_null(0))
    )


def started_at_once(timed: pl.DataFrame, slots: int, at_once_ms: float) -> pl.DataFrame:
    """Requests that began as another ended, on a server whose slots were all busy until then."""
    rows = timed.select("source", "run", "clock_start_ms", "clock_end_ms").with_row_index("at")
    processes = rows.partition_by("source", "run", include_key=False)
    if not rows.height:
        return timed
    at = pl.concat([_as_one_ended(process, slots, at_once_ms) for process in processes]).sort()
    return timed[at].with_columns(at=at)


def _as_one_ended(process: pl.DataFrame, slots: int, at_once_ms: float) -> pl.Series:
    """The places ``at`` of such requests of one process; an end comes before a start of the same moment."""
    begun = process.sort("clock_start_ms", maintain_order=True)
    starts, ends = begun["clock_start_ms"].to_numpy(), process["clock_end_ms"].sort().to_numpy()
    over = np.searchsorted(ends, starts, side="right")
    running = np.arange(1, starts.size + 1) - over
    since_ms = starts - ends[over - 1]
    return begun["at"].filter(pl.Series((running == slots) & (over > 0) & (since_ms <= at_once_ms)))
