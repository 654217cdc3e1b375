"""Requests that are told twice: by a log's copy, by what a client saved beside it, by a log pasted twice."""

from __future__ import annotations

import polars as pl

_TELLING = ("prefill_tokens", "prefill_ms", "output_tokens", "decode_ms")
_SAME = [pl.col(name).cast(pl.Float64).floor() for name in _TELLING]
"""In whole milliseconds: logs round times that the same request in JSON has in full."""

_MOST, _VARIED, _FEWEST = 0.9, 0.5, 3
"""Two inputs tell the same if nearly all requests of one are in the other, and if they differ enough among
each other that this is no chance: a test that sends one prompt again and again repeats itself anyway."""


_TELLS = pl.all_horizontal(pl.col(name) > 0 for name in _TELLING).fill_null(value=False)


def told_once(requests: pl.DataFrame) -> pl.DataFrame:
    """Each request once: the longer of two inputs keeps what both tell, a log its lines' first copy."""
    return _across(_within(requests))


def _within(requests: pl.DataFrame) -> pl.DataFrame:
    """Without later copies, in inputs where nearly every request stands twice, to the last digit."""
    exact = ["source", "slot", "request_id", *_TELLING]
    told = requests.with_columns(telling=_TELLS, copies=pl.len().over(exact), same=pl.struct(exact))
    copied = (
        told.filter("telling")
        .group_by("source")
        .agg(twice=(pl.col("copies") > 1).mean(), distinct=pl.col("same").n_unique())
        .filter(pl.col("twice") >= _MOST, pl.col("distinct") >= _FEWEST)["source"]
        .implode()
    )
    first = told["same"].is_first_distinct()
    return requests.filter(first | ~told["telling"] | ~told["source"].is_in(copied))


def _across(requests: pl.DataFrame) -> pl.DataFrame:
    """Without what a longer input tells too."""
    if requests["source"].n_unique() < 2:
        return requests
    told = requests.with_columns(telling=_TELLS, rows=pl.len().over("source"))
    keeper = pl.col("source").sort_by("rows", descending=True, maintain_order=True).first().over(_SAME)
    told = told.with_columns(
        keeper=keeper,
        twice=pl.col("telling") & (pl.col("source").n_unique().over(_SAME) > 1),
        same=pl.struct(_SAME),
    )
    alike = (
        told.filter("telling")
        .group_by("source")
        .agg(pl.col("twice").mean(), pl.len(), distinct=pl.col("same").n_unique())
        .filter(
            pl.col("twice") >= _MOST,
            pl.col("distinct") >= _FEWEST,
            pl.col("distinct") >= _VARIED * pl.col("len"),
        )["source"]
        .implode()
    )
    pair = pl.col("source").is_in(alike) | pl.col("keeper").is_in(alike)
    again = told["twice"] & (told["source"] != told["keeper"]) & told.select(pair).to_series()
    return requests.filter(~again)
