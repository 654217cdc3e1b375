"""Rotated logs: a file without a header goes on with the process of the file read before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from parsers import FORMATS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parsers.setup import Setup


_ENDS = (pl.Expr.min, pl.Expr.max)


def continued(requests: pl.DataFrame, setups: Sequence[Setup]) -> dict[int, int]:
    """Process starts that only go on with another, and which.

    The first start of a source whose log states nothing about it, after a source of the same engine, or of
    one that logs around it, whose request numbers or own clock go on where that one's ended.

    Args:
        requests: rows of all sources, in the order in which they were read.
        setups: indexed by the rows' ``run``.
    """
    around = {fmt.engine: fmt.inside for fmt in FORMATS if fmt.host}
    joined: dict[int, int] = {}
    for run in range(1, len(setups)):
        before, setup = setups[run - 1], setups[run]
        known = setup.engine == before.engine or setup.engine in around.get(before.engine or "", ())
        if setup.source == before.source or setup.origin or not known:
            continue
        if _goes_on(requests.filter(pl.col("run") == run - 1), requests.filter(pl.col("run") == run)):
            joined[run] = joined.get(run - 1, run - 1)
    return joined


def _goes_on(before: pl.DataFrame, after: pl.DataFrame) -> bool:
    """Numbers or clock go on rising; a new process would begin them anew.

    Requests that ran side by side at the cut may stand in either file, so only both ends are compared.
    """
    counters = (pl.col("request_id").cast(pl.Int64, strict=False), pl.col("clock_end_ms"))
    rises = [
        all(after.select(end(counter)).item() > before.select(end(counter)).item() for end in _ENDS)
        for counter in counters
        if after.select(counter.count()).item() and before.select(counter.count()).item()
    ]
    return bool(rises) and all(rises)


def as_one(frame: pl.DataFrame, joined: dict[int, int], setups: Sequence[Setup]) -> pl.DataFrame:
    """The rows with the starts that go on with another under that one's number, engine and model.

    Args:
        frame: rows with a ``run``.
        joined: from `continued`.
        setups: indexed by ``run``.
    """
    if not joined:
        return frame
    frame = frame.with_columns(engine=pl.coalesce(_of(joined, setups, "engine"), "engine"))
    if "model" in frame.columns:
        frame = frame.with_columns(model=pl.coalesce("model", _of(joined, setups, "model")))
    return frame.with_columns(run=pl.col("run").replace(joined))


def _of(joined: dict[int, int], setups: Sequence[Setup], fact: str) -> pl.Expr:
    """A fact of the start that a row's start goes on with; null for the others."""
    facts = {run: getattr(setups[first], fact) for run, first in joined.items()}
    return pl.col("run").replace_strict(facts, default=None, return_dtype=pl.String)
