"""Loads of a model, each beside the last time that model was used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.frames import beside, numbered

if TYPE_CHECKING:
    from parsers.setup import Setup
    from rules.measures import Measures
    from rules.savings import Array

LOAD_MS = 1_000.0
"""Below this no weights were read: a check whether the model is loaded takes a few ms."""

IDLE_MS = 4.5 * 60_000
"""Ollama unloads after five minutes without a request, counted from the last token; LM Studio after sixty."""

_NEEDED = ("source", "line", "model", "run", "started_at", "finished_at", "load_ms")

OPTIONS = ("context_total", "context", "slots", "batch", "layers_offloaded")
"""What an engine loads a model anew for when it differs."""


def loads(requests: pl.DataFrame) -> pl.DataFrame:
    """Requests of any kind, in their own order, beside the last request to the same model before them.

    Added columns: ``row`` (its place here); ``loaded`` (it waited for a load); ``again`` (the model had been
    used before); ``gap_ms`` since that use ended, null without a clock; ``own_run``, the process that served
    it; ``between`` says that other models were used since.
    """
    rows = requests.with_row_index("row")
    ordered = rows.select("row", *_NEEDED).sort("source", "line", maintain_order=True)
    own = "source_and_model"
    ended = pl.col("finished_at").shift(1).over(own)
    told = (
        ordered.with_columns(numbered(ordered, ("source", "model")).alias(own), place=pl.int_range(pl.len()))
        .with_columns(
            loaded=(pl.col("load_ms") >= LOAD_MS).fill_null(value=False),
            again=~pl.col(own).is_first_distinct(),
            gap_ms=(pl.col("started_at") - ended).dt.total_microseconds() / 1000,
            own_run=pl.col("run").shift(1).over(own),
            between=(pl.col("place") - pl.col("place").shift(1).over(own) > 1).fill_null(value=False),
        )
        .sort("row")
    )
    return beside(rows, told.select("loaded", "again", "gap_ms", "own_run", "between"))


def same_options(m: Measures, run: int | None, other: int | None) -> bool | None:
    """Whether two processes were started alike; ``None`` where the log does not say."""
    one, two = _setup(m, run), _setup(m, other)
    if one is None or two is None:
        return None
    pairs = [(getattr(one, fact), getattr(two, fact)) for fact in OPTIONS]
    told = [a == b for a, b in pairs if a is not None and b is not None]
    return all(told) if told else None


def _setup(m: Measures, run: int | None) -> Setup | None:
    return m.setups[run] if run is not None and 0 <= run < len(m.setups) else None


def generations_in(rows: pl.DataFrame, part: pl.DataFrame, value: pl.Expr | None = None) -> Array:
    """An array over the generations among ``rows`` (see `loads`): ``value``, or 1, for those in ``part``."""
    marked = part.select("row", value=pl.lit(1.0) if value is None else value)
    kept = rows.filter(pl.col("kind") == "generation").select("row").join(marked, on="row", how="left")
    return np.asarray(kept.sort("row")["value"].cast(pl.Float64).fill_null(0).to_numpy())
