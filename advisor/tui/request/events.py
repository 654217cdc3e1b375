"""What happened to a request: the events that name it, or its slot in its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping


def happened(events: pl.DataFrame, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The events of a request, in their order."""
    found = events.filter(
        (pl.col("source") == row["source"]) & (pl.col("run") == row["run"]) & _is_about(row)
    )
    return found.to_dicts()


def _is_about(row: Mapping[str, Any]) -> pl.Expr:
    """Whether an event names the request, or a slot while the request had it."""
    about = [pl.lit(value=False)]
    if row["request_id"] is not None:
        about.append(pl.col("request_id") == row["request_id"])
    if row["slot"] is not None:
        in_time = pl.col("line").is_between(row["first_line"], row["line"])
        about.append(in_time & (pl.col("slot") == row["slot"]) & pl.col("request_id").is_null())
    return pl.any_horizontal(one.fill_null(value=False) for one in about)


def event_words(event: Mapping[str, Any]) -> str:
    """``cache miss: sim 0.002, f_keep 0.171 (line 211)``."""
    kind = str(event["kind"]).replace("_", " ")
    said = f"{kind}: {event['detail']}" if event["detail"] else kind
    return f"{said} (line {event['line']:,})"
