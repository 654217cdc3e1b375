"""Asks the rules, engine by engine: one engine's rows and switches are never taken for another's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from parsers.setup import Setup
from rules.catalogue import Answers, ask
from rules.measures import Measures
from rules.ranking import combined, rank
from rules.rule import Saving

if TYPE_CHECKING:
    from rules.rule import Caveat, Finding


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything the rules said.

    Attributes:
        findings: in the order they should be read.
        combined: what their first fixes save together.
        unanswered: by rule, why it could not tell.
        caveats: what the numbers can't be used for.
    """

    findings: list[Finding]
    combined: Saving | None
    unanswered: dict[str, str]
    caveats: list[Caveat]


def diagnose(measures: Measures) -> Diagnosis:
    """Ask every rule about each engine's rows, and put the findings in one order."""
    groups = by_engine(measures)
    asked = [(m, ask(m)) for m in groups]
    ranked = [(m, rank(answers.findings, m)) for m, answers in asked]
    savings = [combined(findings, m) for m, findings in ranked]
    findings = _merged([_of_all(findings, measures.wall_ms) for _, findings in ranked])
    return Diagnosis(
        findings, _together(savings, measures.wall_ms), _unanswered(asked, findings), _caveats(asked)
    )


def by_engine(measures: Measures) -> list[Measures]:
    """The measures of each engine apart; the same measures where there is one."""
    frames = measures.requests, measures.intervals, measures.aggregates
    engines = sorted({str(engine) for frame in frames for engine in frame["engine"].unique()})
    if len(engines) <= 1:
        return [measures]
    return [_of(measures, engine) for engine in engines]


def _of(measures: Measures, engine: str) -> Measures:
    requests, intervals, events, aggregates = (
        frame.filter(pl.col("engine") == engine)
        for frame in (measures.requests, measures.intervals, measures.events, measures.aggregates)
    )
    setup = main_setup(requests, intervals, measures.setups)
    return Measures(
        requests,
        intervals,
        events,
        setup,
        measures.setups,
        measures.machine,
        measures.counts,
        measures.settings,
        aggregates=aggregates,
    )


def main_setup(requests: pl.DataFrame, intervals: pl.DataFrame, setups: list[Setup]) -> Setup:
    """The setup of the process that served most rows.

    A log that begins in the middle has no header; then another process of the same engine stands in for it,
    as when a rotated log is read file by file.
    """
    for frame in (requests, intervals):
        if frame.height:
            served = frame.group_by("run").len().sort("len", "run", descending=True)["run"]
            most: Setup = setups[served[0]]
            told = [s for s in (*(setups[run] for run in served), *reversed(setups)) if s.origin]
            return next((s for s in told if s.engine == most.engine), most)
    return next((s for s in reversed(setups) if not s.is_empty), Setup())


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
    """One list from several: of the first of each, the quality fault or the largest saving goes next."""
    merged: list[Finding] = []
    rest = [findings for findings in ranked if findings]
    while rest:
        nearest = max(rest, key=lambda findings: (findings[0].quality, _saved_ms(findings[0])))
        merged.append(nearest[0])
        rest = [findings[1:] if findings is nearest else findings for findings in rest]
        rest = [findings for findings in rest if findings]
    return merged


def _saved_ms(finding: Finding) -> float:
    return finding.saving.ms if finding.saving else 0.0


def _together(savings: list[Saving | None], wall_ms: float) -> Saving | None:
    """Savings of different engines do add up: no request is in two of them."""
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
    """Each caveat once; with its engine's name where there are several."""
    if len(asked) == 1:
        return asked[0][1].caveats
    return [
        replace(caveat, text=f"{m.engine}: {caveat.text}")
        for m, answers in asked
        for caveat in answers.caveats
    ]
