"""What engines and benchmarks summed up over requests, each request counted once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from rules.attribution import NOTHING, attribute, merged
from rules.snapshots import SUMS, between, servers

if TYPE_CHECKING:
    from rules.attribution import Attribution
    from rules.snapshots import Told

_GROUP = ["source", "run", "engine", "model"]
_OWES = (pl.col("kind") != "benchmark") & pl.col("total_ms").is_null() & pl.col("requests").is_null()
"""Rows of a count that goes on, which tell neither a total nor how many requests have none."""


def _of_servers(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows; of several files that are of one server, what was added between them."""
    since = rows.filter(pl.col("kind") == "since_start")
    if since["source"].n_unique() < 2:
        return rows
    served: dict[tuple[str, str | None], list[tuple[Told, Told]]] = {}
    for _, group in since.group_by(_GROUP, maintain_order=True):
        first, *_, last = [*group.head(1).to_dicts(), *group.tail(1).to_dicts()]
        served.setdefault((first["engine"], first["model"]), []).append((first, last))
    for chain in (chain for pairs in served.values() for chain in servers(pairs) if len(chain) > 1):
        told = pl.DataFrame([first for first, _ in chain], schema=rows.schema)
        rest = rows.join(told.select(_GROUP), on=_GROUP, how="anti", nulls_equal=True)
        rows = pl.concat([rest, pl.DataFrame([between(chain[0][0], chain[-1][1])], schema=rows.schema)])
    return rows


class Split:
    """Where the time of sums went, of rows as they come.

    Nothing is said while some of the work has no total, nor a number of requests that tells how much this is:
    the rest would pass for the whole. A later row of the same start and model may still bring that total.
    Benchmarks stand each for itself.
    """

    def __init__(self) -> None:
        self._told = NOTHING
        self._lacks: dict[tuple[str | None, ...], bool] = {}

    def add(self, rows: pl.DataFrame) -> None:
        """Take the next rows, each of which counts once."""
        total_ms = pl.when(_OWES).then(0.0).otherwise("total_ms")
        told = rows.with_columns(total_ms=total_ms, load_ms=pl.lit(None, pl.Float64))
        self._told = merged(self._told, attribute(told))
        works = rows.filter((pl.col("kind") != "benchmark") & pl.any_horizontal(pl.col(SUMS) > 0))
        last = works.group_by(_GROUP, maintain_order=True).agg(_OWES.last())
        self._lacks |= {row[:-1]: row[-1] for row in last.iter_rows()}

    @property
    def attribution(self) -> Attribution:
        """Phase times and shares of all of it."""
        return NOTHING if any(self._lacks.values()) else self._told


class Sums:
    """The aggregates of an analysis.

    Args:
        aggregates: the rows.
    """

    def __init__(self, aggregates: pl.DataFrame) -> None:
        self._all = aggregates

    @cached_property
    def rows(self) -> pl.DataFrame:
        """The rows that count every request once.

        Of a process that ran before the first snapshot, what was added between the snapshots, if that is
        anything; of others the last snapshot, which has everything since the start. Snapshots of one server
        may be in files of their own. Benchmarks as they are, and what was added while somebody watched.
        """
        rows = _of_servers(self._all)
        last = rows.filter(pl.col("kind") == "since_start").group_by(_GROUP, maintain_order=True).last()
        between = rows.filter(pl.col("kind") == "between")
        watched = between.join(last.select(_GROUP), on=_GROUP, how="anti", nulls_equal=True)
        told = between.join(last.select(_GROUP), on=_GROUP, how="semi", nulls_equal=True)
        oldest = told.filter(pl.col("run") == pl.col("run").min().over("source"))
        added = oldest.filter(pl.col("total_ms").sum().over(_GROUP) > 0)
        others = last.join(added.select(_GROUP), on=_GROUP, how="anti", nulls_equal=True)
        benchmarks = rows.filter(pl.col("kind") == "benchmark")
        return pl.concat([frame.select(rows.columns) for frame in (others, added, watched, benchmarks)])

    @cached_property
    def attribution(self) -> Attribution:
        """Phase times and shares of all these requests."""
        split = Split()
        split.add(self.rows)
        return split.attribution

    @property
    def timed_requests(self) -> int | None:
        """How many requests the attribution is of; ``None`` where a row with a total does not say."""
        counts = self.rows.drop_nulls("total_ms")["requests"]
        return None if counts.null_count() else int(counts.sum())

    @property
    def kind(self) -> str | None:
        """The kind of the rows; ``None`` without any, or with several."""
        kinds = self.rows["kind"].unique()
        return str(kinds[0]) if kinds.len() == 1 else None

    def total(self, column: str) -> float | None:
        """The sum of a column; ``None`` unless every row has it."""
        values = self.rows[column]
        return None if not values.len() or values.null_count() else float(values.sum())

    def per(self, column: str, divisor: str) -> float | None:
        """One sum divided by another; ``None`` unless every row has both."""
        value, of = self.total(column), self.total(divisor)
        return value / of if value is not None and of else None

    def per_second(self, tokens: str, ms: str) -> float | None:
        """Tokens per second of a phase; ``None`` unless every row has both sums."""
        value = self.per(tokens, ms)
        return None if value is None else 1000 * value
