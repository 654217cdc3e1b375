"""Rows to files: JSON Lines, CSV and Parquet, in the contract's columns."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import polars as pl

from advisor.errors import InputError
from advisor.sources.files import STDIN
from parsers.records import TABLES, columns

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind = Literal["jsonl", "csv", "parquet"]
_TIME = "%Y-%m-%dT%H:%M:%S%.6fZ"
_FORMULA = r"^([=+@]|-.)"
"""Text that a spreadsheet would run; a single ``-`` is standard input's name."""


def target(path: Path | None, inputs: Sequence[str]) -> Path | None:
    """Where to write; ``None`` is standard output, which ``-`` means too.

    Raises:
        InputError: it is one of the logs themselves.
    """
    if path is None or str(path) == STDIN:
        return None
    if path.resolve() in {Path(one).resolve() for one in inputs if one != STDIN}:
        raise InputError(f"{path}: this is the log itself; name another file to write.")
    return path


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
        rows = io.BytesIO()
        _write(frame, rows, kind)
        sys.stdout.buffer.write(rows.getbuffer())
        return
    try:
        with path.open("wb") as file:
            _write(frame, file, kind)
    except OSError as error:
        raise InputError(f"{path}: can't be written ({error.strerror or error}).") from None


def _write(frame: pl.DataFrame, file: BinaryIO, kind: Kind) -> None:
    if kind == "parquet":
        packed = io.BytesIO()
        frame.write_parquet(packed)
        file.write(packed.getbuffer())
    elif kind == "csv":
        text = pl.col(pl.String)
        frame.with_columns(
            pl.when(text.str.contains(_FORMULA)).then("'" + text).otherwise(text).name.keep()
        ).write_csv(file, datetime_format=_TIME)
    else:
        frame.with_columns(pl.col(pl.Datetime).dt.strftime(_TIME)).write_ndjson(file)
