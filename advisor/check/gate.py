"""The gate: limits beside what a log has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.check.limits import FAIL_ON, SURE
from advisor.check.log import Log
from advisor.check.measured import measured
from advisor.check.model import Check, Fault, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.analysis import Options
    from advisor.check.limits import Limit
    from advisor.check.model import State
    from advisor.reading import Reading


def check(reading: Reading, options: Options, limits: Sequence[Limit]) -> Check:
    """Hold each limit against what was read.

    Raises:
        InputError: a filter that this log can't answer, or a model file that can't be read.
    """
    from advisor.analysis import judge, measure
    from advisor.filters import Filters

    rows = measure(reading, options, once=True)
    found = judge(rows, reading, options)
    log = Log(rows, found, filtered=options.filters != Filters())
    held = outcomes(log, limits)
    unknown = [f"{text.partition(' (tried ')[0].rstrip('.')}." for text in reading.unrecognised]
    if unread := [options.text(text) for text in reading.problems + unknown]:
        held.insert(0, _inputs(unread))
    states = {one.state for one in held}
    passed = False if "broken" in states else None if "unknown" in states else True
    return Check(passed=passed, limits=held, verdict=found.verdict.sentence)


def outcomes(log: Log, limits: Sequence[Limit]) -> list[Outcome]:
    """Each limit beside what the log has."""
    return [_findings(limit, log) if limit.kind.name == FAIL_ON else _held(limit, log) for limit in limits]


def _held(limit: Limit, log: Log) -> Outcome:
    found = measured(limit, log)
    state: State = "unknown"
    if found.value is not None and not limit.holds(found.value):
        state = "broken"
    elif found.value is not None and (found.most is None or limit.holds(found.most)):
        state = "ok"
    return Outcome(
        limit=limit.name,
        state=state,
        what=limit.what,
        bound=limit.kind.bound,
        measured=None if state == "unknown" else found.value,
        allowed=limit.allowed,
        unit=limit.unit,
        n=found.n,
        of=found.of,
        line=found.line,
        notes=list(found.notes),
        reason=found.reason if state == "unknown" else None,
    )


def _findings(limit: Limit, log: Log) -> Outcome:
    """``fail-on``: rules can only find something where there are times of requests or of the engine."""
    sure = SURE[: SURE.index(limit.of) + 1]
    faults = [
        Fault(
            rule=finding.rule,
            confidence=finding.confidence,
            title=finding.title,
            line=next((line for evidence in finding.evidence for line in evidence.lines), None),
        )
        for finding in log.analysis.findings
        if finding.confidence in sure
    ]
    unasked = len(log.analysis.unanswered)
    blind = not faults and log.analysis.verdict.phase == "unknown"
    return Outcome(
        limit=limit.name,
        state="broken" if faults else "unknown" if blind else "ok",
        what=limit.what,
        bound="max",
        measured=None if blind else len(faults),
        allowed=limit.allowed,
        unit=limit.unit,
        line=next((fault.line for fault in faults), None),
        notes=[] if blind or not unasked else [f"{unasked} rules lack what this log doesn't say"],
        reason=(log.caveat("log-hides-timings") or log.analysis.verdict.sentence) if blind else None,
        faults=faults,
    )


def _inputs(sentences: list[str]) -> Outcome:
    return Outcome(
        limit="inputs",
        state="unknown",
        what="every input is read",
        bound="max",
        measured=None,
        allowed=None,
        unit="",
        reason=" ".join(sentences),
    )
