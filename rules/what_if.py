"""What if some of the fixes were applied: this log's own requests, recomputed with those changes.

The changes of one engine or model are applied one after the other, in the order of its findings, whichever
was chosen first. A part of a request that no change touches stays as it was: what its total has beyond the
phases, and what its time to first token has beyond the phases before the token.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.attribution import PHASES
from rules.catalogue import all_rules
from rules.deployments import names
from rules.ranking import combined
from rules.rule import Finding, Saving
from rules.savings import together

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from rules.measures import Measures
    from rules.savings import Array, Ledger

    Parts = Sequence[tuple[Measures, Sequence[Finding]]]

BEFORE_TOKEN = ("prefill", "load", "queue")
"""The phases that a time to first token may hold, the surest first."""

_SAME = 0.01
"""Engines round the times of which they make a sum."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A fix that can be chosen, or a finding without a price.

    Attributes:
        id: the same when the log is judged again.
        findings: those whose first fix it is, best first.
        saving: what it alone saves, as a share of the time of all; ``None`` where it has no price.
        about: an engine or model, where findings are about several.
        instead_of: the finding whose fix turns the same knob to another value, so that this one has no price.
    """

    id: str
    findings: tuple[Finding, ...]
    saving: Saving | None
    about: str = ""
    instead_of: Finding | None = None

    @property
    def finding(self) -> Finding:
        """The best of its findings."""
        return self.findings[0]


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What the requests took, or would have taken.

    Attributes:
        phase_ms: summed over the requests whose total is known, and ``other``; ``None`` where none tells.
        ttft_ms, total_ms: of each request; NaN where it is unknown.
        saving: against the log as it is; ``None`` where nothing is chosen.
    """

    phase_ms: dict[str, float | None]
    ttft_ms: Array
    total_ms: Array
    saving: Saving | None


class WhatIf:
    """The choices that a log leaves, and what each would have made of its requests.

    Args:
        whole: the measures of everything.
        parts: what was asked about apart, with its findings, as `rules.ranking.rank` orders them.
    """

    def __init__(self, whole: Measures, parts: Parts) -> None:
        self._whole = whole
        self._parts = [(m, list(findings)) for m, findings in parts]
        about = _named(m for m, _ in parts)
        self._choices = _numbered(
            [_choices(*part, name, whole.wall_ms) for part, name in zip(parts, about, strict=True)]
        )

    @cached_property
    def priced(self) -> list[Choice]:
        """What can be chosen, part by part, the best first."""
        return [choice for choices in self._choices for choice in choices if choice.saving]

    @cached_property
    def unpriced(self) -> list[Choice]:
        """Findings whose first fix changes no time that the log tells."""
        return [choice for choices in self._choices for choice in choices if not choice.saving]

    @cached_property
    def before(self) -> Outcome:
        """The requests as they were."""
        rows = self._whole.generations
        return Outcome(
            self._whole.attribution.phase_ms, _column(rows, "ttft_ms"), _column(rows, "total_ms"), None
        )

    def after(self, chosen: Collection[str]) -> Outcome:
        """The requests with the first fixes of these choices applied; ids that are unknown change nothing."""
        saved = {phase: np.zeros(self._whole.generations.height) for phase in PHASES}
        savings: list[Saving] = []
        for (m, listed), choices, places in zip(self._parts, self._choices, self._places, strict=True):
            picked = {id(f) for c in choices if c.saving and c.id in chosen for f in c.findings}
            findings = [finding for finding in listed if id(finding) in picked]
            saving = combined(findings, m)
            if saving is None:
                continue
            savings.append(saving)
            then = together(f.change for f in findings if f.change)(m.ledger)
            for phase in PHASES:
                saved[phase][places] += _ms(m.ledger, phase) - _ms(then, phase)
        return self._outcome(saved, savings) if savings else self.before

    def _outcome(self, saved: dict[str, Array], savings: list[Saving]) -> Outcome:
        before = self.before
        timed = ~np.isnan(before.total_ms)
        phase_ms = dict(before.phase_ms)
        for phase in PHASES:
            if (ms := phase_ms[phase]) is not None:
                phase_ms[phase] = max(ms - float(saved[phase][timed].sum()), 0.0)
        to_token = sum(saved[phase] * holds for phase, holds in self._in_ttft.items())
        return Outcome(
            phase_ms,
            np.maximum(before.ttft_ms - to_token, 0.0),
            np.maximum(before.total_ms - sum(saved.values()), 0.0),
            _sum(savings, self._whole.wall_ms),
        )

    @cached_property
    def _places(self) -> list[NDArray[np.int64]]:
        """Where the requests of each part are among all."""
        rows = _keyed(self._whole.generations).with_row_index("place")
        return [
            np.arange(rows.height, dtype=np.int64)
            if m is self._whole
            else _keyed(m.generations)
            .join(rows, on=rows.columns[1:], how="inner", nulls_equal=True, maintain_order="left")["place"]
            .to_numpy()
            for m, _ in self._parts
        ]

    @cached_property
    def _in_ttft(self) -> dict[str, NDArray[np.bool_]]:
        """By phase, whether each request's time to first token holds it.

        Some clocks start when a slot takes the request, some after the model is loaded: a phase that would
        make the sum longer than the time itself is not in it.
        """
        rows = self._whole.generations
        ttft_ms = np.nan_to_num(self.before.ttft_ms)
        from_arrival = (rows["ttft_from"].cast(pl.String) == "arrival").fill_null(value=False).to_numpy()
        told = np.zeros(rows.height)
        held: dict[str, NDArray[np.bool_]] = {}
        for phase in BEFORE_TOKEN:
            ms = np.nan_to_num(_column(rows, f"{phase}_ms"))
            holds = told + ms <= ttft_ms * (1 + _SAME)
            held[phase] = holds & from_arrival if phase == "queue" else holds
            told = told + ms * held[phase]
        return held


def at(times: Array, share: float) -> float | None:
    """The percentile of the times that are known; ``None`` without any."""
    known = times[~np.isnan(times)]
    return float(np.quantile(known, share)) if known.size else None


def _choices(m: Measures, findings: Sequence[Finding], about: str, wall_ms: float) -> list[Choice]:
    """One for each first fix, and for each finding without a price; shares are of ``wall_ms``, if any."""
    groups: dict[object, list[Finding]] = {}
    for finding in findings:
        fix = finding.fixes[0] if finding.fixes and _is_priced(finding) else None
        groups.setdefault((fix.title, fix.apply) if fix else id(finding), []).append(finding)
    name = "/".join(filter(None, (m.engine, m.setup.model)))
    return [
        Choice(
            f"{name}/{found[0].rule}",
            tuple(found),
            _of_all(combined(found, m), wall_ms),
            about,
            _rival(m, found[0], findings),
        )
        for found in groups.values()
    ]


def _named(parts: Iterable[Measures]) -> list[str]:
    """What each part is about, where there are several: its engine, its model, or both.

    The first part of an engine is about all of its models.
    """
    engines = [list(group) for _, group in groupby(parts, key=lambda m: m.engine)]
    several = len(engines) > 1
    return [
        ", ".join(filter(None, (m.engine if several else None, model)))
        for group in engines
        for m, model in zip(group, ["", *names(group[1:])], strict=True)
    ]


def _of_all(saving: Saving | None, wall_ms: float) -> Saving | None:
    """A part's saving as a share of the time of all."""
    return replace(saving, share=round(saving.ms / wall_ms, 4)) if saving and wall_ms > 0 else saving


def _is_priced(finding: Finding) -> bool:
    """Whether it says what its first fix does to each request."""
    return finding.change is not None and finding.saving is not None


def _rival(m: Measures, finding: Finding, findings: Sequence[Finding]) -> Finding | None:
    """The finding above that turned the first knob of this one, if that is why this one has no price."""
    check = next((loaded.check for loaded in all_rules() if loaded.rule.id == finding.rule), None)
    if check is None or finding.change is not None:
        return None
    said = m.asked(check)
    if not isinstance(said, Finding) or said.change is None or not said.fixes:
        return None
    knob, apply = said.fixes[0].knob, said.fixes[0].apply
    turned = (f for f in findings if any(x.knob == knob and x.apply != apply for x in f.fixes))
    return next(turned, None)


def _numbered(parts: list[list[Choice]]) -> list[list[Choice]]:
    """The choices with numbers after ids that several share."""
    seen: Counter[str] = Counter()

    def numbered(choice: Choice) -> Choice:
        seen[choice.id] += 1
        number = seen[choice.id]
        return choice if number == 1 else replace(choice, id=f"{choice.id}/{number}")

    return [[numbered(choice) for choice in choices] for choices in parts]


def _keyed(rows: pl.DataFrame) -> pl.DataFrame:
    """What tells requests apart; several of one line by their order."""
    key = ("source", "run", "engine", "line")
    return rows.select(*key, nth=pl.int_range(pl.len()).over(key))


def _sum(savings: list[Saving], wall_ms: float) -> Saving:
    """Savings of different parts do add up: no phase of a request is in two of them."""
    ms = sum(saving.ms for saving in savings)
    at_most = any(saving.bound == "at_most" for saving in savings)
    share = round(ms / wall_ms, 4) if wall_ms > 0 else 0.0
    return Saving(ms, share, "at_most" if at_most else "estimate")


def _ms(ledger: Ledger, phase: str) -> Array:
    ms: Array = getattr(ledger, f"{phase}_ms")
    return ms


def _column(rows: pl.DataFrame, name: str) -> Array:
    return np.asarray(rows[name].fill_null(float("nan")).to_numpy(), dtype=np.float64)
