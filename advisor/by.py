"""The numbers of each host, model, engine or hour, and which of them stands out and why."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from advisor.diagnosis import by_engine, diagnose
from advisor.group_answer import answer
from advisor.group_model import (
    DifferenceModel,
    GroupModel,
    Groups,
    OtherFactModel,
    OtherWorkModel,
    OutlierModel,
    OwnFindingModel,
    SampledModel,
)
from advisor.section import Rate
from advisor.summary import rounded, summarise
from rules.attribution import busy_samples
from rules.catalogue import all_rules
from rules.comparison.changes import settings, work
from rules.comparison.quantities import WAITS
from rules.comparison.sentences import sentence
from rules.deployments import deployments
from rules.groups import group
from rules.outliers import outliers
from rules.rule import Finding

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

_OWN = {"name", "together_tok_s"}
"""Of a group, what no summary has."""


def grouped(measures: Measures, by: By, *, interrupted: bool = False) -> Groups:
    """The groups of these measures.

    Args:
        measures: of all rows.
        by: what they are apart by.
        interrupted: not all of the inputs were read.
    """
    grouping = group(measures, by)
    found = outliers(grouping)
    told = [_outlier(name, found, grouping, explain=i < EXPLAINED) for i, name in enumerate(found.groups)]
    return Groups(
        by=by,
        told_by=grouping.naming,
        sentence=answer(grouping, found, told, interrupted=interrupted),
        judged=len(found.judged),
        sampled=_sampled(found),
        groups=[_group(one) for one in grouping.groups],
        outliers=told,
    )


def _group(one: Group) -> GroupModel:
    summary = summarise(one.measures)
    shared = {name: getattr(summary, name) for name in GroupModel.model_fields if name not in _OWN}
    return GroupModel(name=one.name, together_tok_s=_together(one.measures), **shared)


def _together(m: Measures) -> Rate:
    """What all requests together generate, by an engine's windows or batches in which any ran."""
    rates = busy_samples(m.intervals)["decode_tok_s"].drop_nulls()
    rates = rates.filter(rates > 0)
    median = rates.median()
    return Rate(n=rates.len(), p50=round(median, 2) if isinstance(median, float) else None)


def _outlier(name: str | None, found: Outliers, grouping: Grouping, *, explain: bool) -> OutlierModel:
    mine = [one for one in found.found if one.group == name]
    phases = [one for one in mine if one.quantity.name not in WAITS]
    phase = phases[0].quantity.name if phases else None
    here = next(one.measures for one in grouping.groups if one.name == name)
    rest = grouping.without({*found.groups, *found.too_few, None})
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


def _sampled(found: Outliers) -> SampledModel | None:
    if (taken := found.sampled) is None:
        return None
    return SampledModel(requests=taken.requests, of=taken.of, others=taken.others)
