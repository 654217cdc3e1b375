"""Which group of several stands out, in which phase, and by how much.

Each group is compared with all others together, by what `rules.comparison` has: speeds at like work, waits as
they were, queue and load as means. A group stands out where two things hold:

- The difference is no chance: its interval holds no change, and is as wide as Holm 1979 asks for so many
  groups and quantities.
- It is none of the usual differences between such groups: it is farther from the middle of the others than
  one more of their kind would be (a prediction interval, at the same level). How far these scatter is their
  median absolute deviation, and, as few groups say little of that, `USUAL` as if that many had shown it.

The farthest is named first and taken out of the rest, against which the next is judged, until none is left.
Outliers are fewer than half of the groups: of more, none is, the groups are of several kinds. Of two groups
the slower one is told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rules.among import Among
from rules.comparison.effect import ALPHA, critical
from rules.comparison.quantities import NAMES, SPEEDS, WAITS

if TYPE_CHECKING:
    from rules.among import Sampled
    from rules.comparison.quantities import Quantity
    from rules.groups import Grouping
    from rules.measures import Measures

FAMILY = 0.05
"""Of analyses of equal groups, at most this share names an outlier."""

LEAST_REQUESTS = 10
"""A group of fewer is not judged."""

USUAL, _AS_IF = 0.03, 8.0
"""Machines of one kind differ by a few percent (a standard deviation of logarithms; of queue and load as a
share of a mean request), and that is worth so many degrees of freedom."""

_EFFICIENCY = 0.37
"""Of a median absolute deviation beside a standard deviation."""

MOST_GROUPS = 200
"""More are not judged, those with most requests first."""

_MOST_AGAIN = 20
"""Groups that are compared again once one is taken out: those farthest from the others."""


_BLIND = 1.0
"""A quantity of which not even so much more would be seen, as a share, was not compared."""

_TOLD = {name: {1} if name in WAITS else {-1, 1} for name in NAMES}
"""Which way a quantity may stand out: a short wait for a short prompt is nothing to look at."""


@dataclass(frozen=True, slots=True)
class Outlier:
    """A group that stands out in one quantity.

    Attributes:
        group: its name.
        quantity: the others before, the group after.
        cost_ms: what that costs a mean request of the group; negative if it saves; None where not known.
    """

    group: str | None
    quantity: Quantity
    cost_ms: float | None

    @property
    def slower(self) -> bool:
        """Whether it takes more time than the others."""
        return self.quantity.sign == 1


@dataclass(frozen=True, slots=True)
class Outliers:
    """What was judged, and what stands out; never the group of what nothing tells.

    Attributes:
        found: the dearest first.
        judged: groups that were compared; ``untold``: those that no quantity could be compared of.
        too_few: groups with fewer than `LEAST_REQUESTS` requests; ``left_out``: those beyond `MOST_GROUPS`.
        quantities: what was compared, of `rules.comparison.quantities.NAMES`.
        mixed: of these, where the groups are of several kinds, and none of them is the outlier.
        unseen: for each speed that was compared, the judged groups of which not even twice the time would be.
        visible: for each quantity, a difference that would be seen in each other group, as a share.
        sampled: what was compared where it was not everything.
    """

    found: list[Outlier] = field(default_factory=list)
    judged: list[str | None] = field(default_factory=list)
    untold: list[str | None] = field(default_factory=list)
    too_few: list[str | None] = field(default_factory=list)
    left_out: list[str | None] = field(default_factory=list)
    quantities: list[str] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)
    unseen: dict[str, list[str | None]] = field(default_factory=dict)
    visible: dict[str, float] = field(default_factory=dict)
    sampled: Sampled | None = None

    @property
    def groups(self) -> list[str | None]:
        """Those that stand out, the dearest first."""
        return list(dict.fromkeys(one.group for one in self.found))


def outliers(grouping: Grouping) -> Outliers:
    """The groups that stand out among these."""
    named = [one for one in grouping.groups if one.name is not None]
    by_size = sorted(named, key=lambda one: -one.measures.generations.height)
    enough = [one for one in by_size if one.measures.generations.height >= LEAST_REQUESTS]
    too_few = [one.name for one in by_size[len(enough) :]]
    left_out, enough = [one.name for one in enough[MOST_GROUPS:]], enough[:MOST_GROUPS]
    judged = [one.name for one in enough]
    if len(judged) < 2:
        return Outliers(judged=judged, too_few=too_few, left_out=left_out)
    test = _Test(grouping.whole, {one.name: one.measures for one in enough})
    found = [one for name in test.among.quantities for one in test.outliers(name)]
    told = [name for name in judged if name in test.told]
    seen = {
        name: {*groups, *(one.group for one in found if one.quantity.name == name)}
        for name, groups in test.seen.items()
    }
    return Outliers(
        sorted(found, key=_dearest),
        told,
        [name for name in judged if name not in test.told],
        too_few,
        left_out,
        [name for name in test.among.quantities if name in test.seen],
        test.mixed,
        {name: [one for one in told if one not in seen[name]] for name in SPEEDS if name in test.seen},
        {name: max(seen.values()) for name, seen in test.seen.items() if seen},
        test.among.sampled,
    )


def _dearest(one: Outlier) -> tuple[bool, bool, float]:
    """Slower ones first, of them phases before waits, which hold these."""
    return not one.slower, one.quantity.name in WAITS, -abs(one.cost_ms or 0.0)


class _Test:
    """Groups that are compared with each other.

    Args:
        whole: the measures of all rows.
        parts: those of each group that is judged.

    Attributes:
        among: compares one with the others.
        seen: for each quantity that could be compared, what difference would have been seen, by group.
        told: groups that were compared in any.
        mixed: quantities in which as many groups stand out as don't.
    """

    def __init__(self, whole: Measures, parts: dict[str | None, Measures]) -> None:
        self.among, self._groups = Among(whole, parts), list(parts)
        self.seen: dict[str, dict[str | None, float]] = {}
        self.told: set[str | None] = set()
        self.mixed: list[str] = []
        self._rejected = 0

    @property
    def _level(self) -> float:
        """How often the next one that is told may be none, by Holm."""
        return FAMILY / max(len(self._groups) * len(self.among.quantities) - self._rejected, 1)

    @property
    def _alpha(self) -> float:
        """The same of an interval, which is never narrower than in a comparison of two logs."""
        return min(ALPHA, self._level)

    def outliers(self, name: str) -> list[Outlier]:
        """The groups that stand out in one quantity, those farthest from the others first."""
        rest, found, rejected = list(self._groups), list[str | None](), self._rejected
        moved: dict[str | None, float] = {}
        fewest = len(rest) // 2 + 1 if len(rest) > 2 else 1
        while len(rest) > (2 if found else 1):
            far = sorted(rest, key=lambda one: -abs(moved.get(one, 0.0)))[: _MOST_AGAIN if found else None]
            compared = {one: self.among.compare(name, one, rest, self._alpha) for one in far}
            moved = {one: by for one, by in moved.items() if one in rest and one not in compared}
            moved |= {one: by for one, q in compared.items() if (by := self.among.moved(q)) is not None}
            compared = {one: q for one, q in compared.items() if one in moved and q.sign is not None}
            if not found:
                self._note(name, compared, moved)
            out = [one for one, q in compared.items() if q.sign in _TOLD[name] and self._is_apart(one, moved)]
            if not out:
                break
            if len(rest) <= fewest:
                self.mixed.append(name)
                self._rejected = rejected
                return []
            farthest = max(out, key=lambda one: (abs(moved[one]), moved[one]))
            found.append(farthest)
            self._rejected += 1
            rest.remove(farthest)
        self._rejected = rejected
        return [told for one in found if (told := self._outlier(name, one, rest)) is not None]

    def _note(self, name: str, compared: dict[str | None, Quantity], moved: dict[str | None, float]) -> None:
        if len(compared) > 1:
            self.told.update(compared)
            usual = {one: float(np.expm1(self._usual(one, moved)[1])) for one in compared}
            visible = {one: q.effects[0].visible for one, q in compared.items()}
            seen = {one: max(share, usual[one]) for one, share in visible.items() if share is not None}
            self.seen[name] = {one: share for one, share in seen.items() if share < _BLIND}

    def _is_apart(self, one: str | None, moved: dict[str | None, float]) -> bool:
        """Whether a group is farther from the others than one of their kind would be; of two, the slower."""
        middle, reach = self._usual(one, moved)
        far = moved[one] - middle
        return abs(far) >= reach and (far > 0 or len(moved) > 2)

    def _usual(self, one: str | None, moved: dict[str | None, float]) -> tuple[float, float]:
        """The middle of the others, and how far from it one more of them may be."""
        others = np.array([value for other, value in moved.items() if other != one])
        if not others.size:
            return 0.0, np.inf
        middle = float(np.median(others))
        spread = 1.4826 * float(np.median(np.abs(others - middle)))
        shown = _EFFICIENCY * (others.size - 1)
        sd = np.sqrt((_AS_IF * USUAL**2 + shown * spread**2) / (_AS_IF + shown))
        unsure = np.sqrt(1 + np.pi / 2 / others.size)
        return middle, critical(_AS_IF + shown, self._level) * float(sd * unsure)

    def _outlier(self, name: str, one: str | None, rest: list[str | None]) -> Outlier | None:
        """The group beside those that stand out in nothing; None where it does no longer."""
        q = self.among.compare(name, one, rest, self._alpha)
        if q.sign not in _TOLD[name]:
            return None
        self._rejected += 1
        return Outlier(one, q, self.among.cost_ms(q, one))
