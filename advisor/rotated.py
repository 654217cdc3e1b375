"""Rotated logs: a file without a header goes on with the process of the file read before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parsers.setup import Setup


def continued(requests: pl.DataFrame, setups: Sequence[Setup]) -> dict[int, int]:
    """Process starts that only go on with another, and which.

    The first start of a source whose log states nothing about it, after a source of the same engine, whose
    request numbers or own clock go on where that one's ended.

    Args:
        requests: rows of all sources, in the order in which they were read.
        setups: indexed by the rows' ``run``.
    """
    joined: dict[int, int] = {}
    for run in range(1, len(setups)):
        before, setup = setups[run - 1], setups[run]
        if setup.source == before.source or setup.origin or setup.engine != before.engine:
            continue
        if _goes_on(requests.filter(pl.col("run") == run - 1), requests.filter(pl.col("run") == run)):
            joined[run] = joined.get(run - 1, run - 1)
    return joined


def _goes_on(before: pl.DataFrame, after: pl.DataFrame) -> bool:
    """Numbers or clock rise from one to the other, and neither falls."""
    number = pl.col("request_id").cast(pl.Int64, strict=False)
    rises = [
        after.select(first.min()).item() > before.select(last.max()).item()
        for first, last in ((number, number), (pl.col("clock_start_ms"), pl.col("clock_end_ms")))
        if after.select(first.count()).item() and before.select(last.count()).item()
    ]
    return bool(rises) and all(rises)


def as_one(frame: pl.DataFrame, joined: dict[int, int], models: dict[int, str]) -> pl.DataFrame:
    """The rows with the starts that go on with another under that one's number, and with its model.

    Args:
        frame: rows with a ``run``.
        joined: from `continued`.
        models: of the starts that others go on with.
    """
    if not joined:
        return frame
    if "model" in frame.columns:
        told = pl.col("run").replace_strict(
            {run: models.get(first) for run, first in joined.items()}, default=None, return_dtype=pl.String
        )
        frame = frame.with_columns(model=pl.coalesce("model", told))
    return frame.with_columns(run=pl.col("run").replace(joined))
