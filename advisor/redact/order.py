"""Labels are numbered as a reader of the log would meet the secrets, whatever is written of it later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from advisor.redact.patterns import SUSPECT
from parsers.records import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from advisor.redact import Plain
    from parsers import Tables
    from parsers.setup import Setup

_SCHEMA = {"source": pl.String, "line": pl.Int64, "column": pl.String, "text": pl.String}


def number_secrets(words: Plain, tables: Tables, setups: Sequence[Setup]) -> None:
    """Give every secret of a log its label.

    Args:
        words: labels them.
        tables: all rows that were read; filters don't change what a secret is called.
        setups: in the order in which they were read.
    """
    for column, text in _in_order(tables, setups):
        words.of(column)(text)


def _in_order(tables: Tables, setups: Sequence[Setup]) -> Iterator[tuple[str, str]]:
    """The texts that may hold something private, each once, by source and line, with their columns' names."""
    frames = [frame for name in TABLES for frame in _texts(getattr(tables, name))]
    said = pl.DataFrame([said for setup in setups for said in _said(setup)], schema=_SCHEMA, orient="row")
    texts = pl.concat([said, *frames])
    sources = {source: at for at, source in enumerate(dict.fromkeys(setup.source for setup in setups))}
    rank = pl.col("source").replace_strict(sources, default=len(sources), return_dtype=pl.Int64)
    ordered = texts.sort(rank, "line", maintain_order=True).unique(
        ["column", "text"], keep="first", maintain_order=True
    )
    yield from ordered.select("column", "text").iter_rows()


def _texts(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    for name, dtype in frame.schema.items():
        if dtype == pl.String:
            changes = pl.col("text").ne_missing(pl.col("text").shift())
            column = frame.select("source", "line", column=pl.lit(name), text=name).filter(changes)
            suspect = column.filter(pl.col("text").str.contains(SUSPECT))
            yield suspect.unique("text", keep="first", maintain_order=True)


def _said(setup: Setup) -> Iterable[tuple[str, int, str, str]]:
    texts = [(name, value) for name, value in setup if isinstance(value, str)]
    texts += [("device", device.name) for device in setup.devices]
    return [(setup.source, setup.line, name, text) for name, text in texts]
