"""What a rule is and what it answers.

A rule is one file with a `RULE` (what it is), a pure ``check(measures)`` (finding, "not here", or "can't
tell"), and a docstring that is also its documentation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rules.measures import Measures
    from rules.remedies import Fix
    from rules.savings import Change


class Phase(StrEnum):
    """Where a request's time goes; ``OTHER`` is what the log doesn't name, ``MEMORY`` what may not fit."""

    QUEUE = "queue"
    LOAD = "load"
    PREFILL = "prefill"
    DECODE = "decode"
    OTHER = "other"
    MEMORY = "memory"


class Confidence(StrEnum):
    """How sure a finding is.

    ``CERTAIN``: a log line names the cause. ``LIKELY``: the numbers fit only this. ``POSSIBLE``: one of
    several; the finding's ``verify`` is the test that decides.
    """

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


Bound: TypeAlias = Literal["estimate", "at_most"]


@dataclass(frozen=True, slots=True)
class LineRef:
    """A line of a source, 1-based."""

    source: str
    line: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """One number behind a finding, with the log lines it comes from."""

    label: str
    value: float | int | str | None
    unit: str = ""
    lines: tuple[LineRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Saving:
    """Time a change would have saved on this log's own requests.

    Attributes:
        ms: milliseconds over all requests, rounded to what the data supports.
        share: of the summed request time, 0-1.
        bound: ``estimate``, or ``at_most`` where only an upper bound is known.
    """

    ms: float
    share: float
    bound: Bound = "estimate"


@dataclass(frozen=True, slots=True)
class Finding:
    """A diagnosis with its evidence and what to do about it.

    Attributes:
        why: one or two sentences with this log's numbers.
        requests: how many requests it concerns.
        saving: ``None`` where no time is claimed (a quality or memory fault).
        change: what applying the first fix does to each request; lets findings be recomputed together.
        wont_help: what people would try here in vain.
        fault: something is worse than it should be, as against advice for a healthy log.
        quality: answers suffer (computed from half a prompt, refused), so it goes before any saving.
        explains: see `Rule.explains`.
    """

    rule: str
    phase: Phase
    confidence: Confidence
    title: str
    why: str
    evidence: tuple[Evidence, ...]
    requests: int
    saving: Saving | None
    fixes: tuple[Fix, ...]
    verify: str
    sources: tuple[str, ...] = ()
    wont_help: tuple[str, ...] = ()
    fault: bool = True
    quality: bool = False
    explains: tuple[str, ...] = ()
    change: Change | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The rule looked and found nothing to say."""

    reason: str


@dataclass(frozen=True, slots=True)
class CannotTell:
    """The log lacks what the rule needs."""

    reason: str


@dataclass(frozen=True, slots=True)
class Caveat:
    """What the numbers can't be used for, or what the log can't tell.

    Attributes:
        of_all: it is of everything that was read, whichever engine's rows it was asked about.
    """

    id: str
    text: str
    of_all: bool = False


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number that a rule compares with and that a user may set in ``phasewise.toml``.

    Attributes:
        value: the default.
        meaning: what it is, its unit included, and where the default comes from.
    """

    value: float
    meaning: str


@dataclass(frozen=True, slots=True)
class Crashed:
    """The rule's code failed; that is the rule's fault and not the log's."""

    error: Exception


Answer: TypeAlias = Finding | NotApplicable | CannotTell


@dataclass(frozen=True, slots=True)
class Rule:
    """What a rule is.

    Attributes:
        id: stable, kebab-case; the module's name with hyphens.
        phase: the phase it is about.
        title: the finding's headline.
        needs: request columns or setup facts without which it can't tell.
        engines: the engines whose matter it is; empty for all.
        remedies: ids in ``rules/remedies``, best first.
        verify: how to see that a fix worked.
        sources: threads, docs and papers.
        thresholds: by name, what a user may set; `Measures.thresholds` has the values in force.
        across: it looks at all models of an engine together (loads, queues), not at each apart.
        fault: see `Finding.fault`.
        quality: see `Finding.quality`.
        explains: rules whose findings this one gives the cause of; it is read before them.
        status: ``stable`` or ``experimental``.
    """

    id: str
    phase: Phase
    title: str
    remedies: tuple[str, ...]
    verify: str
    needs: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    thresholds: Mapping[str, Threshold] = field(default_factory=dict)
    across: bool = False
    fault: bool = True
    quality: bool = False
    explains: tuple[str, ...] = ()
    status: str = "stable"

    def finding(
        self,
        *,
        confidence: Confidence,
        why: str,
        evidence: Sequence[Evidence],
        requests: int,
        fixes: Sequence[Fix],
        saving: Saving | None = None,
        change: Change | None = None,
        title: str | None = None,
        wont_help: Sequence[str] = (),
        fault: bool | None = None,
        verify: str | None = None,
    ) -> Finding:
        """A `Finding` of this rule.

        Raises:
            ValueError: there is no evidence.
        """
        if not evidence:
            raise ValueError(f"{self.id}: no finding without evidence")
        return Finding(
            rule=self.id,
            phase=self.phase,
            confidence=confidence,
            title=title or self.title,
            why=why,
            evidence=tuple(evidence),
            requests=requests,
            saving=saving,
            fixes=tuple(fixes),
            verify=verify or self.verify,
            sources=self.sources,
            wont_help=tuple(wont_help),
            fault=self.fault if fault is None else fault,
            quality=self.quality,
            explains=self.explains,
            change=change,
        )


class RuleModule(Protocol):
    """A rule's module, as `Measures.finds` takes it."""

    RULE: Rule

    def check(self, m: Measures, /) -> Answer:
        """The rule's question."""
