"""One snapshot of an engine's numbers: every series once, summed up by model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime

    from prometheus_client.samples import Sample

    from parsers.formats.base import At
    from parsers.formats.prometheus.names import Names, Part

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

    def added_since(self, earlier: Numbers | None) -> Numbers:
        """What was added since the same process stated ``earlier``, else since it began.

        What was not stated then had not happened yet: many engines name a number when they first count.
        """
        before = earlier.by_rank if earlier is not None else {}
        added = {
            key: {rank: value - before.get(key, {}).get(rank, 0.0) for rank, value in ranks.items()}
            for key, ranks in self.by_rank.items()
            if not self._is_state(key)
        }
        return Numbers(self.gauges, added)

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

    def take(self, names: Names, part: Part, series: int, sample: Sample) -> bool:
        """Take one sample of it; false for a number that can't be."""
        labels, value = sample.labels, float(sample.value)
        if part.kind == "config":
            self.facts |= _facts(names, labels)
        elif not 0 <= value < float("inf"):
            return value == -1 and part.name in names.gauges
        elif part.kind == "created":
            self.created[series] = value
        else:
            by = names.select.get(part.name)
            value_of = next((labels[label] for label in by.split(",") if labels.get(label)), "") if by else ""
            name = f"{part.name}[{value_of}]" if by else part.name
            model = next((labels[key] for key in names.model if labels.get(key)), None)
            numbers = self.models.setdefault(model, Numbers(names.gauges))
            rank = tuple(labels.get(key, "") for key in names.ranks)
            kind = float(labels["le"]) if part.kind == "bucket" and "le" in labels else part.kind
            numbers.add((name, kind), rank, value)
        return True

    def keep_only(self, core: tuple[str, ...]) -> None:
        """Drop the models that have none of these numbers, if others have."""
        engines = {m: n for m, n in self.models.items() if any((name, "") in n.by_rank for name in core)}
        self.models = engines or self.models

    def restarted_since(self, earlier: Snapshot) -> bool:
        """Whether the process is another one: a series was created anew, or a sum fell."""
        created = any(self.created[s] != earlier.created[s] for s in self.created.keys() & earlier.created)
        both = self.models.keys() & earlier.models
        return created or any(self.models[m].fell_since(earlier.models[m]) for m in both)


def _facts(names: Names, labels: dict[str, str]) -> dict[str, object]:
    """Setup facts that the labels of a config metric state; ``None`` is printed for those not set."""
    words: dict[str, object] = {"True": True, "False": False, "None": None}
    stated = {fact: labels[label] for label, fact in names.facts.items() if label in labels}
    return {fact: words[text] if text in words else _number(text) for fact, text in stated.items()}


def _number(text: str) -> float | None:
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        return None
