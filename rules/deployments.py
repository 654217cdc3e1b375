"""The setups that served a log, apart: a rate of one model says nothing about another's weights.

A deployment is the process starts of one model on one set of settings that decide its speed. Rules about
speed, memory and prompts are asked for each; rules with ``across`` (loads, queues) for all together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from parsers.setup import Setup
from rules.fits import SAME, alike
from rules.frames import passing
from rules.measures import Measures
from rules.words import measure

if TYPE_CHECKING:
    from collections.abc import Iterable


def main_setup(requests: pl.DataFrame, intervals: pl.DataFrame, setups: list[Setup]) -> Setup:
    """The setup of the process that served for most of the time.

    A log that begins in the middle has no header; then another process of the same engine stands in for it,
    as when a rotated log is read file by file.
    """
    for frame, time in ((requests, "total_ms"), (intervals, "span_ms")):
        if frame.height:
            served = (
                frame.group_by("run")
                .agg(pl.col(time).fill_null(0).sum(), rows=pl.len())
                .sort(time, "rows", "run", descending=True)["run"]
            )
            most: Setup = setups[served[0]]
            told = [s for s in (*(setups[run] for run in served), *reversed(setups)) if s.origin]
            return next((s for s in told if s.engine == most.engine), most)
    return next((s for s in reversed(setups) if not s.is_empty), Setup())


def deployments(m: Measures) -> list[Measures]:
    """The measures of each deployment, the one that served longest first; the same measures for one."""
    return m.parts(_parts)


def _parts(m: Measures) -> list[Measures]:
    groups = _groups(m)
    if len(groups) <= 1:
        return [m]
    parts = [part(m, pl.col("run").is_in(runs)) for runs in groups]
    return sorted(parts, key=lambda one: -one.wall_ms)


def _groups(m: Measures) -> list[list[int]]:
    """Process starts that served, those alike together; one without a header joins the last one before it."""
    served = sorted({run for frame in (m.requests, m.intervals) for run in frame["run"].unique()})
    groups: list[tuple[Setup, list[int]]] = []
    for run in served:
        setup = m.setups[run]
        known = [group for group in reversed(groups) if alike(group[0], setup)]
        if known:
            known[0][1].append(run)
            _learn(known[0][0], setup)
        else:
            groups.append((setup.model_copy(deep=True), [run]))
    return [runs for _, runs in groups]


def _learn(known: Setup, more: Setup) -> None:
    for fact in SAME:
        if getattr(known, fact) is None:
            setattr(known, fact, getattr(more, fact))


def part(m: Measures, rows: pl.Expr, *, aggregates: bool = False) -> Measures:
    """The measures of some of the rows; with ``aggregates``, of those sums too that pass.

    What the user and the model file say of the main setup stays with the part that has it.
    """
    requests, intervals, events = (passing(frame, rows) for frame in (m.requests, m.intervals, m.events))
    setup = main_setup(requests, intervals, m.setups)
    same = (setup.source, setup.line) == (m.setup.source, m.setup.line)
    return Measures(
        requests,
        intervals,
        events,
        m.setup if same else setup,
        m.setups,
        m.machine,
        m.counts,
        m.settings,
        aggregates=m.aggregates.filter(rows) if aggregates else None,
        log_wall_ms=m.log_wall_ms,
        whole=m,
    )


def names(parts: Iterable[Measures]) -> list[str]:
    """What to call each deployment: its model, and what else differs where models are the same."""
    setups = [one.setup for one in parts]
    models = [setup.model or setup.architecture or "unnamed model" for setup in setups]
    return [
        model if models.count(model) == 1 else f"{model} ({_difference(setup, setups)})"
        for model, setup in zip(models, setups, strict=True)
    ]


def _difference(setup: Setup, setups: list[Setup]) -> str:
    rivals = [other for other in setups if other.model == setup.model]
    differing = [fact for fact in SAME[1:] if len({getattr(other, fact) for other in rivals}) > 1]
    return ", ".join(_said(fact, getattr(setup, fact)) for fact in differing) or f"line {setup.line}"


def _said(fact: str, value: int | str | bool | None) -> str:
    name = fact.removesuffix("_bytes").replace("_", " ")
    return f"{name} {measure(value, 'bytes' if fact.endswith('_bytes') else '')}"
