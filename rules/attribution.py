"""Where the time went: phase times, shares, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import polars as pl

PHASES = ("queue", "load", "prefill", "decode")
_RAN = (pl.col("running").fill_null(0) > 0) | (pl.col("waiting").fill_null(0) > 0)
VerdictPhase: TypeAlias = Literal["prefill", "decode", "queue", "load", "mixed", "unknown"]
VERDICT_SHARE, VERDICT_LEAD = 0.40, 0.10
PURE_WINDOWS, PURE_SHARE = 5, 0.70
_DIGITS = 9
"""50 % against 40 % is a lead of 10 points, also in floating point."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """Phase times of a set of requests.

    Attributes:
        wall_ms: sum of the requests' totals; idle time is not in it.
        phase_ms: time in each phase and in ``other``; ``None`` where no request tells.
        phase_share: the same as shares of ``wall_ms``, 0-1.
        split: requests that tell prefill and decode apart.
    """

    wall_ms: float
    phase_ms: dict[str, float | None]
    phase_share: dict[str, float | None]
    split: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where most of the time went; ``mixed`` without a leader, ``unknown`` if the log can't tell."""

    phase: VerdictPhase
    share: float | None


def attribute(requests: pl.DataFrame) -> Attribution:
    """Sum the phases of the requests whose total is known; what a total has beyond them is ``other``."""
    timed = requests.select("total_ms", *(f"{p}_ms" for p in PHASES)).drop_nulls("total_ms")
    wall = float(timed["total_ms"].sum())
    known = {p: timed[f"{p}_ms"].drop_nulls() for p in PHASES}
    phase_ms: dict[str, float | None] = {p: float(ms.sum()) if ms.len() else None for p, ms in known.items()}
    return _attribution(wall, phase_ms, timed.drop_nulls(["prefill_ms", "decode_ms"]).height)


def merged(one: Attribution, more: Attribution) -> Attribution:
    """The attribution of two sets of requests together, the same as if they had been one."""
    phase_ms = {p: _sum(one.phase_ms[p], more.phase_ms[p]) for p in PHASES}
    return _attribution(one.wall_ms + more.wall_ms, phase_ms, one.split + more.split)


def _sum(one: float | None, more: float | None) -> float | None:
    return one if more is None else more if one is None else one + more


def _attribution(wall_ms: float, phase_ms: dict[str, float | None], split: int) -> Attribution:
    told = [ms for ms in phase_ms.values() if ms is not None]
    phase_ms["other"] = max(wall_ms - sum(told), 0.0) if wall_ms and told else None
    shares = {p: (ms / wall_ms if ms is not None and wall_ms else None) for p, ms in phase_ms.items()}
    return Attribution(wall_ms, phase_ms, shares, split)


NOTHING = _attribution(0.0, dict.fromkeys(PHASES), 0)
"""The attribution of no request."""


def verdict(attributed: Attribution) -> Verdict:
    """The leading phase of requests, or of sums over them; ``other`` never leads, it makes the verdict mixed.

    A phase that leads it leads each of its parts. Where it leads and no request tells prefill and decode
    apart, there is no verdict.
    """
    shares = {p: s for p, s in attributed.phase_share.items() if s is not None}
    leading = _leading(shares) if shares else Verdict("unknown", None)
    return leading if attributed.split or leading.phase != "mixed" else Verdict("unknown", None)


def _leading(shares: dict[str, float]) -> Verdict:
    """The phase that has 40 % and leads by 10 points."""
    (leader, share), *rest = sorted(shares.items(), key=lambda item: -item[1])
    lead = round(share - (rest[0][1] if rest else 0.0), _DIGITS)
    clear = leader in PHASES and round(share, _DIGITS) >= VERDICT_SHARE and lead >= VERDICT_LEAD
    return Verdict(cast("VerdictPhase", leader) if clear else "mixed", share)


SAMPLES = {
    "window": "windows",
    "iteration": "steps",
    "decode_batch": "decode batches",
    "prefill_batch": "prefill batches",
}
"""Kinds of intervals and what to call them, those that sample the engine's time most evenly first."""


def busy_windows(intervals: pl.DataFrame) -> pl.DataFrame:
    """Windows in which the engine did something, also where it can't be told what.

    Batch lines are none: an engine may print every prefill batch and only some of the decode batches.
    """
    told = ~pl.col("phase").is_in(["idle", "unknown"])
    return intervals.filter((pl.col("kind") == "window") & (told | ((pl.col("phase") == "unknown") & _RAN)))


def busy_samples(intervals: pl.DataFrame) -> pl.DataFrame:
    """Intervals in which requests ran or waited, of the one kind that samples the time most evenly."""
    for kind in SAMPLES:
        rows = intervals.filter(pl.col("kind") == kind)
        if rows.height:
            return busy_windows(rows) if kind == "window" else rows.filter(_RAN)
    return intervals.clear()


_QUEUED = pl.when(pl.col("waiting") >= pl.max_horizontal("running", 1)).then(pl.lit("queue"))
"""As in windows: at least as many wait as run."""


def interval_verdict(intervals: pl.DataFrame) -> Verdict:
    """The verdict of a log that has windows or steps instead of requests.

    Steps (``iteration``) have exact times, so their phases are summed. Windows are averages over ten seconds
    and all requests: they decide only when nearly all busy ones agree, and never give a share. Batches tell
    only of queues: their time is not known.
    """
    steps = intervals.filter(pl.col("kind") == "iteration")
    if steps.height:
        total = float(steps["span_ms"].sum())
        by_phase = {
            str(phase): float(ms) / total
            for phase, ms in steps.group_by("phase").agg(pl.col("span_ms").sum()).iter_rows()
            if total
        }
        return _leading(by_phase) if by_phase else Verdict("unknown", None)
    busy = busy_samples(intervals)
    if busy.height and busy["kind"][0] != "window":
        busy = busy.drop_nulls("waiting").with_columns(phase=_QUEUED)
    phases: tuple[VerdictPhase, ...] = ("queue", "prefill", "decode")
    for phase in phases:
        agreeing = busy.filter(pl.col("phase") == phase).height
        if busy.height >= PURE_WINDOWS and agreeing >= PURE_SHARE * busy.height:
            return Verdict(phase, None)
    return Verdict("unknown", None)
