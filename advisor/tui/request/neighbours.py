"""What ran beside a request, as far as a clock tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from rules.words import count, duration, plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rules.measures import Measures

MOST = 8
NO_CLOCK = "This can't be told: the log has no clock that is fine enough."
NOT_YET = "Told once the rules have looked at it."
ONLY_GENERATIONS = "Told only of requests that generate text."


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Requests that ran at the same time.

    Attributes:
        said: sentences about them.
        rows: those that did so longest: log, line, slot, id and tokens of each, with ``overlap_ms``.
        more: how many others there are.
    """

    said: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...] = ()
    more: int = 0


def is_same(row: Mapping[str, Any]) -> pl.Expr:
    """Whether a row of another frame is this request: a line may tell of several."""
    named = (
        pl.col(name).eq_missing(pl.lit(row[name])) for name in ("source", "line", "request_id", "total_ms")
    )
    return pl.all_horizontal(named)


def neighbours(measures: Measures | None, row: Mapping[str, Any]) -> Neighbours:
    """What ran beside a request."""
    if row["kind"] != "generation":
        return Neighbours((ONLY_GENERATIONS,))
    if measures is None:
        return Neighbours((NOT_YET,))
    placed = measures.overlap.requests
    own = placed.filter(is_same(row))
    if not own.height:
        return Neighbours((NOT_YET,))
    mine = own.row(0, named=True)
    if mine["start_ms"] is None or mine["seen_end_ms"] <= mine["start_ms"]:
        return Neighbours((NO_CLOCK,))
    start, end = mine["start_ms"], mine["seen_end_ms"]
    overlap = pl.min_horizontal("seen_end_ms", pl.lit(end)) - pl.max_horizontal("start_ms", pl.lit(start))
    beside = (
        placed.with_columns(overlap_ms=overlap)
        .filter((pl.col("overlap_ms") > 0) & ~is_same(row))
        .sort("overlap_ms", descending=True)
    )
    kept = ("source", "line", "slot", "request_id", "prefill_tokens", "output_tokens", "overlap_ms")
    return Neighbours(
        tuple(_said(mine, beside.height)),
        tuple(beside.select(kept).head(MOST).to_dicts()),
        max(beside.height - MOST, 0),
    )


def _said(mine: Mapping[str, Any], others: int) -> list[str]:
    if not others:
        return [
            {True: "It ran alone.", False: "Only requests that generate no text."}.get(
                mine["alone"], NO_CLOCK
            )
        ]
    said = [f"{plural(others, 'request')} ran beside it at some time."]
    if mine["level"] is not None and mine["level"] >= 1.05:
        said.append(f"While it generated, {mine['level']:.1f} ran on average, itself included.")
    if mine["stalled_ms"]:
        said.append(f"For {duration(mine['stalled_ms'])} of that, another's prompt was being read.")
    return said


def line_of(one: Mapping[str, Any]) -> str:
    """``2.3 s  slot 1  id 59  4,012 in, 210 out  line 193``."""
    parts = [
        f"{duration(one['overlap_ms']):>10}",
        "" if one["slot"] is None else f"slot {one['slot']}",
        "" if one["request_id"] is None else f"id {one['request_id']}",
        f"{count(one['prefill_tokens'])} in, {count(one['output_tokens'])} out",
        f"line {one['line']}",
    ]
    return "  ".join(filter(None, parts))
