"""Where a number stands: evidence with its log lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.rule import Evidence, LineRef

if TYPE_CHECKING:
    import polars as pl

    from parsers.setup import Setup


def stated(setup: Setup, fact: str, label: str, value: float | str | None = None, unit: str = "") -> Evidence:
    """A fact of any setup with the log line that states it."""
    shown = getattr(setup, fact) if value is None else value
    place = setup.origin.get(fact, "").removeprefix("log line ")
    refs = (LineRef(setup.source, int(place)),) if place.isdigit() else ()
    return Evidence(label, shown, unit, refs)


def lines(rows: pl.DataFrame, limit: int = 3) -> tuple[LineRef, ...]:
    """Where the first few of these rows stand."""
    return tuple(
        LineRef(source, line) for source, line in rows.select("source", "line").head(limit).iter_rows()
    )
