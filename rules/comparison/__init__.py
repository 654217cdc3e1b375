"""Before and after a change: did it help, where, and could it be chance.

`compare` takes the measures of both sides. Waits are compared as they were; speeds within strata of the same
work: prompt size, cache state, context, requests at once. Pure: rows in, meaning out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rules.comparison.both import Both
from rules.comparison.changes import SetupChange, Work, settings, work
from rules.comparison.coarse import (
    OVERLAPPING,
    apart,
    has_steps,
    step_quantities,
    sum_quantities,
    sum_split,
)
from rules.comparison.quantities import SPEEDS, WAITS, Quantity, Side, quantities
from rules.comparison.split import Split, split

if TYPE_CHECKING:
    from rules.measures import Measures

__all__ = ["SPEEDS", "WAITS", "Compared", "Quantity", "SetupChange", "Side", "Split", "Work", "compare"]

_NOTHING = "nothing timed"


@dataclass(frozen=True, slots=True)
class Compared:
    """Everything that two logs say of each other.

    Attributes:
        grain: ``requests``, ``steps`` or ``sums``; None where the sides can't be compared at all.
        incomparable: why they can't.
        quantities: what was measured on both sides, or on one.
        first_token, total: why the mean waits changed.
        work: what the requests were like.
        settings: facts of the setup that differ.
        replaced: ``engine`` or ``model``, where both sides name other ones.
        left_out: first requests of a process before and after, which are no samples.
        unseen: why waits don't say how long clients waited.
    """

    grain: Literal["requests", "steps", "sums"] | None
    incomparable: str | None = None
    quantities: list[Quantity] = field(default_factory=list)
    first_token: Split | None = None
    total: Split | None = None
    work: list[Work] = field(default_factory=list)
    settings: list[SetupChange] = field(default_factory=list)
    replaced: tuple[str, ...] = ()
    left_out: tuple[int, int] = (0, 0)
    unseen: str | None = None

    def of(self, name: str) -> Quantity | None:
        """The quantity of that name; None where nothing tells it."""
        return next((q for q in self.quantities if q.name == name), None)

    def pair(self, name: str, how: str) -> tuple[float, float] | None:
        """A fact of the requests on both sides; None where one of them does not tell it."""
        found = next((one for one in self.work if (one.name, one.how) == (name, how)), None)
        if found is None or found.before is None or found.after is None:
            return None
        return found.before, found.after


def compare(before: Measures, after: Measures, *, filtered: bool = False) -> Compared:
    """Compare two sides as finely as both logs allow.

    Args:
        before: the measures of one.
        after: the measures of the other.
        filtered: whether rows were left out of them.
    """
    sums = apart(before.sums, after.sums)
    worked = work(before, after, sums or (before.sums, after.sums), filtered=filtered)
    changed = settings(before.setup, after.setup)
    if before.generations.height and after.generations.height:
        both = Both(before, after)
        found = quantities(both)
        speeds = {q.name: q.alike for q in found if q.name in SPEEDS}
        return Compared(
            "requests",
            None,
            found,
            split(both.warm, "ttft_ms", speeds),
            split(both.warm, "total_ms", speeds),
            worked,
            changed,
            both.replaced,
            both.left_out,
            both.unseen,
        )
    if has_steps(before) and has_steps(after):
        return Compared("steps", None, step_quantities(before, after), work=worked, settings=changed)
    if before.sums.rows.height and after.sums.rows.height:
        if sums is None:
            return Compared(None, OVERLAPPING, work=worked, settings=changed)
        found = sum_quantities(*sums)
        return Compared("sums", None, found, total=sum_split(*sums), work=worked, settings=changed)
    return Compared(None, _incomparable(before, after, filtered=filtered), work=worked, settings=changed)


def _incomparable(before: Measures, after: Measures, *, filtered: bool) -> str:
    kinds = [_kind(m) for m in (before, after)]
    if filtered:
        kinds = ["nothing that passes the filters" if kind == _NOTHING else kind for kind in kinds]
    if kinds[0] != kinds[1]:
        return f"the log before holds {kinds[0]}, the log after {kinds[1]}"
    return {
        "a benchmark's tests": "these are a benchmark's tests, nobody waits for them: compare its tables",
        _NOTHING: "neither side has anything timed",
        "nothing that passes the filters": "nothing of either log passes the filters",
        "lines of batches": "both logs hold lines of batches, which time no request",
    }.get(kinds[0], f"both logs hold {kinds[0]}, which are averages over all requests and idle time")


def _kind(m: Measures) -> str:
    """What a log holds, in words."""
    if m.generations.height:
        return "requests"
    if has_steps(m):
        return "an engine's steps"
    if m.sums.rows.height:
        return "sums over requests"
    if m.requests.height:
        benchmarks = (m.requests["kind"] == "benchmark").all()
        return "a benchmark's tests" if benchmarks else "embeddings and reranks only"
    if m.intervals.height:
        windows = (m.intervals["kind"] == "window").any()
        return "windows" if windows else "lines of batches"
    return _NOTHING
