"""The rows of one analysis, apart by host, model, engine or hour."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import polars as pl

from rules.deployments import main_setup
from rules.hosts import hosts
from rules.measures import Measures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rules.hosts import Naming

By: TypeAlias = Literal["host", "model", "engine", "hour"]

OF = "of"
"""The column that says of which group a row is; null where nothing tells."""

_HOUR = "%Y-%m-%d %H:00"
_CLOCKS = {"requests": "finished_at", "intervals": "time", "events": "time", "aggregates": "time"}


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that belong together.

    Attributes:
        name: what they have in common; None where their log does not tell it.
        measures: theirs alone.
    """

    name: str | None
    measures: Measures


@dataclass(frozen=True, slots=True)
class Grouping:
    """The groups of one analysis.

    Attributes:
        by: what they are apart by.
        naming: what a host is told by; None for other groups.
        whole: the measures of all rows, which have a column `OF`.
        groups: hosts and hours in the order of their names, others by their requests, the unnamed one last.
    """

    by: By
    naming: Naming | None
    whole: Measures
    groups: list[Group]

    def without(self, names: set[str | None]) -> Measures:
        """The measures of all groups but these."""
        named = [name for name in names if name is not None]
        kept = ~pl.col(OF).is_in(named).fill_null(value=False)
        if None in names:
            kept &= pl.col(OF).is_not_null()
        return _measures(self.whole, {name: f.filter(kept) for name, f in _frames(self.whole).items()})


def group(m: Measures, by: By) -> Grouping:
    """The groups that have rows."""
    naming, keys = _keys(m, by)
    frames = {table: frame.with_columns(keys[table].alias(OF)) for table, frame in _frames(m).items()}
    whole = _measures(m, frames, m)
    parts = {table: _parted(frame) for table, frame in frames.items()}
    names = dict.fromkeys(name for table in parts if table != "events" for name in parts[table])
    groups = [
        Group(name, _measures(m, {t: parts[t].get(name, frames[t].clear()) for t in frames}))
        for name in names
    ]
    return Grouping(by, naming, whole, sorted(groups, key=lambda one: _order(one, by)))


def _frames(m: Measures) -> dict[str, pl.DataFrame]:
    return {"requests": m.requests, "intervals": m.intervals, "events": m.events, "aggregates": m.aggregates}


def _measures(m: Measures, frames: Mapping[str, pl.DataFrame], like: Measures | None = None) -> Measures:
    """Measures of some rows: advice is worth its share of their own time, not of the whole log's."""
    setup = m.setup
    if like is None:
        found = main_setup(frames["requests"], frames["intervals"], m.setups)
        setup = m.setup if (found.source, found.line) == (m.setup.source, m.setup.line) else found
    return Measures(
        frames["requests"],
        frames["intervals"],
        frames["events"],
        setup,
        m.setups,
        m.machine,
        m.counts,
        m.settings,
        aggregates=frames["aggregates"],
    )


def _parted(frame: pl.DataFrame) -> dict[str | None, pl.DataFrame]:
    return {name: rows for (name,), rows in frame.partition_by(OF, as_dict=True, maintain_order=True).items()}


def _keys(m: Measures, by: By) -> tuple[Naming | None, dict[str, pl.Expr]]:
    """For each table, of which group a row is."""
    tables = list(_CLOCKS)
    if by == "host":
        naming, key = _hosts(m)
        return naming, dict.fromkeys(tables, key)
    if by == "engine":
        return None, dict.fromkeys(tables, pl.col("engine").cast(pl.String))
    if by == "model":
        served = _of_run(m, {run: setup.model for run, setup in enumerate(m.setups)})
        named = pl.coalesce(pl.col("model").cast(pl.String), served)
        told = {table: named if "model" in frame.columns else served for table, frame in _frames(m).items()}
        return None, told
    return None, {table: pl.col(clock).dt.strftime(_HOUR) for table, clock in _CLOCKS.items()}


def _hosts(m: Measures) -> tuple[Naming, pl.Expr]:
    seen = pl.concat(f.select(pl.col("source").cast(pl.String), "run") for f in _frames(m).values()).unique()
    places = {(s, r): (s, m.setups[r].label if r < len(m.setups) else None) for s, r in seen.iter_rows()}
    naming, named = hosts(sorted(places.values(), key=str))
    if naming in ("folder", "file"):
        by_source = {source: named[source, label] for source, label in places.values()}
        return naming, pl.col("source").cast(pl.String).replace_strict(by_source, return_dtype=pl.String)
    return naming, _of_run(m, {run: named[place] for (_, run), place in sorted(places.items())})


def _of_run(m: Measures, facts: Mapping[int, str | None]) -> pl.Expr:
    """What is known of the process that a row is of."""
    return pl.col("run").replace_strict(dict(facts), default=None, return_dtype=pl.String)


def _order(one: Group, by: By) -> tuple[object, ...]:
    natural = [
        (int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", one.name or "")
    ]
    requests = 0 if by in ("host", "hour") else -one.measures.generations.height
    return one.name is None, requests, natural
