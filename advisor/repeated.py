"""Requests that are told twice: by a log's copy, by what a client saved beside it, by a log pasted twice."""

from __future__ import annotations

import polars as pl

_TELLING = ("prefill_tokens", "prefill_ms", "output_tokens", "decode_ms")
_SAME = tuple(
    [(pl.col(name).cast(pl.Float64) + shift).floor().alias(f"{name}_{shift}") for name in _TELLING]
    for shift in (0.0, 0.5)
)
"""In whole milliseconds, cut at two places: logs round to hundredths what the same request in JSON has in
full, and two such times can lie on both sides of one cut."""

_MOST, _VARIED, _FEWEST = 0.9, 0.5, 3
"""Two inputs tell the same if nearly all requests of one are in the other, and if they differ enough among
each other that this is no chance: a test that sends one prompt again and again repeats itself anyway."""


_TELLS = pl.all_horizontal(pl.col(name) > 0 for name in _TELLING).fill_null(value=False)


def told_once(requests: pl.DataFrame) -> pl.DataFrame:
    """Each request once: the longer of two inputs keeps what both tell, a log its lines' first copy."""
    return _across(_within(requests))


def _within(requests: pl.DataFrame) -> pl.DataFrame:
    """Without later copies, in inputs where nearly every request stands twice under one name, to the digit.

    Requests without a name are never copies of each other: an engine that rounds may print the same often.
    """
    exact = ["source", "slot", "request_id", *_TELLING]
    telling = _TELLS & pl.col("request_id").is_not_null()
    told = requests.with_columns(telling=telling, copies=pl.len().over(exact), same=pl.struct(exact))
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
    longest = pl.col("source").sort_by("rows", descending=True, maintain_order=True).first()
    keepers = [pl.when(pl.col("source").n_unique().over(same) > 1).then(longest.over(same)) for same in _SAME]
    told = told.with_columns(keeper=pl.coalesce(keepers), same=pl.struct(_SAME[0]))
    told = told.with_columns(twice=pl.col("telling") & pl.col("keeper").is_not_null())
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
    again = pl.col("twice") & (pl.col("source") != pl.col("keeper")) & pair
    return requests.filter(~told.select(again.fill_null(value=False)).to_series())
