"""Runs the cases through the same pipeline as a user's log, and says how each was answered."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from advisor.analysis import Options, analyze
from advisor.reading import read
from rules.hardware import Machine
from tests.diagnosis.cases import CASES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from advisor.model import Analysis, FixModel
    from tests.diagnosis.case import Case

BAR = 19
"""Of the twenty cases."""

TOLERANCE = 0.25
FIXES = 2


@dataclass(frozen=True, slots=True)
class Answer:
    """How a case was answered.

    Attributes:
        found: rules in the order of the page.
        top: the first is the diagnosis; where nothing is wrong, no other rule than those allowed speaks.
        fix_at: place of the fix among all of the page, from 1; ``None`` where it is not there.
        wrong: rules that must not be said, or not first.
        stated_ms: what the first finding says it saves.
        healthy: the verdict's word.
    """

    case: Case
    found: tuple[str, ...]
    top: bool
    fix_at: int | None
    wrong: tuple[str, ...]
    stated_ms: float | None
    healthy: bool | None

    @property
    def fix(self) -> bool:
        """The fix is among the first two, or none is asked for."""
        return not self.case.fix or (self.fix_at is not None and self.fix_at <= FIXES)

    @property
    def saving(self) -> bool:
        """The stated saving is within the tolerance, or none is asked for."""
        wanted = self.case.saving_ms
        return wanted is None or (
            self.stated_ms is not None and abs(self.stated_ms / wanted - 1) <= TOLERANCE
        )

    @property
    def health(self) -> bool:
        """The verdict on health is right, where the case is about it."""
        return self.case.healthy is None or self.healthy is self.case.healthy

    @property
    def right(self) -> bool:
        """All of it."""
        return self.top and self.fix and self.saving and self.health and not self.wrong


def answer(case: Case) -> Answer:
    """Write the case's log, read it as a user's, and judge what is said."""
    analysis = diagnose(case)
    found = tuple(finding.rule for finding in analysis.findings)
    crashed = [caveat.text for caveat in analysis.caveats if caveat.id == "error"]
    first = analysis.findings[0] if analysis.findings else None
    wrong = [rule for rule in found if rule in case.must_not] + [
        rule for rule in found[:1] if rule in case.not_first
    ]
    return Answer(
        case=case,
        found=found,
        top=found[:1] == case.expect[:1] if case.only is None else set(found) <= set(case.only),
        fix_at=_place([fix for finding in analysis.findings for fix in finding.fixes], case.fix),
        wrong=(*wrong, *crashed),
        stated_ms=first.saving.ms if first and first.saving else None,
        healthy=analysis.verdict.healthy,
    )


def diagnose(case: Case) -> Analysis:
    """What the pipeline says of the case's files, its flags given."""
    return page({name: text.encode() for name, text in case.files().items()}, case.machine)


def page(files: Mapping[str, bytes], machine: Machine | None = None) -> Analysis:
    """What the pipeline says of these files."""
    with TemporaryDirectory() as folder:
        paths = []
        for name, data in files.items():
            path = Path(folder) / name
            path.write_bytes(data)
            paths.append(str(path))
        return analyze(read(paths), Options(machine=machine or Machine()))


def _place(fixes: Sequence[FixModel], wanted: tuple[str, ...]) -> int | None:
    for place, fix in enumerate(fixes, 1):
        said = f"{fix.title} {fix.apply} {fix.where}".casefold()
        if any(text.casefold() in said for text in wanted):
            return place
    return None


@dataclass(frozen=True, slots=True)
class Score:
    """Cases of twenty: all parts of a case must be right."""

    cases: int
    top: int
    fix: int
    saving: int
    wrong: int
    healthy: bool

    @property
    def passed(self) -> bool:
        """All but one diagnosis and one fix, nothing wrong, savings as measured, health as it is."""
        most = self.cases - (20 - BAR)
        return (
            self.top >= most
            and self.fix >= most
            and self.saving == self.cases
            and not self.wrong
            and self.healthy
        )


def score(answers: Sequence[Answer]) -> Score:
    """Count whole cases."""
    groups: dict[str, list[Answer]] = {}
    for one in answers:
        groups.setdefault(one.case.id[:3], []).append(one)
    parts = list(groups.values())
    return Score(
        cases=len(parts),
        top=sum(all(a.top for a in group) for group in parts),
        fix=sum(all(a.fix for a in group) for group in parts),
        saving=sum(all(a.saving for a in group) for group in parts),
        wrong=sum(len(a.wrong) for group in parts for a in group),
        healthy=all(a.health for group in parts for a in group),
    )


def table(answers: Sequence[Answer]) -> Table:
    """One row for each log."""
    drawn = Table(title="Diagnosis cases", title_justify="left")
    for name in ("case", "expected", "found, in order", "fix at", "wrong", "saves / expected", "healthy", ""):
        drawn.add_column(name, overflow="fold")
    for one in answers:
        case = one.case
        expected = ", ".join(case.expect) or "nothing wrong"
        wanted = "" if case.saving_ms is None else f"{_seconds(one.stated_ms)} / {_seconds(case.saving_ms)}"
        place = "" if not case.fix else str(one.fix_at or "-")
        drawn.add_row(
            case.id,
            expected,
            ", ".join(one.found) or "-",
            place,
            ", ".join(one.wrong),
            wanted or _seconds(one.stated_ms),
            {True: "yes", False: "no", None: "?"}[one.healthy],
            "ok" if one.right else "WRONG",
        )
    return drawn


def _seconds(ms: float | None) -> str:
    return "-" if ms is None else f"{ms / 1000:,.1f} s"


def main() -> int:
    """Print the table and the totals; 1 where a bar is missed."""
    answers = [answer(case) for case in CASES]
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(table(answers))
    got = score(answers)
    priced = [one for one in answers if one.case.saving_ms is not None]
    console.print(
        f"top diagnosis {got.top} of {got.cases}, fix among the first {FIXES} {got.fix} of {got.cases}, "
        f"savings within {TOLERANCE:.0%} in {sum(one.saving for one in priced)} of the {len(priced)} logs "
        f"with a known one, wrong findings {got.wrong}, "
        f"healthy control {'right' if got.healthy else 'wrong'}"
    )
    return 0 if got.passed else 1
