"""Rows to files: JSON Lines, CSV and Parquet, in the contract's columns."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, BinaryIO, Literal

from advisor.sources.files import InputError
from parsers.records import TABLES, columns

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

Kind = Literal["jsonl", "csv", "parquet"]


def kind_of(path: Path | None, asked: Kind | None) -> Kind:
    """The format asked for, else by the file's ending, else JSON Lines.

    Raises:
        InputError: the ending says nothing that can be written.
    """
    if asked is not None:
        return asked
    suffix = "jsonl" if path is None else path.suffix.lower().lstrip(".")
    if suffix in ("jsonl", "ndjson"):
        return "jsonl"
    if suffix == "csv":
        return "csv"
    if suffix == "parquet":
        return "parquet"
    raise InputError(f"{path}: name it .jsonl, .csv or .parquet, or say --format.")


def write(frame: pl.DataFrame, table: str, path: Path | None, kind: Kind) -> None:
    """Write a table's exported columns to a file, or to standard output without one.

    Raises:
        InputError: the file can't be written.
    """
    frame = frame.select(columns(TABLES[table]))
    if path is None:
        _write(frame, sys.stdout.buffer, kind)
        return
    try:
        with path.open("wb") as file:
            _write(frame, file, kind)
    except OSError as error:
        raise InputError(f"{path}: can't be written ({error.strerror or error}).") from None


def _write(frame: pl.DataFrame, file: BinaryIO, kind: Kind) -> None:
    if kind == "parquet":
        frame.write_parquet(file)
    elif kind == "csv":
        frame.write_csv(file, datetime_format="%Y-%m-%dT%H:%M:%S%.6fZ")
    else:
        times = [name for name, dtype in frame.schema.items() if dtype.is_temporal()]
        import polars as pl

        frame.with_columns(pl.col(times).dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")).write_ndjson(file)
