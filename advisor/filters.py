"""The filters that `analyze`, `report`, `export`, `compare` and `check` share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl

from advisor.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from parsers import Tables


_HARMLESS = r"^[0-9a-f-]*$"
"""Numbers and UUIDs: a big log has millions of them, and nothing to take out."""


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
        clocks = (
            (tables.requests, "finished_at"),
            (tables.intervals, "time"),
            (tables.events, "time"),
            (tables.aggregates, "time"),
        )
        rows = sum(frame.height for frame, _ in clocks)
        timed = sum(frame[clock].count() for frame, clock in clocks)
        if (self.since or self.until) and rows and not timed:
            raise InputError("--since and --until need a log with a wall clock, and this one has none.")
        requests, intervals, events, aggregates = (self._passing(frame, clock) for frame, clock in clocks)
        return requests, intervals, events, aggregates

    def clockless(self, tables: Tables) -> int:
        """How many requests, intervals and aggregates a time filter leaves out: they have no clock."""
        if not (self.since or self.until):
            return 0
        clocks = tables.requests["finished_at"], tables.intervals["time"], tables.aggregates["time"]
        return sum(clock.null_count() for clock in clocks)

    def _passing(self, frame: pl.DataFrame, clock: str) -> pl.DataFrame:
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


def redacted(frame: pl.DataFrame, text: Callable[[str], str], model: Callable[[str], str]) -> pl.DataFrame:
    """The frame with its text columns cleaned; each distinct text is cleaned once."""
    texts = [name for name, dtype in frame.schema.items() if dtype == pl.String]
    return frame.with_columns(_mapped(frame[name], model if name == "model" else text) for name in texts)


def _mapped(values: pl.Series, clean: Callable[[str], str]) -> pl.Series:
    distinct = values.drop_nulls().unique()
    distinct = distinct.filter(~distinct.str.contains(_HARMLESS))
    changed = {v: c for v in distinct if (c := clean(v)) != v}
    if not changed:
        return values
    return values.replace(list(changed), list(changed.values()))
