"""Which request a line of the log is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from advisor.live.view import View
    from advisor.model import Line


def request_at(view: View, line: Line) -> int | None:
    """Which of the requests that are kept a line is of: whose last it is, or whose lines it is among.

    What happened to a request that is named may have happened before its first line.
    """
    is_there = (pl.col("source") == line.source) & (pl.col("line") == line.line)
    is_of = pl.col("first_line").is_between(1, line.line)
    for event in view.events.filter(is_there).head(1).iter_rows(named=True):
        if event["request_id"] is not None:
            is_of = (pl.col("run") == event["run"]) & (pl.col("request_id") == event["request_id"])
        elif event["slot"] is not None:
            is_of &= pl.col("slot") == event["slot"]
    ends_later = (pl.col("source") == line.source) & (pl.col("line") >= line.line)
    rows = view.requests.with_row_index("place").filter(ends_later & (is_of | is_there)).sort("line")
    return int(rows["place"][0]) if rows.height else None
