"""Which finding comes first, and what all of them together would save.

Certain quality faults come first, since fast answers from half a prompt are no use. Then seconds saved.
Advice on decode goes below advice on prefill where text already streams faster than people read. One knob
never gets two values: the finding that ranks higher keeps it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rules.physics.reading import outruns_reading
from rules.rule import Confidence, Phase
from rules.savings import together

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rules.measures import Measures
    from rules.rule import Bound, Finding, Saving

_SURENESS = {Confidence.CERTAIN: 0, Confidence.LIKELY: 1, Confidence.POSSIBLE: 2}


def rank(findings: Iterable[Finding], measures: Measures) -> list[Finding]:
    """Findings in the order they should be read, each knob turned once."""
    rate = measures.decode_tok_s
    fast_enough = rate is not None and outruns_reading(rate)

    def key(finding: Finding) -> tuple[bool, bool, float, bool, int, str]:
        quality_first = finding.quality and finding.confidence is Confidence.CERTAIN
        unhurried = fast_enough and finding.phase is Phase.DECODE
        seconds = finding.saving.ms if finding.saving else 0.0
        sureness = _SURENESS[finding.confidence]
        return (not quality_first, unhurried, -seconds, not finding.fault, sureness, finding.rule)

    return _one_value_per_knob(sorted(findings, key=key))


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
