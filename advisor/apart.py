"""Models that are shown under one name and are not one: `/q8/model.gguf` and `/q4/model.gguf`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from parsers import Tables
from parsers.records import TABLES
from parsers.setup import Setups

if TYPE_CHECKING:
    from advisor.reading import Reading
    from advisor.redact import Plain


def named_apart(before: Reading, after: Reading, words: Plain) -> Reading:
    """Before, with models renamed that are others than those after and would be shown under the same name.

    Args:
        before: what was read of one side.
        after: what was read of the other.
        words: says the names as they may be shown.
    """
    models = [_models(reading) for reading in (before, after)]
    if not all(models) or models[0] & models[1]:
        return before
    taken = {words.model(name) for name in models[1]}
    renamed = {name: f"another {shown}" for name in models[0] if (shown := words.model(name)) in taken}
    if not renamed:
        return before
    tables = Tables()
    for table in TABLES:
        rows = getattr(before.tables, table)
        if "model" in rows.columns:
            rows = rows.with_columns(pl.col("model").replace(renamed))
        tables.add(table, rows)
    names = [renamed.get(s.model or "", s.model) for s in before.setups]
    setups = [s.model_copy(update={"model": name}) for s, name in zip(before.setups, names, strict=True)]
    return replace(before, tables=tables, setups=Setups(setups))


def _models(reading: Reading) -> set[str]:
    frames = (reading.tables.requests, reading.tables.aggregates)
    told = {str(name) for frame in frames for name in frame["model"].drop_nulls().unique()}
    return told | {setup.model for setup in reading.setups if setup.model}
