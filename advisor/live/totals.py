"""Sums over everything that was read, also over rows that are no longer kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from rules.attribution import NOTHING, Attribution, attribute, merged
from rules.sums import Split

if TYPE_CHECKING:
    from collections.abc import Iterable

TOKENS = ("prompt_tokens", "cached_tokens", "prefill_tokens", "output_tokens")


@dataclass(slots=True)
class Totals:
    """What adds up.

    Attributes:
        rows: rows of each table.
        requests: generations.
        attribution: where their time went; without any, where the time went that an engine summed up.
        tokens: sums of the columns `TOKENS`; a column that no request states is not there.
        events: how many of each kind.
    """

    rows: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    tokens: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    _told: Attribution = NOTHING
    _summed: Split = field(default_factory=Split)

    @property
    def attribution(self) -> Attribution:
        """Where the time of all requests went."""
        return self._told if self.requests else self._summed.attribution

    @property
    def cached_share(self) -> float | None:
        """Share of prompt tokens from a cache, where both are known."""
        known = self.tokens["known_prompt_tokens"]
        return self.tokens["known_cached_tokens"] / known if known else None

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Count the next rows of a table."""
        self.rows[table] += frame.height
        if table == "requests":
            self._add_requests(frame.filter(pl.col("kind") == "generation"))
        elif table == "aggregates":
            added = frame.filter(pl.col("kind") == "between")
            self._summed.add(added)
            self._add_tokens(added)
        elif table == "events":
            self.events.update(dict(frame["kind"].value_counts().iter_rows()))

    def _add_requests(self, generations: pl.DataFrame) -> None:
        self.requests += generations.height
        self._told = merged(self._told, attribute(generations))
        self._add_tokens(generations)

    def _add_tokens(self, rows: pl.DataFrame) -> None:
        known = rows.drop_nulls(["prompt_tokens", "cached_tokens"])
        self.tokens.update(_sums(known, ("prompt_tokens", "cached_tokens"), "known_"))
        self.tokens.update(_sums(rows, TOKENS))


def _sums(rows: pl.DataFrame, names: Iterable[str], prefix: str = "") -> dict[str, int]:
    return {f"{prefix}{name}": int(rows[name].sum()) for name in names if rows[name].count()}
