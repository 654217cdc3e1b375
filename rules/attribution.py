"""Where the time went: phase times, shares, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import polars as pl

PHASES = ("queue", "load", "prefill", "decode")
VerdictPhase: TypeAlias = Literal["prefill", "decode", "queue", "load", "mixed", "unknown"]
VERDICT_SHARE, VERDICT_LEAD = 0.40, 0.10
PURE_WINDOWS, PURE_SHARE = 5, 0.70


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
    """Sum the phases; what the total has beyond them is ``other``, the honest remainder."""
    sums = requests.select(
        *(pl.col(f"{p}_ms").sum().alias(p) for p in PHASES),
        *(pl.col(f"{p}_ms").count().alias(f"n_{p}") for p in PHASES),
        total=pl.col("total_ms").sum(),
        known=pl.sum_horizontal(f"{p}_ms" for p in PHASES).filter(pl.col("total_ms").is_not_null()).sum(),
        split=(pl.col("prefill_ms").is_not_null() & pl.col("decode_ms").is_not_null()).sum(),
    ).row(0, named=True)
    wall = float(sums["total"] or 0.0)
    phase_ms: dict[str, float | None] = {p: float(sums[p]) if sums[f"n_{p}"] else None for p in PHASES}
    told = any(value is not None for value in phase_ms.values())
    phase_ms["other"] = max(wall - float(sums["known"] or 0.0), 0.0) if wall and told else None
    shares = {p: (ms / wall if ms is not None and wall else None) for p, ms in phase_ms.items()}
    return Attribution(wall, phase_ms, shares, int(sums["split"]))


def verdict(attributed: Attribution) -> Verdict:
    """The leading phase of requests; ``other`` never leads, it makes the verdict mixed."""
    shares = {p: s for p, s in attributed.phase_share.items() if s is not None}
    if not attributed.split or not shares:
        return Verdict("unknown", None)
    return _leading(shares)


def _leading(shares: dict[str, float]) -> Verdict:
    """The phase that has 40 % and leads by 10 points."""
    (leader, share), *rest = sorted(shares.items(), key=lambda item: -item[1])
    lead = share - (rest[0][1] if rest else 0.0)
    clear = leader in PHASES and share >= VERDICT_SHARE and lead >= VERDICT_LEAD
    return Verdict(cast("VerdictPhase", leader) if clear else "mixed", share)


def busy_windows(intervals: pl.DataFrame) -> pl.DataFrame:
    """Windows in which the engine did something, as far as they tell."""
    return intervals.filter((pl.col("kind") != "iteration") & ~pl.col("phase").is_in(["idle", "unknown"]))


def interval_verdict(intervals: pl.DataFrame) -> Verdict:
    """The verdict of a log that has windows or steps instead of requests.

    Steps (``iteration``) have exact times, so their phases are summed. Windows are averages over ten seconds
    and all requests: they decide only when nearly all busy ones agree, and never give a share.
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
    busy = busy_windows(intervals)
    phases: tuple[VerdictPhase, ...] = ("queue", "prefill", "decode")
    for phase in phases:
        agreeing = busy.filter(pl.col("phase") == phase).height
        if busy.height >= PURE_WINDOWS and agreeing >= PURE_SHARE * busy.height:
            return Verdict(phase, None)
    return Verdict("unknown", None)
