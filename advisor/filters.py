"""The filters that `analyze`, `report`, `export`, `compare` and `check` share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl

from advisor.sources.files import InputError

if TYPE_CHECKING:
    from collections.abc import Callable


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

    def apply(self, frame: pl.DataFrame, clock: str) -> pl.DataFrame:
        """The rows that pass.

        Raises:
            InputError: a time filter on rows none of which has a clock.
        """
        if (self.since or self.until) and frame.height and frame[clock].null_count() == frame.height:
            raise InputError("--since and --until need a log with a wall clock, and this one has none.")
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
    for column, clean in (("source", text), ("detail", text), ("request_id", text), ("model", model)):
        if column in frame.columns:
            frame = frame.with_columns(_mapped(frame[column], clean))
    return frame


def _mapped(values: pl.Series, clean: Callable[[str], str]) -> pl.Series:
    distinct = [v for v in values.unique().to_list() if v is not None]
    changed = {v: c for v in distinct if (c := clean(v)) != v}
    if not changed:
        return values
    return values.replace(list(changed), list(changed.values()))
