"""Inputs for the tests of rules: rows as an engine would log them, and the measures over them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from parsers import Stream, Tables
from parsers.records import Event, Interval, Request
from parsers.setup import Setup
from rules.attribution import PHASES
from rules.measures import Machine, Measures

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl

LOGS = Path(__file__).parents[1] / "logs"


def requests(*rows: dict[str, Any]) -> pl.DataFrame:
    """Request rows: one line each, totals as the sum of the phases, evaluated tokens by arithmetic."""
    tables = Tables()
    tables.extend(_request(number, row) for number, row in enumerate(rows, 1))
    return tables.requests


def _request(line: int, row: dict[str, Any]) -> Request:
    given: dict[str, Any] = {"source": "engine.log", "engine": "llama-server", "line": line, **row}
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
    machine: Machine | None = None,
) -> Measures:
    """Measures over made rows; ``setup`` and ``setups`` are facts, as if log line 1 stated them."""
    engine = next((row["engine"] for row in rows if "engine" in row), "llama-server")
    tables = Tables()
    tables.extend(Event(**{"source": "engine.log", "engine": engine, **event}) for event in events)
    tables.extend(Interval(**{"source": "engine.log", "engine": engine, **row}) for row in intervals)
    starts = [_setup(engine, facts) for facts in setups] if setups is not None else None
    one = _setup(engine, setup or {}) if setup is not None or not starts else starts[-1]
    return Measures(requests(*rows), tables.intervals, tables.events, one, starts, machine)


def _setup(engine: str, facts: dict[str, Any]) -> Setup:
    setup = Setup(source="engine.log", engine=facts.get("engine", engine))
    setup.learn("log line 1", **facts)
    return setup


def read(log: str, machine: Machine | None = None) -> Measures:
    """Measures over a real log, named by its folder under ``tests/logs``."""
    path = LOGS / log / "server.log"
    stream = Stream(str(path), year=2026)
    tables = Tables()
    tables.extend(stream.feed(path.read_bytes()))
    tables.extend(stream.close())
    starts = stream.setups or [Setup()]
    return Measures(
        tables.requests, tables.intervals, tables.events, starts[-1], starts, machine, stream.counts
    )
