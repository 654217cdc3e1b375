"""The filters that `analyze`, `report`, `export`, `compare` and `check` share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import polars as pl

from advisor.errors import InputError
from advisor.redact import SUSPECT
from parsers.records import TABLES
from parsers.tables import CLOCKS

if TYPE_CHECKING:
    from collections.abc import Callable

    from advisor.redact import Plain
    from parsers import Tables


class Timed(Protocol):
    """Rows that know how many of them have a clock."""

    def timed(self, table: str) -> tuple[int, int]:
        """How many rows a table has, and how many of them have a clock."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which rows to keep; ``None`` keeps all.

    Attributes:
        since, until: UTC; a request counts by when it finished.
        model: part of the model's name, case ignored.
        slot: the slot's number.
    """

    since: datetime | None = None
    until: datetime | None = None
    model: str | None = None
    slot: int | None = None

    def apply(self, tables: Tables) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """The requests, intervals, events and aggregates that pass.

        Raises:
            InputError: a time filter on rows none of which has a clock.
        """
        self.require_clock(tables)
        requests, intervals, events, aggregates = (
            self.passing(table, getattr(tables, table)) for table in TABLES
        )
        return requests, intervals, events, aggregates

    def require_clock(self, tables: Timed) -> None:
        """Have a clock to filter by.

        Raises:
            InputError: a time filter on rows none of which has a clock.
        """
        rows, timed = (sum(counts) for counts in zip(*map(tables.timed, TABLES), strict=True))
        if (self.since or self.until) and rows and not timed:
            raise InputError(
                "--since and --until need a log with a wall clock, and this one has none; "
                "journalctl prints one with -o short-iso."
            )

    def clockless(self, tables: Timed) -> int:
        """How many requests, intervals and aggregates a time filter leaves out: they have no clock."""
        if not (self.since or self.until):
            return 0
        counts = (tables.timed(table) for table in ("requests", "intervals", "aggregates"))
        return sum(rows - timed for rows, timed in counts)

    def passing(self, table: str, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of a table that pass."""
        clock = CLOCKS[table]
        if self.since is not None:
            frame = frame.filter(pl.col(clock) >= self.since)
        if self.until is not None:
            frame = frame.filter(pl.col(clock) <= self.until)
        if self.slot is not None and "slot" in frame.columns:
            frame = frame.filter(pl.col("slot") == self.slot)
        if self.model is not None and "model" in frame.columns:
            wanted = pl.col("model").str.to_lowercase().str.contains(self.model.lower(), literal=True)
            frame = frame.filter(wanted)
        return frame


def parse_time(text: str) -> datetime:
    """``2026-11-29``, ``2026-11-29T19:39`` or with a zone; without one it is UTC.

    Raises:
        ValueError: it is no such time.
    """
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def redacted(frame: pl.DataFrame, words: Plain) -> pl.DataFrame:
    """The frame with its text columns cleaned; each distinct text is cleaned once."""
    return frame.with_columns(
        _mapped(frame[name], words.of(name)) for name, dtype in frame.schema.items() if dtype == pl.String
    )


def _mapped(values: pl.Series, clean: Callable[[str], str]) -> pl.Series:
    heads = values.filter(values.ne_missing(values.shift()))
    distinct = heads.filter(heads.str.contains(SUSPECT)).unique(maintain_order=True)
    changed = {v: c for v in distinct if (c := clean(v)) != v}
    if not changed:
        return values
    return values.replace(list(changed), list(changed.values()))
