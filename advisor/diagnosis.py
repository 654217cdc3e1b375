"""Asks the rules, engine by engine: one engine's rows and switches are never taken for another's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from rules.catalogue import Answers, ask
from rules.deployments import deployments, names, part
from rules.ranking import combined, quality_first, rank
from rules.rule import Saving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.measures import Measures
    from rules.rule import Caveat, Finding


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything the rules said.

    Attributes:
        findings: in the order they should be read.
        combined: what their first fixes save together.
        unanswered: by rule, why it could not tell.
        caveats: what the numbers can't be used for.
        parts: what was asked about apart, an engine or a model, with the findings about it, best first.
    """

    findings: list[Finding]
    combined: Saving | None
    unanswered: dict[str, str]
    caveats: list[Caveat]
    parts: list[tuple[Measures, list[Finding]]]


NO_DIAGNOSIS = Diagnosis([], None, {}, [], [])


def diagnose(measures: Measures) -> Diagnosis:
    """Ask every rule about each engine's rows, model by model, and put the findings in one order."""
    asked: list[tuple[Measures, Answers]] = []
    ranked: list[tuple[Measures, list[Finding]]] = []
    savings: list[Saving | None] = []
    for m, answers in (pair for engine in by_engine(measures) for pair in _ask(engine)):
        findings = rank(answers.findings, m)
        asked.append((m, answers))
        ranked.append((m, findings))
        savings.append(combined(findings, m))
        m.forget(but_clock=m.of_requests is measures.of_requests)
    findings = _merged([_of_all(findings, measures.wall_ms) for _, findings in ranked])
    return Diagnosis(
        findings, _together(savings, measures.wall_ms), _unanswered(asked, findings), _caveats(asked), ranked
    )


def _ask(m: Measures) -> Iterator[tuple[Measures, Answers]]:
    """The answers about an engine; where it served several models, those about each apart, under its name."""
    parts = deployments(m)
    if len(parts) == 1:
        yield m, ask(m)
        return
    yield m, ask(m, across=True)
    for name, one in zip(names(parts), parts, strict=True):
        answers = ask(one, across=False)
        findings = [replace(f, title=f"{name}: {f.title}") for f in answers.findings]
        yield one, answers._replace(findings=findings)


def by_engine(measures: Measures) -> list[Measures]:
    """The measures of each engine apart; the same measures where there is one."""
    return measures.parts(_engines)


def _engines(measures: Measures) -> list[Measures]:
    frames = measures.requests, measures.intervals, measures.aggregates
    engines = sorted({str(engine) for frame in frames for engine in frame["engine"].unique()})
    if len(engines) <= 1:
        return [measures]
    return [part(measures, pl.col("engine") == engine, aggregates=True) for engine in engines]


def _of_all(findings: list[Finding], wall_ms: float) -> list[Finding]:
    """Findings whose savings are shares of all request time, not of their engine's alone.

    Where no request is logged, a finding's share is of the windows that it looked at, and stays.
    """
    return [
        replace(f, saving=replace(f.saving, share=_share(f.saving.ms, wall_ms)))
        if f.saving and wall_ms
        else f
        for f in findings
    ]


def _share(ms: float, wall_ms: float) -> float:
    return round(ms / wall_ms, 4) if wall_ms > 0 else 0.0


def _merged(ranked: list[list[Finding]]) -> list[Finding]:
    """One list from several: of the first of each, the sure quality fault or the largest saving goes next."""
    merged: list[Finding] = []
    rest = [findings for findings in ranked if findings]
    while rest:
        nearest = max(rest, key=lambda findings: (quality_first(findings[0]), _saved_ms(findings[0])))
        merged.append(nearest[0])
        rest = [findings[1:] if findings is nearest else findings for findings in rest]
        rest = [findings for findings in rest if findings]
    return merged


def _saved_ms(finding: Finding) -> float:
    return finding.saving.ms if finding.saving else 0.0


def _together(savings: list[Saving | None], wall_ms: float) -> Saving | None:
    """Savings of different engines and models do add up: no phase of a request is in two of them."""
    known = [saving for saving in savings if saving is not None]
    if not known:
        return None
    ms = sum(saving.ms for saving in known)
    at_most = any(saving.bound == "at_most" for saving in known)
    return Saving(ms, _share(ms, wall_ms), "at_most" if at_most else "estimate")


def _unanswered(asked: list[tuple[Measures, Answers]], findings: list[Finding]) -> dict[str, str]:
    told = {finding.rule for finding in findings}
    reasons = {rule: why for _, answers in asked for rule, why in answers.unanswered.items()}
    return {rule: why for rule, why in reasons.items() if rule not in told}


def _caveats(asked: list[tuple[Measures, Answers]]) -> list[Caveat]:
    """Each caveat once; with its engine's name where there are several, unless it is of all of them.

    Of that, the answer about the engine that knows most of it.
    """
    told = [(m.engine, caveat) for m, answers in asked for caveat in answers.caveats]
    if len({m.engine for m, _ in asked}) == 1:
        return [caveat for _, caveat in told]
    of_all = {c.id: c for _, c in sorted(told, key=lambda one: len(one[1].text)) if c.of_all}
    of_one = [replace(c, text=f"{engine}: {c.text}") for engine, c in told if not c.of_all]
    return [*of_one, *of_all.values()]
