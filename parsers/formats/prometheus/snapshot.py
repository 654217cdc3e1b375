"""One snapshot of an engine's numbers: every series once, summed up by model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime

    from parsers.formats.base import At

Rank: TypeAlias = tuple[str, ...]
Key: TypeAlias = tuple[str, str | float]
"""A metric, and which sample of it: ``""``, ``sum``, ``count``, or a bucket's upper bound."""


@dataclass(slots=True)
class Numbers:
    """One model's numbers, by the parallel engines that state them.

    Attributes:
        by_rank: each number of each engine.
        gauges: the metrics that are a state and no sum.
    """

    gauges: frozenset[str]
    by_rank: dict[Key, dict[Rank, float]] = field(default_factory=dict)

    def add(self, key: Key, rank: Rank, value: float) -> None:
        """Take a sample; what one engine says of a state under several labels is said again."""
        ranks = self.by_rank.setdefault(key, {})
        if rank not in ranks:
            ranks[rank] = value
        elif key[0].partition("[")[0] in self.gauges:
            ranks[rank] = max(ranks[rank], value)
        else:
            ranks[rank] += value

    def of_ranks(self, key: Key) -> list[float] | None:
        """The number of each engine; ``None`` unless all state it, so that no sum lacks one."""
        ranks = self.by_rank.get(key)
        if ranks is None:
            return None
        everyone = {rank for stated in self.by_rank.values() for rank in stated if any(rank)}
        whole = not any(map(any, ranks)) or ranks.keys() == everyone
        return list(ranks.values()) if whole else None

    def total(self, key: Key) -> float | None:
        """The sum over the engines; ``None`` where it is not whole."""
        values = self.of_ranks(key)
        return None if values is None else sum(values)

    def buckets(self, name: str) -> dict[float, float]:
        """The cumulative buckets of a histogram by their upper bounds."""
        bounds = [kind for metric, kind in self.by_rank if metric == name and isinstance(kind, float)]
        totals = {bound: self.total((name, bound)) for bound in bounds}
        return {bound: total for bound, total in totals.items() if total is not None}

    def minus(self, earlier: Numbers) -> Numbers:
        """What was added since; only numbers that both have for the same engines."""
        both = {
            key: {rank: value - earlier.by_rank[key][rank] for rank, value in ranks.items()}
            for key, ranks in self.by_rank.items()
            if not self._is_state(key) and ranks.keys() == earlier.by_rank.get(key, {}).keys()
        }
        return Numbers(self.gauges, both)

    def fell_since(self, earlier: Numbers) -> bool:
        """Whether a sum is smaller than before: it counts from a new start."""
        return any(
            value < earlier.by_rank.get(key, {}).get(rank, value)
            for key, ranks in self.by_rank.items()
            if not self._is_state(key)
            for rank, value in ranks.items()
        )

    def _is_state(self, key: Key) -> bool:
        return key[0].partition("[")[0] in self.gauges


@dataclass(slots=True)
class Snapshot:
    """The numbers between two repetitions of the same series.

    Attributes:
        at: where it begins.
        time: when it was taken, UTC, if its samples or their carrier say so.
        models: by model, its numbers.
        created: by series, since when it counts; epoch seconds.
        facts: what it says of the setup.
        seen: the series that it has.
    """

    at: At
    time: datetime | None = None
    models: dict[str | None, Numbers] = field(default_factory=dict)
    created: dict[int, float] = field(default_factory=dict)
    facts: dict[str, object] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def keep_only(self, core: tuple[str, ...]) -> None:
        """Drop the models that have none of these numbers, if others have."""
        engines = {m: n for m, n in self.models.items() if any((name, "") in n.by_rank for name in core)}
        self.models = engines or self.models

    def restarted_since(self, earlier: Snapshot) -> bool:
        """Whether the process is another one: a series was created anew, or a sum fell."""
        created = any(self.created[s] != earlier.created[s] for s in self.created.keys() & earlier.created)
        both = self.models.keys() & earlier.models
        return created or any(self.models[m].fell_since(earlier.models[m]) for m in both)
