"""The numbers of each host, model, engine or hour as scripts read them: ``groups`` of an analysis."""

from __future__ import annotations

from typing import Literal

from advisor.section import Percentiles, Phases, Rate, Section


class GroupModel(Section):
    """Rows with a host, model, engine or hour in common, measured as a log of their own.

    ``name`` is null where nothing tells it. ``together_tok_s`` is what all requests together generate, as an
    engine's windows or batches tell it; it is not judged.
    """

    name: str | None
    requests: int
    intervals: int
    aggregates: int
    wall_ms: float
    phase_share: Phases
    ttft_ms: Percentiles
    total_ms: Percentiles
    prefill_tok_s: Rate
    decode_tok_s: Rate
    together_tok_s: Rate


class DifferenceModel(Section):
    """What a group takes otherwise than the others together.

    ``change`` is a ratio of times, the group's over the others', or a difference in ms, between ``low`` and
    ``high``; ``cost_ms`` what it costs a mean request of the group, null where not known.
    """

    quantity: str
    slower: bool
    unit: Literal["ratio", "ms"]
    change: float
    low: float
    high: float
    cost_ms: float | None
    sentence: str


class OtherFactModel(Section):
    """A fact of a group's setup that all others state otherwise; ``others`` is their usual one."""

    fact: str
    here: bool | int | float | str | None
    others: bool | int | float | str | None


class OtherWorkModel(Section):
    """Something about a group's requests that is another thing than on the others together."""

    name: str
    unit: str
    how: str
    here: float
    others: float


class OwnFindingModel(Section):
    """A finding on a group's own rows that the others' rows together don't have."""

    rule: str
    title: str


class OutlierModel(Section):
    """A group that stands out, in which phases, and what else is different about it.

    ``phase`` is the one that costs or saves most; null where no phase is told to be slower at like work, only
    a wait longer. ``work`` is told of these, and of a longer queue.
    """

    group: str | None
    slower: bool
    phase: str | None
    sentence: str
    differences: list[DifferenceModel]
    facts: list[OtherFactModel]
    work: list[OtherWorkModel]
    findings: list[OwnFindingModel]


class SampledModel(Section):
    """What was compared where it was not everything.

    Of all ``of`` requests of the groups ``requests``, spread over each group; beside each group at most
    ``others`` of the others, spread over each of them.
    """

    requests: int
    of: int
    others: int


class Groups(Section):
    """The same numbers group by group, and the groups that stand out, those that cost most first.

    ``told_by`` is what a host is told by: ``folder``, ``file``, ``label``, ``file and label`` or ``address``.
    ``judged`` counts the groups that were compared. ``sampled`` is null where all their requests were.
    """

    by: Literal["host", "model", "engine", "hour"]
    told_by: str | None
    sentence: str
    judged: int
    sampled: SampledModel | None
    groups: list[GroupModel]
    outliers: list[OutlierModel]
