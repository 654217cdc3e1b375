"""Rotated logs: a file without a header goes on with the process of the file read before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from parsers import FORMATS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from parsers.setup import Setup


_COUNTERS = {"id": pl.col("request_id").cast(pl.Int64, strict=False), "clock": pl.col("clock_end_ms")}


def ends(requests: pl.DataFrame) -> pl.DataFrame:
    """For each ``run``, the lowest and the highest number of its requests, and of its own clock.

    Requests that ran side by side where a log was cut may stand in either file, so only ends are compared.
    """
    low = [counter.min().alias(f"{name}_low") for name, counter in _COUNTERS.items()]
    high = [counter.max().alias(f"{name}_high") for name, counter in _COUNTERS.items()]
    return requests.group_by("run").agg(*low, *high)


def all_ends(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The ends of rows whose parts have these ones."""
    return pl.concat(parts).group_by("run").agg(pl.col("^.*_low$").min(), pl.col("^.*_high$").max())


def continued(requests: pl.DataFrame, setups: Sequence[Setup]) -> dict[int, int]:
    """Process starts that only go on with another, and which.

    Args:
        requests: rows of all sources, in the order in which they were read.
        setups: indexed by the rows' ``run``.
    """
    return continuing(ends(requests), setups)


def continuing(found: pl.DataFrame, setups: Sequence[Setup]) -> dict[int, int]:
    """The same from the requests' `ends`.

    The first start of a source whose log states nothing about it, after a source of the same engine, or of
    one that logs around it, whose request numbers or own clock go on where that one's ended.
    """
    around = {fmt.engine: fmt.inside for fmt in FORMATS if fmt.host}
    by_run = {row["run"]: row for row in found.iter_rows(named=True)}
    joined: dict[int, int] = {}
    before: Setup | None = None
    for run, setup in enumerate(setups):
        last, before = before, setup
        if last is None or setup.source == last.source or setup.origin:
            continue
        known = setup.engine == last.engine or setup.engine in around.get(last.engine or "", ())
        if known and _goes_on(by_run.get(run - 1, {}), by_run.get(run, {})):
            joined[run] = joined.get(run - 1, run - 1)
    return joined


def _goes_on(before: dict[str, float | None], after: dict[str, float | None]) -> bool:
    """Numbers or clock go on rising; a new process would begin them anew."""
    rises = [
        now > then
        for end in (f"{name}_{end}" for name in _COUNTERS for end in ("low", "high"))
        if (then := before.get(end)) is not None and (now := after.get(end)) is not None
    ]
    return bool(rises) and all(rises)


def as_one(
    frame: pl.DataFrame, joined: dict[int, int], setups: Sequence[Setup] | Mapping[int, Setup]
) -> pl.DataFrame:
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


def _of(joined: dict[int, int], setups: Sequence[Setup] | Mapping[int, Setup], fact: str) -> pl.Expr:
    """A fact of the start that a row's start goes on with; null for the others."""
    facts = {run: getattr(setups[first], fact) for run, first in joined.items()}
    return pl.col("run").replace_strict(facts, default=None, return_dtype=pl.String)
