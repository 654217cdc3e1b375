"""What the screens call findings: by their rules; those of one rule are numbered, their engines named."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from advisor.diagnosis import Diagnosis
    from advisor.live.view import Judged
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


def titles(judged: Judged) -> dict[str, str]:
    """What findings say, by their names; under their engines' names where they are about several."""
    said = {name: finding.title for name, finding in named(judged.analysis).items()}
    parts = zip(judged.diagnosis.parts, of_parts(judged.diagnosis), strict=True)
    engine = {name: str(measures.engine) for (measures, _), names in parts for name in names}
    if len(set(engine.values())) < 2:
        return said
    return {name: f"{engine[name]}: {title}" for name, title in said.items()}


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
