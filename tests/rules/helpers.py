"""Inputs for the tests of rules: made rows (`rules.testing`) and real logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from parsers import Stream, Tables
from parsers.setup import Setup
from rules.measures import Measures
from rules.testing import measures, requests

if TYPE_CHECKING:
    from rules.hardware import Machine

__all__ = ["LOGS", "measures", "read", "requests"]

LOGS = Path(__file__).parents[1] / "logs"


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
