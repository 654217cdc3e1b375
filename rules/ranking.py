"""Which finding comes first, and what all of them together would save.

Certain quality faults come first, since fast answers from half a prompt are no use. Then seconds saved; of a
finding that is only possible, those that no surer fault of the same phase accounts for, so that a guess with
a large bound does not stand above the known cause.
Advice on decode goes below advice on prefill where text already streams faster than people read; a sure
fault of decode still goes above advice that is only possible and saves no more. A cause goes before what it
explains. One knob never gets two values: the finding that ranks higher keeps it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rules.physics.reading import outruns_reading
from rules.rule import Confidence, Phase
from rules.savings import saved_ms, together

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rules.measures import Measures
    from rules.rule import Bound, Finding, Saving

_SURENESS = {Confidence.CERTAIN: 0, Confidence.LIKELY: 1, Confidence.POSSIBLE: 2}


def rank(findings: Iterable[Finding], measures: Measures) -> list[Finding]:
    """Findings in the order they should be read, each knob turned once."""
    rate = measures.decode_tok_s
    fast_enough = rate is not None and outruns_reading(rate)

    findings = list(findings)
    seconds = {id(f): _unexplained_ms(f, findings, measures) for f in findings}
    slow = [f for f in findings if f.phase is Phase.DECODE and _sure_fault(f)] if fast_enough else []
    most = max((seconds[id(f)] for f in slow), default=0.0)

    def waits(finding: Finding) -> int:
        """How far reading speed puts it back: 0 not at all, 1 as a sure fault of decode, 2 as its advice."""
        if fast_enough and finding.phase is Phase.DECODE:
            return 1 if _sure_fault(finding) else 2
        maybe = finding.confidence is Confidence.POSSIBLE and not finding.fault
        return 1 if maybe and slow and seconds[id(finding)] <= most else 0

    def key(finding: Finding) -> tuple[bool, int, float, bool, int, str]:
        sureness = _SURENESS[finding.confidence]
        place = (not finding.fault, sureness, finding.rule)
        return (not quality_first(finding), waits(finding), -seconds[id(finding)], *place)

    return _one_value_per_knob(_causes_first(sorted(findings, key=key)))


def quality_first(finding: Finding) -> bool:
    """A certain fault of the answers themselves: it goes before any saving."""
    return finding.quality and finding.confidence is Confidence.CERTAIN


def _sure_fault(finding: Finding) -> bool:
    return finding.fault and finding.confidence is not Confidence.POSSIBLE


def _causes_first(findings: list[Finding]) -> list[Finding]:
    """Each fault right before the first of the findings that it explains, if not before it already."""
    ordered = list(findings)
    for cause in findings:
        at = ordered.index(cause)
        explained = cause.explains if cause.fault else ()
        effects = [place for place, f in enumerate(ordered[:at]) if f.rule in explained]
        if effects:
            ordered.insert(effects[0], ordered.pop(at))
    return ordered


def _unexplained_ms(finding: Finding, findings: list[Finding], measures: Measures) -> float:
    """What a finding saves; a possible one only on requests that surer faults of its phase leave alone."""
    if finding.saving is None:
        return 0.0
    surer = [f.change for f in findings if _sure_fault(f) and f.phase is finding.phase and f.change]
    if finding.confidence is not Confidence.POSSIBLE or finding.change is None or not surer:
        return finding.saving.ms
    alone = saved_ms(measures.ledger, together(surer)) <= 0
    return float(saved_ms(measures.ledger, finding.change)[alone].sum())


def _one_value_per_knob(findings: list[Finding]) -> list[Finding]:
    """Each finding without the fixes whose knob is turned otherwise already; a saving goes with its fix."""
    values: dict[str, str] = {}
    kept: list[Finding] = []
    for finding in findings:
        fixes = tuple(f for f in finding.fixes if values.setdefault(f.knob, f.apply) == f.apply)
        if fixes[:1] == finding.fixes[:1]:
            kept.append(replace(finding, fixes=fixes))
        else:
            kept.append(replace(finding, fixes=fixes, saving=None, change=None))
    return kept


def combined(findings: Iterable[Finding], measures: Measures) -> Saving | None:
    """What applying the first fix of every finding would save, recomputed together; ``None`` without any."""
    changing = [f for f in findings if f.change is not None and f.saving is not None]
    if not changing:
        return None
    bound: Bound = (
        "at_most" if any(f.saving and f.saving.bound == "at_most" for f in changing) else "estimate"
    )
    return measures.saving(together(f.change for f in changing if f.change is not None), bound=bound)
