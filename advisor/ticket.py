"""A report for a ticket: the analysis, and what a maintainer asks next."""

from __future__ import annotations

import platform
import shlex
from datetime import datetime
from typing import TYPE_CHECKING, cast

import polars as pl
from pydantic import Field

from advisor import __version__
from advisor.analysis import Options, judge, measure
from advisor.apart import named_apart
from advisor.comparison import Comparison, compare
from advisor.filters import Filters
from advisor.model import Analysis, Line
from advisor.section import Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.reading import Reading
    from parsers import Tables
    from rules.measures import Measures

SLOWEST = 10
_INCIDENTS, _LINES = 12, 3
_GRAVE = ("out_of_memory", "error", "context_exceeded", "prompt_truncated", "aborted")
"""Kinds of events that a ticket tells, the gravest first."""


class SlowRequest(Section):
    """One of the slowest requests, split; columns as in the table of requests."""

    source: str
    line: int
    engine: str
    request_id: str | None
    model: str | None
    started_at: datetime | None
    finished_at: datetime | None
    prompt_tokens: int | None
    cached_tokens: int | None
    prefill_tokens: int | None
    output_tokens: int | None
    queue_ms: float | None
    load_ms: float | None
    prefill_ms: float | None
    decode_ms: float | None
    other_ms: float | None
    ttft_ms: float | None
    total_ms: float


class Incident(Section):
    """What went wrong, as the log says it: how often, and the first lines."""

    kind: str
    detail: str | None
    times: int
    lines: list[Line]


class Reproduction(Section):
    """How to get the same report: the command, its version, and the time that the log spans (UTC).

    ``clocked_logs`` of ``logs`` have a clock; of the others the time is not known.
    """

    command: str
    version: str
    python: str
    system: str
    first_at: datetime | None
    last_at: datetime | None
    logs: int
    clocked_logs: int


class Report(Analysis):
    """The analysis as a ticket needs it: the same keys, and four more.

    ``comparison`` is null without a baseline.
    """

    comparison: Comparison | None = None
    slowest: list[SlowRequest] = Field(default_factory=list)
    incidents: list[Incident] = Field(default_factory=list)
    reproduce: Reproduction

    @property
    def analysis(self) -> Analysis:
        """The analysis alone."""
        return Analysis.model_construct(**{name: getattr(self, name) for name in Analysis.model_fields})


def report(
    reading: Reading, options: Options, command: Sequence[str], baseline: Reading | None = None
) -> tuple[Report, Measures]:
    """The report, and the measures that its charts are drawn from.

    Args:
        reading: what was read.
        options: what the user asked.
        command: the words of the command line, ``phasewise`` first.
        baseline: what was read of the time before a change; times asked for don't apply to it.

    Raises:
        InputError: a filter that this log can't answer, or a model file that can't be read.
    """
    rows = measure(reading, options, once=True)
    found = judge(rows, reading, options)
    said = Report(
        **{name: getattr(found, name) for name in type(found).model_fields},
        comparison=None if baseline is None else _compared(baseline, reading, rows, options),
        slowest=_slowest(rows.generations),
        incidents=_incidents(rows.events),
        reproduce=_reproduction(rows, reading.tables, options.text(shlex.join(command))),
    )
    return said, rows


def _compared(baseline: Reading, reading: Reading, rows: Measures, options: Options) -> Comparison:
    before = measure(named_apart(baseline, reading, options.words), options.at_any_time, once=True)
    return compare(before, rows, filtered=options.filters != Filters())


def _slowest(generations: pl.DataFrame) -> list[SlowRequest]:
    known = pl.sum_horizontal("queue_ms", "load_ms", "prefill_ms", "decode_ms")
    told = pl.any_horizontal(pl.col("prefill_ms", "decode_ms").is_not_null())
    slowest = (
        generations.drop_nulls("total_ms")
        .sort("total_ms", descending=True, maintain_order=True)
        .head(SLOWEST)
        .with_columns(other_ms=pl.when(told).then((pl.col("total_ms") - known).clip(lower_bound=0.0)))
    )
    columns = list(SlowRequest.model_fields)
    return [SlowRequest.model_validate(row) for row in slowest.select(columns).iter_rows(named=True)]


def _incidents(events: pl.DataFrame) -> list[Incident]:
    """Failures and what was lost, the gravest first."""
    grave = pl.Enum(_GRAVE)
    grouped = (
        events.filter(pl.col("kind").is_in(_GRAVE))
        .with_columns(pl.col("kind").cast(grave))
        .group_by("kind", "detail", maintain_order=True)
        .agg(pl.len().alias("times"), lines=pl.struct("source", "line").head(_LINES))
        .sort("kind", "times", descending=[False, True], maintain_order=True)
        .head(_INCIDENTS)
    )
    return [Incident.model_validate(row) for row in grouped.iter_rows(named=True)]


def _reproduction(rows: Measures, read: Tables, command: str) -> Reproduction:
    times, logs = _clocks(rows)["at"], _clocks(read)
    return Reproduction(
        command=command,
        version=__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        first_at=cast("datetime | None", times.min()),
        last_at=cast("datetime | None", times.max()),
        logs=logs["source"].n_unique(),
        clocked_logs=logs.drop_nulls("at")["source"].n_unique(),
    )


def _clocks(rows: Tables | Measures) -> pl.DataFrame:
    """When each row was, and in which log."""
    return pl.concat(
        frame.select("source", at=clock)
        for frame, clock in (
            (rows.requests, "started_at"),
            (rows.requests, "finished_at"),
            (rows.intervals, "time"),
            (rows.aggregates, "time"),
        )
    )
