"""A kit to test rules with, for this project's own and for those of others: made rows in, an answer out.

from rules.testing import complaints, measures
from my_package import answers_too_long

def test_long_answers():
    rows = [{"prefill_tokens": 300, "prefill_ms": 300.0, "output_tokens": 600, "decode_ms": 15_000.0}] * 6
    assert isinstance(answers_too_long.check(measures(rows)), Finding)

def test_the_house_rules():
    assert complaints(answers_too_long) == []
"""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

from parsers import Tables
from parsers.records import Aggregate, Event, Interval, Request
from parsers.setup import Setup
from rules.attribution import PHASES
from rules.measures import Measures
from rules.remedies import load, remedy_ids
from rules.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType

    import polars as pl

    from rules.hardware import Machine
    from rules.settings import Settings

SOURCE = "engine.log"
DOC_SECTIONS = ("What it looks at:", "Why it matters:", "When not to worry:", "What to change:", "Sources:")


def requests(*rows: dict[str, Any]) -> pl.DataFrame:
    """Request rows, one line each: evaluated tokens by arithmetic, totals as the sum of the phases."""
    tables = Tables()
    tables.extend(_request(number, row) for number, row in enumerate(rows, 1))
    return tables.requests


def _request(line: int, row: dict[str, Any]) -> Request:
    given: dict[str, Any] = {"source": SOURCE, "engine": "llama-server", "line": line, **row}
    if given.get("prompt_tokens") is not None and given.get("cached_tokens") is not None:
        given.setdefault("prefill_tokens", given["prompt_tokens"] - given["cached_tokens"])
    given.setdefault("total_ms", sum(given.get(f"{phase}_ms") or 0.0 for phase in PHASES))
    given.setdefault("decode_steps", given.get("output_tokens"))
    return Request(**given)


def measures(
    rows: Iterable[dict[str, Any]] = (),
    *,
    setup: dict[str, Any] | None = None,
    setups: Iterable[dict[str, Any]] | None = None,
    events: Iterable[dict[str, Any]] = (),
    intervals: Iterable[dict[str, Any]] = (),
    aggregates: Iterable[dict[str, Any]] = (),
    machine: Machine | None = None,
    settings: Settings | None = None,
) -> Measures:
    """Measures over made rows.

    Args:
        rows: columns of `parsers.records.Request`; what is left out is unknown.
        setup: facts of `parsers.setup.Setup`, as if log line 1 stated them.
        setups: the same for each of several process starts; the last one counts where ``setup`` is not given.
        events: columns of `parsers.records.Event`.
        intervals: columns of `parsers.records.Interval`.
        aggregates: columns of `parsers.records.Aggregate`.
        machine: what the user gives.
        settings: the rules asked and their thresholds.
    """
    rows = list(rows)
    engine = next((row["engine"] for row in rows if "engine" in row), "llama-server")
    tables = Tables()
    tables.extend(Event(**{"source": SOURCE, "engine": engine, **event}) for event in events)
    tables.extend(Interval(**{"source": SOURCE, "engine": engine, **row}) for row in intervals)
    tables.extend(Aggregate(**{"source": SOURCE, "engine": engine, **row}) for row in aggregates)
    starts = [_setup(engine, facts, line) for line, facts in enumerate(setups or (), 1)] or None
    one = _setup(engine, setup or {}) if setup is not None or not starts else starts[-1]
    return Measures(
        requests(*rows),
        tables.intervals,
        tables.events,
        one,
        starts,
        machine,
        settings=settings,
        aggregates=tables.aggregates,
    )


def _setup(engine: str, facts: dict[str, Any], line: int = 1) -> Setup:
    setup = Setup(source=SOURCE, line=line, engine=facts.get("engine", engine))
    setup.learn("log line 1", **facts)
    return setup


def complaints(module: ModuleType) -> list[str]:
    """What a rule's module has against the rules of the house, in words; empty when all is well."""
    return list(_complaints(module))


def _complaints(module: ModuleType) -> Iterator[str]:
    rule = getattr(module, "RULE", None)
    if not isinstance(rule, Rule):
        yield "it has no RULE"
        return
    if not callable(getattr(module, "check", None)):
        yield "it has no check(measures)"
    name = module.__name__.rpartition(".")[2].replace("_", "-")
    if name != rule.id:
        yield f"its id is {rule.id!r}, its file says {name!r}"
    docs = (inspect.getdoc(module) or "").splitlines()
    if [line for line in docs if line in DOC_SECTIONS] != list(DOC_SECTIONS):
        yield f"its docstring needs the sections {' '.join(DOC_SECTIONS)}"
    for remedy in rule.remedies:
        if remedy not in remedy_ids():
            yield f"no remedy is called {remedy!r}"
        elif not any("*" in switch["engines"] for switch in load(remedy)["switch"]):
            yield f"the remedy {remedy!r} says nothing for other engines"
    for threshold, said in rule.thresholds.items():
        if not (said.meaning and math.isfinite(said.value) and said.value >= 0):
            yield f"the threshold {threshold!r} needs a value from 0 up and a meaning"
