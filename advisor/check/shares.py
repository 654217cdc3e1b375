"""Shares: of all time in a phase, of prompt tokens in a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from advisor.check.log import THE, Measured, line_of, not_told
from rules.attribution import PHASES
from rules.words import percent, plural

if TYPE_CHECKING:
    from advisor.check.log import Log

_KNOWN = [f"{phase}_ms" for phase in PHASES]


def phase_share(log: Log, phase: str) -> Measured:
    """Share of all requests' time; where some don't tell, it lies between that and all of theirs."""
    m = log.measures
    if not m.generations.height and m.sums.rows.height:
        share = m.sums.attribution.phase_share[phase]
        reason = None if share is not None else f"These sums don't tell the time in {phase}."
        return Measured(share, m.sums.timed_requests, reason=reason)
    share = m.attribution.phase_share[phase]
    if share is None:
        return Measured(None, reason=not_told(log, THE.get(phase, f"the time in {phase}")))
    ms, timed = pl.col(f"{phase}_ms"), m.generations.drop_nulls("total_ms")
    if phase in ("load", "other"):  # a load is logged where there was one
        return Measured(share, timed.height, m.generations.height)
    told, untold = timed.filter(ms.is_not_null()), timed.filter(ms.is_null())
    unknown = untold.select(
        (pl.col("total_ms") - pl.sum_horizontal(_KNOWN)).clip(lower_bound=0.0).sum()
    ).item()
    most = share + unknown / m.wall_ms
    worst = line_of(told.sort(ms, descending=True, maintain_order=True))
    reason = f"{_untold(untold.height, timed.height, phase)} it is {percent(share)} to {percent(most)}."
    return Measured(share, told.height, m.generations.height, worst, reason=reason, most=most)


def _untold(untold: int, of: int, phase: str) -> str:
    verb = "does" if untold == 1 else "do"
    return f"{untold:,} of {plural(of, 'request')} {verb} not tell the time in {phase}:"


def cached_share(log: Log) -> Measured:
    """Share of prompt tokens that a cache had, over requests that tell both."""
    m = log.measures
    if not m.generations.height and m.sums.rows.height:
        share = m.sums.per("cached_tokens", "prompt_tokens")
        return Measured(share, reason=None if share is not None else "These sums don't tell cached tokens.")
    if m.cached_share is None:
        return Measured(
            None, reason=log.caveat("unknown-is-not-zero") or not_told(log, "how much was cached")
        )
    known = m.generations.drop_nulls(["cached_tokens", "prompt_tokens"])
    evaluated = known.sort(
        pl.col("prompt_tokens") - pl.col("cached_tokens"), descending=True, maintain_order=True
    )
    return Measured(m.cached_share, known.height, m.generations.height, line_of(evaluated))
