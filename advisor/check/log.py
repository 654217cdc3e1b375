"""What a limit is measured on, and what comes out: a number, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.model import Line
from rules.caveats.log_hides_timings import switch
from rules.remedies import has_switch

if TYPE_CHECKING:
    import polars as pl

    from advisor.model import Analysis
    from rules.measures import Measures

QUANTILES = {"p5": 0.05, "p10": 0.10, "p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99, "max": 1.0}
_LOG_MORE = "log-more"


@dataclass(frozen=True, slots=True)
class Measured:
    """A number; ``None`` where the log can't tell, with the reason.

    Attributes:
        value: in the limit's unit.
        most: what it may be at most, where a part is not known; else the value itself.
    """

    value: float | None
    n: int | None = None
    of: int | None = None
    line: Line | None = None
    notes: tuple[str, ...] = ()
    reason: str | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Log:
    """What was read: measures, what the rules say of them, and whether filters left rows out."""

    measures: Measures
    analysis: Analysis
    filtered: bool

    def caveat(self, *ids: str) -> str | None:
        """The first of these caveats that the analysis has."""
        texts = {caveat.id: caveat.text for caveat in self.analysis.caveats}
        return next((texts[one] for one in ids if one in texts), None)


THE = {
    "ttft": "the time to first token",
    "tpot": "the time per output token",
    "total": "what whole requests took",
    "queue": "the time in the queue",
    "other": "where its time goes",
}


def not_told(log: Log, what: str) -> str:
    """Why the log has none of it, and what to switch on."""
    m = log.measures
    if not (m.requests.height or m.intervals.height or m.aggregates.height) and log.filtered:
        return log.analysis.verdict.sentence
    if not m.attribution.split and (text := log.caveat("log-hides-timings")):
        return text
    if not m.generations.height:
        return log.caveat("interval-lines", "embedding-requests") or log.analysis.verdict.sentence
    said = f"No request in this log tells {what}."
    if not m.attribution.split and has_switch(_LOG_MORE, m.engine):
        return f"{said} Switch on {switch(m, _LOG_MORE)}."
    if what == THE["queue"] and m.engine == "llama-server":
        return f"{said} llama-server logs none; its clients know, and --metrics shows how many wait."
    return said


def quantile(values: pl.Series, stat: str) -> float | None:
    """``p95`` or another of `QUANTILES`, as everywhere between the two nearest values."""
    return values.quantile(QUANTILES[stat], interpolation="linear")


def number(value: object) -> float | None:
    """What polars gives for a figure."""
    return float(value) if isinstance(value, int | float) else None


def line_of(rows: pl.DataFrame) -> Line | None:
    """Where the first of these rows stands."""
    if not rows.height:
        return None
    return Line(source=rows["source"][0], line=rows["line"][0])
