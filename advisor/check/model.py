"""The result of a check as scripts read it: schema ``phasewise.check/1``.

Unknown is null, never 0. Shares are 0-1, times are milliseconds.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import ConfigDict, Field

from advisor.model import Line
from advisor.section import Section

SCHEMA = "phasewise.check/1"
State: TypeAlias = Literal["ok", "broken", "unknown"]


class Fault(Section):
    """A finding that ``fail-on`` counts."""

    rule: str
    confidence: str
    title: str
    line: Line | None


class Outcome(Section):
    """One limit beside what was measured.

    Attributes:
        limit: its name, such as ``max-ttft-p95``; stable, whatever its value. ``inputs`` stands for inputs
            that could not be read.
        state: ``unknown`` where the log can't tell.
        what: for people.
        bound: whether ``allowed`` is the most or the least.
        measured, allowed: in ``unit``; null where the log can't tell, or there is no number.
        n: how many requests the number is of, and ``of`` how many there are.
        line: the worst of them, or the first that matters.
        notes: what the number can't be used for.
        reason: why it is unknown, and what to switch on.
        faults: of ``fail-on``, the findings.
    """

    limit: str
    state: State
    what: str
    bound: Literal["max", "min"]
    measured: float | None
    allowed: float | None
    unit: Literal["ms", "tok/s", "share", "requests", "findings", ""]
    n: int | None = None
    of: int | None = None
    line: Line | None = None
    notes: list[str] = Field(default_factory=list)
    reason: str | None = None
    faults: list[Fault] = Field(default_factory=list)


class Check(Section):
    """All limits, and the verdict on the log.

    Attributes:
        passed: false with a broken limit, else null with one that can't be told.
        limits: in the order of ``phasewise check --help``.
        verdict: as in ``analyze``.
    """

    schema_: str = Field(default=SCHEMA, alias="schema")
    passed: bool | None
    limits: list[Outcome]
    verdict: str

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    def count(self, state: State) -> int:
        """How many limits are in a state."""
        return sum(one.state == state for one in self.limits)
