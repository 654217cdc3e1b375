"""What the screens call findings: by their rules; those of one rule are numbered, and told apart by their engines."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from advisor.diagnosis import Diagnosis
    from advisor.model import Analysis, FindingModel
    from rules.rule import Finding


def named(analysis: Analysis) -> dict[str, FindingModel]:
    """Findings by their rules; more than one of a rule are numbered."""
    return dict(zip(_names(one.rule for one in analysis.findings), analysis.findings, strict=True))


def of_parts(diagnosis: Diagnosis) -> list[list[str]]:
    """The names of each part's findings, as `named` gives them to those of all parts."""
    left = list(
        zip(_names(one.rule for one in diagnosis.findings), map(_own, diagnosis.findings), strict=True)
    )

    def taken(finding: Finding) -> str:
        at = next(at for at, (_, one) in enumerate(left) if one == _own(finding))
        return left.pop(at)[0]

    return [[taken(finding) for finding in findings] for _, findings in diagnosis.parts]


def engines(diagnosis: Diagnosis) -> dict[str, str]:
    """By a finding's name, the engine that it is about; empty where all findings are about one."""
    parts = zip(diagnosis.parts, of_parts(diagnosis), strict=True)
    found = {name: str(measures.engine) for (measures, _), names in parts for name in names}
    return found if len(set(found.values())) > 1 else {}


def _names(rules: Iterable[str]) -> list[str]:
    seen: Counter[str] = Counter()
    names = []
    for rule in rules:
        seen[rule] += 1
        names.append(rule if seen[rule] == 1 else f"{rule} {seen[rule]}")
    return names


def _own(finding: Finding) -> Finding:
    """Without its saving, whose share is of other time in a part than in all."""
    return replace(finding, saving=None)
