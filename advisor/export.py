"""Rows to files: JSON Lines, CSV and Parquet, in the contract's columns."""

from __future__ import annotations

import shutil
import sys
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO, Literal

import polars as pl

from advisor.output import replacing

if TYPE_CHECKING:
    from collections.abc import Iterable

Kind = Literal["jsonl", "csv", "parquet"]
ENDINGS: dict[str, Kind] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}
_TIME = "%Y-%m-%dT%H:%M:%S%.6fZ"
_FORMULA = r"^([=+@]|-.)"
"""Text that a spreadsheet would run; a single ``-`` is standard input's name."""

_ROW_GROUP = 32_768


def write_frames(frames: Iterable[pl.DataFrame], path: Path | None, kind: Kind) -> None:
    """Write frames to one file, or to standard output without one.

    Raises:
        InputError: the file can't be written.
    """
    if path is None:
        _write(frames, sys.stdout.buffer, kind)
        return
    with replacing(path) as file:
        _write(frames, file, kind)


def _write(frames: Iterable[pl.DataFrame], file: BinaryIO, kind: Kind) -> None:
    if kind == "parquet":
        _write_parquet(frames, file)
        return
    for number, frame in enumerate(frames):
        rows = BytesIO()  # polars would hide from whom a closed pipe's error comes
        if kind == "csv":
            text = pl.col(pl.String)
            safe = pl.when(text.str.contains(_FORMULA)).then("'" + text).otherwise(text).name.keep()
            frame.with_columns(safe).write_csv(rows, include_header=number == 0, datetime_format=_TIME)
        else:
            rows.write(json_lines(frame))
        file.write(rows.getbuffer())


def json_lines(frame: pl.DataFrame) -> bytes:
    """Rows as JSON, an object a line."""
    return frame.with_columns(pl.col(pl.Datetime).dt.strftime(_TIME)).write_ndjson().encode()


def _write_parquet(frames: Iterable[pl.DataFrame], file: BinaryIO) -> None:
    """Parquet ends with where its rows are, so it is made of all frames at once, each read when needed."""
    with TemporaryDirectory(prefix="phasewise-") as folder:
        parts = []
        for number, frame in enumerate(frames):
            parts.append(Path(folder) / f"{number}.arrow")
            frame.write_ipc(parts[-1], compression="lz4")
        packed = Path(folder) / "rows.parquet"
        pl.scan_ipc(parts).sink_parquet(packed, row_group_size=_ROW_GROUP)
        with packed.open("rb") as rows:
            shutil.copyfileobj(rows, file)
