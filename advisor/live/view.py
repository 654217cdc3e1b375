"""What a screen draws: one moment of a session, which changes no more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl

from advisor.analysis import diagnosed, measure, told
from advisor.live.history import PLACED_AT
from rules.attribution import attribute

if TYPE_CHECKING:
    from advisor.diagnosis import Diagnosis
    from advisor.live.session import Session, Status
    from advisor.live.totals import Totals
    from advisor.model import Analysis
    from rules.attribution import Attribution
    from rules.measures import Measures

RECENT = timedelta(minutes=5)
"""What a screen calls the last minutes."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What the rules say of the rows that are kept.

    Attributes:
        analysis: as any report would say it.
        diagnosis: the findings with the changes that they are priced by.
        measures: what they were asked about.
        kept: how many requests were kept then.
        read: how many had been read by then, those no longer kept included.
    """

    analysis: Analysis
    diagnosis: Diagnosis
    measures: Measures
    kept: int
    read: int


@dataclass(frozen=True, slots=True)
class View:
    """One moment.

    Attributes:
        requests, intervals, events, aggregates: the rows that are kept, the oldest first; text may be shown
            as it is. Requests have `advisor.report.rows.DERIVED` too, and all have `PLACED_AT`.
        totals: of everything that was read, rows no longer kept included.
        recent: where the time of the last minutes' requests went.
        recent_requests: how many those are.
        recent_unplaced: requests of which no clock tells whether they are among them.
        recent_cut: some of those are no longer kept.
        now: the end of those minutes: the present, or when a finished log ends; null without a clock.
        statuses: how far each source has been read.
        judged: what the rules said last, maybe of some rows less; ``None`` before they were asked.
        ended: all sources have come to their end.
    """

    requests: pl.DataFrame
    intervals: pl.DataFrame
    events: pl.DataFrame
    aggregates: pl.DataFrame
    totals: Totals
    recent: Attribution
    recent_requests: int
    recent_unplaced: int
    recent_cut: bool
    now: datetime | None
    statuses: list[Status]
    judged: Judged | None
    ended: bool


def view(session: Session, judged: Judged | None) -> View:
    """The session as it is now."""
    frames, totals = session.so_far()
    ended = session.ended
    now = _end(frames) if ended else datetime.now(UTC)
    requests = frames["requests"]
    generations = requests.filter(pl.col("kind") == "generation")
    placed = generations[PLACED_AT]
    recent = generations.filter(placed > now - RECENT) if now else generations.clear()
    dropped = totals.rows["requests"] > requests.height
    return View(
        **frames,
        totals=totals,
        recent=attribute(recent),
        recent_requests=recent.height,
        recent_unplaced=placed.null_count(),
        recent_cut=dropped and recent.height == generations.height - placed.null_count() > 0,
        now=now,
        statuses=session.statuses(),
        judged=judged,
        ended=ended,
    )


def _end(frames: dict[str, pl.DataFrame]) -> datetime | None:
    ends = [frame[PLACED_AT].max() for frame in frames.values()]
    return max((end for end in ends if isinstance(end, datetime)), default=None)


def judged(session: Session) -> Judged:
    """Ask the rules about the rows that are kept; takes seconds where they are many."""
    reading = session.reading()
    kept, read = reading.tables.requests.height, session.totals.rows["requests"]
    options = session.options.at_any_time
    measures = measure(reading, options, once=session.ended)
    diagnosis = diagnosed(measures, reading, options)
    analysis = told(diagnosis, measures, reading, options)
    return Judged(analysis, diagnosis, measures, kept, max(kept, read))
