"""Reads the Prometheus text of any engine: gathers a snapshot's series, and rows when it ends.

A source may hold several snapshots one after the other, as a loop of scrapes writes them. One ends where a
series comes again. Each is a row of sums since the engine started; two of the same process also give what
was added between them. Counters that begin anew are a new process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import Reader
from parsers.formats.clocks import at_epoch
from parsers.formats.prometheus.rows import aggregate, counted, has_sums, state, times_by_request
from parsers.formats.prometheus.snapshot import Snapshot

if TYPE_CHECKING:
    import re
    from datetime import datetime

    from prometheus_client.samples import Sample

    from parsers.formats.base import At
    from parsers.formats.process import Process
    from parsers.formats.prometheus.names import Names
    from parsers.records import Aggregate, Interval

MAX_SERIES = 100_000
"""Gateways have a series for each key and user; a snapshot with more is left out whole."""


class PrometheusReader(Reader):
    """Gathers one engine's series."""

    def __init__(self, process: Process, names: Names) -> None:
        super().__init__(process)
        self._names = names
        self._parts = names.parts()
        self._now: Snapshot | None = None
        self._last: Snapshot | None = None
        self._run = -1

    def sample(self, m: re.Match[bytes], at: At) -> None:
        """``vllm:prompt_tokens_total{engine="0",model_name="m"} 12953.0``, maybe with a time in ms."""
        part = self._parts.get(m["name"].decode())
        if part is None:
            return
        sample = parsed(m["sample"].decode("utf-8", "replace"))
        if "quantile" in sample.labels:  # of a summary: neither sum nor state
            return
        series = hash((sample.name, frozenset(sample.labels.items())))
        if self._now is not None and series in self._now.seen:
            self._end()
        if self._now is None:
            self._now = Snapshot(at)
        if len(self._now.seen) <= MAX_SERIES:
            self._now.seen.add(series)
            self._now.time = self._now.time or _time_of(sample) or at.time
            self.process.counts.impossible_values += not self._now.take(self._names, part, series, sample)

    def flush(self) -> None:
        """What came so far is a snapshot: nothing follows it for now."""
        self._end()

    def close(self) -> None:
        """The last snapshot ends with the source."""
        self._end()

    def _end(self) -> None:
        now, self._now = self._now, None
        if now is None or not now.models or len(now.seen) > MAX_SERIES:
            return
        now.keep_only(self._names.core)
        last = self._last if self._run == self.process.run else None
        if last is not None and now.restarted_since(last):
            self.process.restart(now.at)
            last = None
        self._learn(now)
        for model, numbers in now.models.items():
            by_request = times_by_request(numbers, self._names)
            row = aggregate(numbers, self._names, by_request=by_request)
            row.since = _start_of(now)
            if has_sums(row):
                self._emit(now, model, row, span_ms=_span_ms(row.since, now.time))
            if last is not None and model in last.models:
                row = aggregate(numbers.minus(last.models[model]), self._names, by_request=by_request)
                row.kind = "between"
                if has_sums(row):
                    self._emit(now, model, row, span_ms=_span_ms(last.time, now.time))
            if (seen := state(numbers, self._names)) is not None:
                self._place(now, seen)
        self._count(now, last)
        self._last, self._run = now, self.process.run

    def _learn(self, now: Snapshot) -> None:
        names = [model for model in now.models if model is not None]
        model = names[0] if len(names) == 1 and self.process.setup.model is None else None
        self.process.learn(now.at, engine=self._names.engine, model=model, **now.facts)

    def _emit(self, now: Snapshot, model: str | None, row: Aggregate, span_ms: float | None) -> None:
        row.model, row.span_ms = model, span_ms
        self._place(now, row)

    def _place(self, now: Snapshot, row: Aggregate | Interval) -> None:
        row.line, row.time = now.at.number, now.time
        self.process.emit(row)

    def _count(self, now: Snapshot, last: Snapshot | None) -> None:
        """Count the requests without times that the last snapshot did not have yet."""
        counts = self.process.counts
        for snapshot, sign in ((now, 1), (last, -1)):
            for numbers in snapshot.models.values() if snapshot is not None else ():
                counts.aborted_requests += sign * counted(numbers, self._names.aborted)
                counts.failed_requests += sign * counted(numbers, self._names.failed)


def parsed(line: str) -> Sample:
    """The sample of a line.

    Raises:
        ValueError: it is none.
    """
    from prometheus_client.parser import text_string_to_metric_families

    for family in text_string_to_metric_families(line):
        for sample in family.samples:
            return sample
    raise ValueError(line)


def _time_of(sample: Sample) -> datetime | None:
    return at_epoch(float(sample.timestamp)) if sample.timestamp else None


def _start_of(now: Snapshot) -> datetime | None:
    """Since when the oldest of its series counts."""
    return at_epoch(min(now.created.values())) if now.created else None


def _span_ms(start: datetime | None, end: datetime | None) -> float | None:
    if start is None or end is None or end < start:
        return None
    return (end - start).total_seconds() * 1000
