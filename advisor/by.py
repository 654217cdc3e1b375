"""The numbers of each host, model, engine or hour, and which of them stands out and why."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from advisor.diagnosis import by_engine, diagnose
from advisor.model import (
    DifferenceModel,
    GroupModel,
    Groups,
    OtherFactModel,
    OtherWorkModel,
    OutlierModel,
    OwnFindingModel,
)
from advisor.summary import rounded, summarise
from rules.catalogue import all_rules
from rules.comparison.changes import settings, work
from rules.comparison.quantities import SPEEDS, WAITS
from rules.comparison.sentences import sentence
from rules.deployments import deployments
from rules.groups import group
from rules.outliers import LEAST_REQUESTS, outliers
from rules.rule import Finding
from rules.words import duration, percent, plural

if TYPE_CHECKING:
    from parsers.setup import Setup
    from rules.comparison.changes import Fact
    from rules.groups import By, Group, Grouping
    from rules.measures import Measures
    from rules.outliers import Outlier, Outliers

EXPLAINED = 3
"""Of the groups that stand out, for how many the rules are asked."""

_TRIVIAL = {"model": {"model", "engine_version"}, "engine": {"engine", "engine_version"}}
"""Facts that groups are apart by."""

_OTHER_SIZE, _OTHER_SHARE = 1.25, 0.1
"""From here on sizes, in ratio, and shares are others."""

_WHAT = {
    "queue": "waiting for a slot",
    "load": "loading the model",
    "prefill": "prefill",
    "decode": "decode",
    "ttft": "the time to first token",
    "total": "the total time",
}


def grouped(measures: Measures, by: By) -> Groups:
    """The groups of these measures."""
    grouping = group(measures, by)
    found = outliers(grouping)
    told = [_outlier(name, found, grouping, explain=i < EXPLAINED) for i, name in enumerate(found.groups)]
    return Groups(
        by=by,
        told_by=grouping.naming,
        sentence=_sentence(grouping, found, told),
        judged=len(found.judged),
        groups=[_group(one) for one in grouping.groups],
        outliers=told,
    )


def named(name: str | None, by: By) -> str:
    """A group in words."""
    unknown = {"hour": "no clock", "model": "model not told"}
    return unknown.get(by, "not told") if name is None else name


def _group(one: Group) -> GroupModel:
    summary = summarise(one.measures)
    shared = {name: getattr(summary, name) for name in GroupModel.model_fields if name != "name"}
    return GroupModel(name=one.name, **shared)


def _outlier(name: str | None, found: Outliers, grouping: Grouping, *, explain: bool) -> OutlierModel:
    mine = [one for one in found.found if one.group == name]
    phases = [one for one in mine if one.quantity.name not in WAITS]
    phase = phases[0].quantity.name if phases else None
    here = next(one.measures for one in grouping.groups if one.name == name)
    rest = grouping.without(set(found.groups) | set(found.too_few))
    return OutlierModel(
        group=name,
        slower=mine[0].slower,
        phase=phase,
        sentence=" ".join(sentence(one.quantity) for one in phases or mine[:1]),
        differences=[_difference(one) for one in mine],
        facts=_facts(name, found, grouping),
        work=_work(here, rest) if phase in (None, "queue") else [],
        findings=_own_findings(here, rest) if explain else [],
    )


def _difference(one: Outlier) -> DifferenceModel:
    q = one.quantity
    effect = next(effect for effect in q.effects if effect.sign)
    return DifferenceModel(
        quantity=q.name,
        slower=one.slower,
        unit="ratio" if effect.none else "ms",
        change=round(effect.value, 4),
        low=round(effect.low, 4),
        high=round(effect.high, 4),
        cost_ms=rounded(one.cost_ms, 3),
        sentence=sentence(q),
    )


def _facts(name: str | None, found: Outliers, grouping: Grouping) -> list[OtherFactModel]:
    """What a group's setup says otherwise than all others that say it, which are at least half of them."""
    own = {one.name: setup for one in grouping.groups if (setup := _stated(one)) is not None}
    others = [setup for other, setup in own.items() if other not in found.groups]
    if name not in own or not others:
        return []
    changes = [settings(setup, own[name]) for setup in others]
    values: dict[str, list[Fact]] = {}
    for change in (change for differing in changes for change in differing):
        values.setdefault(change.fact, []).append(change.before)
    here = {change.fact: change.after for differing in changes for change in differing}
    told = {fact: sum(getattr(setup, fact, None) not in (None, []) for setup in others) for fact in values}
    return [
        OtherFactModel(fact=fact, here=here[fact], others=Counter(theirs).most_common(1)[0][0])
        for fact, theirs in values.items()
        if len(theirs) >= max(told[fact], len(others) / 2) and fact not in _TRIVIAL.get(grouping.by, set())
    ]


def _work(here: Measures, rest: Measures) -> list[OtherWorkModel]:
    """How the group's requests differ from the others': medians, shares, and how many ran at once."""
    told = work(rest, here, (rest.sums, here.sums), filtered=True)
    return [
        OtherWorkModel(name=w.name, unit=w.unit, how=w.how, here=round(w.after, 4), others=round(w.before, 4))
        for w in told
        if w.how in ("median", "share", "mean")
        and w.before is not None
        and w.after is not None
        and (abs(w.after - w.before) >= _OTHER_SHARE if w.how == "share" else _other(w.before, w.after))
    ]


def _other(one: float, more: float) -> bool:
    return max(one, more) >= _OTHER_SIZE * min(one, more)


def _stated(one: Group) -> Setup | None:
    """The setup that a group's own log states; another process may stand in for one without a header."""
    setup, m = one.measures.setup, one.measures
    runs = {int(run) for frame in (m.requests, m.intervals) for run in frame["run"].unique()}
    places = {(m.setups[run].source, m.setups[run].line) for run in runs if run < len(m.setups)}
    return setup if setup.origin and (setup.source, setup.line) in places else None


def _own_findings(here: Measures, rest: Measures) -> list[OwnFindingModel]:
    found = diagnose(here).findings
    there = _firing(rest, {finding.rule for finding in found})
    return [OwnFindingModel(rule=one.rule, title=one.title) for one in found if one.rule not in there]


def _firing(m: Measures, ids: set[str]) -> set[str]:
    """Those of some rules that find something, asked as `advisor.diagnosis` asks all."""
    asked = [loaded for loaded in all_rules() if loaded.rule.id in ids]
    fire: set[str] = set()
    for engine in by_engine(m):
        parts = deployments(engine)
        for loaded in asked:
            of = [engine] if loaded.rule.across else parts
            if any(part.asks(loaded.rule) and isinstance(part.asked(loaded.check), Finding) for part in of):
                fire.add(loaded.rule.id)
    return fire


def _sentence(grouping: Grouping, found: Outliers, told: list[OutlierModel]) -> str:
    """The answer: which groups stand out and in what; that none does; or why that can't be told."""
    by = grouping.by
    if len(grouping.groups) < 2:
        only = grouping.groups[0].name if grouping.groups else None
        nothing = f"Nothing here tells its {by}." if only is None else f"All of this is one {by}, {only}."
        return f"{nothing} There is nothing to compare."
    if not found.quantities:
        return _untold(grouping, found)
    few, two = _not_judged(found, by), len(found.judged) == 2
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
        if len(found.judged) < 2 and len(found.too_few) >= 1:
            return f"Too few requests to tell whether one {grouping.by} stands out: {enough}."
        return f"Whether one {grouping.by} stands out can't be told: their requests are not alike enough."
    return f"Whether one {grouping.by} stands out can't be told: no single requests are logged."


def _seen(found: Outliers) -> str:
    """How small a difference would have been seen."""
    seen = {name: found.visible.get(name) for name in SPEEDS}
    told = [
        f"{name} that takes {percent(share)} longer" for name, share in seen.items() if share and share < 1
    ]
    untold = [name for name, share in seen.items() if share is None]
    said = f" At like work, {' or '.join(told)} would have been seen." if told else ""
    return said + (f" No like work tells {' and '.join(untold)}." if untold else "")


def _not_judged(found: Outliers, by: By) -> str:
    few, more = len(found.too_few), len(found.left_out)
    said = (
        f" {plural(few, by)} with under {LEAST_REQUESTS} requests {'is' if few == 1 else 'are'} not judged."
    )
    rest = f" Nor are {plural(more, by)} with fewer requests than these."
    return (said if few else "") + (rest if more else "")
