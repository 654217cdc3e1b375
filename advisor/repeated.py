"""Requests that are told twice: by a log's copy, by what a client saved beside it, by a log pasted twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def told_once(requests: pl.DataFrame, labels: Sequence[str | None]) -> pl.DataFrame:
    """Each request once: the longer of two inputs keeps what both tell, a log its lines' first copy.

    Args:
        requests: of all inputs.
        labels: by the rows' ``run``, which container it is in.
    """
    return _across(_within(requests, labels))


def _alike(requests: pl.DataFrame, *keys: Sequence[str | pl.Expr], also: Sequence[str] = ()) -> pl.DataFrame:
    """The requests, each with its place ``at``, that agree with another in one of these keys by its hash.

    No others can be the same: of a log of millions, hardly one remains to be compared.
    """
    rows = requests.select("source", "slot", "request_id", *_TELLING, *also).with_row_index("at")
    known = rows.drop_nulls(_TELLING)
    hashes = [known.select(pl.struct(key).hash()).to_series() for key in keys]
    return known.filter(pl.any_horizontal(_repeated(hashed) for hashed in hashes))


def _repeated(hashed: pl.Series) -> pl.Series:
    ordered = hashed.sort()
    return hashed.is_in(ordered.filter(ordered == ordered.shift(1)).implode())


def _telling(requests: pl.DataFrame, also: pl.Expr = _TELLS) -> pl.DataFrame:
    """How many requests of each source tell enough to be compared."""
    return requests.select("source", *_TELLING, "request_id").filter(_TELLS, also).group_by("source").len()


def _without(requests: pl.DataFrame, again: pl.Series) -> pl.DataFrame:
    """The requests but for those at these places."""
    return requests.filter(~pl.int_range(pl.len()).is_in(again.implode())) if again.len() else requests


def _within(requests: pl.DataFrame, labels: Sequence[str | None]) -> pl.DataFrame:
    """Without later copies, in inputs where nearly every request stands twice under one name, to the digit.

    Containers number their requests each for itself, and may be asked alike. Requests without a name are
    never copies of each other: an engine that rounds may print the same often.
    """
    exact, named = ["source", "label", "slot", "request_id", *_TELLING], pl.col("request_id").is_not_null()
    told = _alike(requests, ["slot", *_TELLING], also=["run"]).filter(_TELLS, named)
    if not told.height:
        return requests
    of_run = {run: labels[run] for run in told["run"].unique()}
    told = told.with_columns(label=pl.col("run").replace_strict(of_run, return_dtype=pl.String))
    told = told.with_columns(copies=pl.len().over(exact), same=pl.struct(exact))
    copied = (
        told.group_by("source")
        .agg(twice=(pl.col("copies") > 1).sum(), alike=pl.len(), distinct=pl.col("same").n_unique())
        .join(_telling(requests, named), on="source")
        .filter(
            pl.col("twice") / pl.col("len") >= _MOST,
            pl.col("len") - pl.col("alike") + pl.col("distinct") >= _FEWEST,
        )["source"]
        .implode()
    )
    again = told.filter(~pl.col("same").is_first_distinct(), pl.col("source").is_in(copied))
    return _without(requests, again["at"])


def _across(requests: pl.DataFrame) -> pl.DataFrame:
    """Without what a longer input tells too."""
    if requests["source"].n_unique() < 2:
        return requests
    told = _alike(requests, *_SAME)
    if not told.height:
        return requests
    told = told.join(requests.group_by("source").agg(rows=pl.len()), on="source", maintain_order="left")
    longest = pl.col("source").sort_by("rows", descending=True, maintain_order=True).first()
    keepers = [pl.when(pl.col("source").n_unique().over(same) > 1).then(longest.over(same)) for same in _SAME]
    told = told.with_columns(keeper=pl.coalesce(keepers), same=pl.struct(_SAME[0]))
    told = told.filter(_TELLS).with_columns(twice=pl.col("keeper").is_not_null())
    alike = (
        told.group_by("source")
        .agg(pl.col("twice").sum(), alike=pl.len(), distinct=pl.col("same").n_unique())
        .join(_telling(requests), on="source")
        .with_columns(distinct=pl.col("len") - pl.col("alike") + pl.col("distinct"))
        .filter(
            pl.col("twice") / pl.col("len") >= _MOST,
            pl.col("distinct") >= _FEWEST,
            pl.col("distinct") >= _VARIED * pl.col("len"),
        )["source"]
        .implode()
    )
    pair = pl.col("source").is_in(alike) | pl.col("keeper").is_in(alike)
    again = told.filter(pl.col("twice"), pl.col("source") != pl.col("keeper"), pair)
    return _without(requests, again["at"])
