"""Inputs that tell again what one before them told: a log's copy, what a client saved beside it."""

from __future__ import annotations

import polars as pl

_TELLING = ("prefill_tokens", "prefill_ms", "output_tokens", "decode_ms")
_SAME = [pl.col(name).cast(pl.Float64).round(2) for name in _TELLING]
"""Logs round times to two digits; the same request in JSON has more."""

_MOST, _VARIED, _FEWEST = 0.9, 0.5, 3
"""An input is a repetition if nearly all of its requests were told before, and if they differ enough among
each other that this is no chance: a test that sends one prompt again and again repeats itself anyway."""


def told_once(requests: pl.DataFrame) -> pl.DataFrame:
    """The requests without those of inputs that repeat one before them, by tokens and times."""
    if requests["source"].n_unique() < 2:
        return requests
    telling = pl.all_horizontal(pl.col(name) > 0 for name in _TELLING).fill_null(value=False)
    again = telling & (pl.col("source") != pl.col("source").first().over(_SAME))
    told = requests.with_columns(telling=telling, again=again, same=pl.struct(_SAME))
    repeats = (
        told.filter("telling")
        .group_by("source")
        .agg(pl.col("again").mean(), pl.len(), distinct=pl.col("same").n_unique())
        .filter(
            pl.col("again") >= _MOST,
            pl.col("distinct") >= _FEWEST,
            pl.col("distinct") >= _VARIED * pl.col("len"),
        )["source"]
    )
    return requests.filter(~(pl.col("source").is_in(repeats.implode()) & again))
