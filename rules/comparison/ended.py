"""How requests ended: those that were given up take little time, and are no faster for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from rules.measures import Measures

_ABORTED = ("abort", "aborted", "cancel", "canceled", "cancelled", "disconnect")
_FAILED = ("error", "failed", "failure")
_REASON = pl.col("finish_reason").str.to_lowercase()

ENDS = ("requests given up", "requests failed", "answers stopped at a limit", "prompts or contexts cut")

UNFINISHED = _REASON.is_in((*_ABORTED, *_FAILED)).fill_null(value=False)
"""Requests whose times say nothing of a whole one."""


def ends(m: Measures, *, filtered: bool) -> dict[str, float]:
    """How many requests were given up, failed or were cut, by what to call it.

    Args:
        m: one side.
        filtered: rows are left out, so that what the whole log counted without a row is not of these.
    """
    aborted, failed = (0, 0) if filtered else (m.counts.aborted_requests, m.counts.failed_requests)
    rows = m.generations
    told = rows.select(
        aborted=_REASON.is_in(_ABORTED).sum(),
        failed=_REASON.is_in(_FAILED).sum(),
        stopped=(_REASON == "length").sum(),
        cut=pl.col("truncated").sum(),
    ).row(0, named=True)
    counts = (
        max(told["aborted"], aborted),
        max(told["failed"], failed),
        told["stopped"],
        told["cut"],
    )
    return {name: float(n) for name, n in zip(ENDS, counts, strict=True)}
