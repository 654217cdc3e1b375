"""Large frames, of which nothing is copied that stays as it is: a copy of millions of rows costs the most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence


def passing(frame: pl.DataFrame, *passes: pl.Expr | str) -> pl.DataFrame:
    """The rows that pass all of these; the frame itself where all rows do."""
    passed = frame.select(pl.all_horizontal(*passes)).to_series()
    if passed.len() != frame.height:  # of constants
        return frame.filter(*passes)
    return frame if passed.sum() == frame.height else frame.filter(passed)


def known(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The rows in which all of these are known; the frame itself where all are."""
    unknown = [name for name in columns if frame[name].null_count()]
    return frame.drop_nulls(unknown) if unknown else frame


def without(frame: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    """The frame without rows of these numbers in ``row``; the frame itself where there are none."""
    return frame.filter(~pl.col("row").is_in(rows.implode())) if rows.len() else frame


def beside(frame: pl.DataFrame, more: pl.DataFrame) -> pl.DataFrame:
    """The frame with the columns of another one of as many rows."""
    return frame.with_columns(more.get_columns())


def numbered(frame: pl.DataFrame, columns: Sequence[str]) -> pl.Series:
    """A number for each row, the same for rows that have the same in these columns; from 0, as they come.

    Rows one after the other are mostly alike in them; then hardly any are compared with others.
    """
    changes = (pl.col(name).ne_missing(pl.col(name).shift()) for name in columns)
    stretch = frame.select((pl.any_horizontal(*changes) & (pl.int_range(pl.len()) > 0)).cum_sum()).to_series()
    heads = frame.select(columns)[stretch.arg_unique()]
    distinct = heads.unique(maintain_order=True).with_row_index("number")
    told = heads.join(distinct, on=columns, how="left", nulls_equal=True, maintain_order="left")
    return told["number"][stretch]
