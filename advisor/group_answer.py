"""What a page says first of groups: which stands out and in what, that none does, or why nothing tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.comparison.quantities import SPEEDS, WAITS
from rules.outliers import LEAST_REQUESTS
from rules.words import duration, percent, plural

if TYPE_CHECKING:
    from advisor.group_model import OutlierModel
    from rules.groups import By, Grouping
    from rules.outliers import Outliers

_NAMED = 3
"""Groups that a sentence names; of more their number."""

_WHAT = {
    "queue": "waiting for a slot",
    "load": "loading the model",
    "prefill": "prefill",
    "decode": "decode",
    "ttft": "the time to first token",
    "total": "the total time",
}


def answer(grouping: Grouping, found: Outliers, told: list[OutlierModel], *, interrupted: bool) -> str:
    """The answer to which group stands out.

    Args:
        grouping: the groups.
        found: what was judged.
        told: those that stand out.
        interrupted: not all of the inputs were read.
    """
    return _one(grouping, interrupted=interrupted) or _sentence(grouping, found, told)


def named(name: str | None, by: By) -> str:
    """A group in words."""
    unknown = {"hour": "no clock"}
    return unknown.get(by, f"{by} not told") if name is None else name


def _one(grouping: Grouping, *, interrupted: bool) -> str | None:
    """Why there is nothing to compare; None where there are two groups or more."""
    by, twice = grouping.by, grouping.whole.counts.repeated_requests
    names = [one.name for one in grouping.groups if one.name is not None]
    if len(names) > 1:
        return None
    if not grouping.groups:
        said = "No request is told here."
    elif not names:
        said = f"Nothing here tells its {by}."
    elif len(grouping.groups) > 1:
        said = f"What tells its {by} is all of one, {names[0]}."
    elif interrupted:
        said = f"Only {names[0]} was read before the interruption."
    else:
        said = f"All of this is one {by}, {names[0]}."
        if by == "host" and twice:
            said += (
                f" {plural(twice, 'request')} of other logs, or of the same, are told twice and count once."
            )
    return f"{said} There is nothing to compare."


def _sentence(grouping: Grouping, found: Outliers, told: list[OutlierModel]) -> str:
    """The answer: which groups stand out and in what; that none does; or why that can't be told."""
    by = grouping.by
    if not found.quantities:
        return _untold(grouping, found)
    few, two = _unseen(found, by) + _not_judged(grouping, found), len(found.judged) == 2
    if not told and two:
        one, other = (named(name, by) for name in found.judged)
        return f"Between {one} and {other} no difference can be told.{_seen(found)}{few}"
    if not told and found.mixed:
        what = listed([_WHAT[name] for name in found.mixed])
        kinds = f"{plural(len(found.judged), by)} of several kinds"
        return f"{kinds}: they differ in {what}, and none of them is the outlier.{few}"
    if not told:
        return f"None of {plural(len(found.judged), by)} stands out.{_seen(found)}{few}"
    first = told[0]
    alike = [one for one in told if one.slower == first.slower]
    where = _cost(first, found) if len(alike) == 1 else "." if first.slower else ": they are faster."
    if two:
        other = next(named(name, by) for name in found.judged if name != first.group)
        return f"{named(first.group, by)} is slower than {other}{where} Of two, neither is the outlier.{few}"
    names = listed([named(one.group, by) for one in alike])
    verb = "stands" if len(alike) == 1 else "stand"
    return f"{names} {verb} out among {plural(len(found.judged), by)}{where}{few}"


def _cost(one: OutlierModel, found: Outliers) -> str:
    """In what, and what that costs a request: as the end of a sentence."""
    of = next(out for out in found.found if out.group == one.group)
    name, cost_ms = of.quantity.name, of.cost_ms
    if cost_ms is None or (cost_ms > 0) != of.slower:
        return f" in {_WHAT[name]}."
    cost = duration(abs(cost_ms))
    if name in WAITS:
        does = "the first token comes" if name == "ttft" else "a request takes"
        return f": {does} {cost} {'later' if name == 'ttft' else 'longer'} on average."
    speed = f"{'slower' if of.slower else 'faster'} " if name in SPEEDS else ""
    return f": {speed}{_WHAT[name]} {'costs' if of.slower else 'saves'} {cost} a request on average."


def listed(names: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _untold(grouping: Grouping, found: Outliers) -> str:
    """Why nothing can be compared."""
    enough = f"it takes {LEAST_REQUESTS} in each of two"
    if any(one.measures.generations.height for one in grouping.groups):
        if len(found.judged) + len(found.untold) < 2 and found.too_few:
            return f"Too few requests to tell whether one {grouping.by} stands out: {enough}."
        return f"Whether one {grouping.by} stands out can't be told: their requests are not alike enough."
    windows = any(one.measures.intervals.height for one in grouping.groups)
    only = ", only windows or batches of all together" if windows else ""
    return f"Whether one {grouping.by} stands out can't be told: no single requests are logged{only}."


def _seen(found: Outliers) -> str:
    """How small a difference would have been seen."""
    seen = {name: found.visible[name] for name in SPEEDS if name in found.visible}
    told = [f"{name} that takes {percent(share)} longer" for name, share in seen.items()]
    untold = [name for name in SPEEDS if name not in found.unseen]
    said = f" At like work, {' or '.join(told)} would have been seen." if told else ""
    return said + (f" No like work tells {' and '.join(untold)}." if untold else "")


def _unseen(found: Outliers, by: By) -> str:
    """Whose speeds were not compared."""
    said = ""
    for name, groups in found.unseen.items():
        if groups:
            of = "" if len(groups) == len(found.judged) else f" of {_some(groups, by)}"
            said += f" {name.capitalize()}{of} can't be compared: too few valid samples are like the others'."
    return said


def _some(groups: list[str | None], by: By) -> str:
    return listed([named(one, by) for one in groups]) if len(groups) <= _NAMED else plural(len(groups), by)


def _not_judged(grouping: Grouping, found: Outliers) -> str:
    by, few, more = grouping.by, len(found.too_few), len(found.left_out)
    said = (
        f" {plural(few, by)} with under {LEAST_REQUESTS} requests {'is' if few == 1 else 'are'} not judged."
    )
    rest = f" Nor are {plural(more, by)} with fewer requests than these."
    unlike = f" {_some(found.untold, by)} could not be compared." if found.untold else ""
    unnamed = any(one.name is None for one in grouping.groups)
    unknown = f" What doesn't tell its {by} is not judged." if unnamed else ""
    return (said if few else "") + (rest if more else "") + unlike + unknown
