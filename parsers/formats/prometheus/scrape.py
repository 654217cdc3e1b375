"""One answer of a `/metrics` address, which is a snapshot by itself."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from parsers.formats.base import At, number
from parsers.formats.prometheus.reader import MAX_SERIES, PrometheusReader, parsed
from parsers.formats.prometheus.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from parsers.formats.base import Format
    from parsers.formats.prometheus.names import Names

_PROCESS_START = re.compile(rb"^process_start_time_seconds(?:\{.*\})?[ \t]+([\d.eE+]+)\s*$", re.MULTILINE)
"""What Prometheus clients of several languages say of their own process."""


class Scraper:
    """Reads the answers of one engine.

    Args:
        fmt: a format of Prometheus text.
        names: what the engine calls its numbers.

    Attributes:
        names: the same.
        impossible: how many numbers there were that can't be.
    """

    def __init__(self, fmt: Format, names: Names) -> None:
        self.names = names
        self.impossible = 0
        self._identify = fmt.identify
        self._lines = [(entry.needle, entry.pattern) for entry in fmt.lines]
        self._parts = names.parts()

    def knows(self, body: bytes) -> bool:
        """Whether this is an answer of the engine."""
        return any(word in body for word in self._identify)

    def read(self, body: bytes, which: int, time: datetime) -> Snapshot | None:
        """The numbers of an answer, none before the engine has counted anything; ``None`` for too many.

        Args:
            body: the answer.
            which: which answer it is.
            time: when it was given.
        """
        now = Snapshot(At(which, 0, time, b"", which), time)
        for text in body.split(b"\n"):
            self._line(now, text)
        if len(now.seen) > MAX_SERIES:
            return None
        start = _PROCESS_START.search(body)
        if start is not None and (value := number(start[1])) is not None:
            now.created[hash("process_start_time_seconds")] = value
        now.keep_only(self.names.core)
        return now

    def _line(self, now: Snapshot, text: bytes) -> None:
        for needle, pattern in self._lines:
            if text.startswith(needle) and (found := pattern.match(text)) is not None:
                part = self._parts.get(found["name"].decode())
                if part is None:
                    return
                try:
                    sample = parsed(found["sample"].decode("utf-8", "replace"))
                    series = hash((sample.name, frozenset(sample.labels.items())))
                    if "quantile" not in sample.labels and series not in now.seen:
                        now.seen.add(series)
                        self.impossible += not now.take(self.names, part, series, sample)
                except (ValueError, ArithmeticError):
                    self.impossible += 1
                return


def scrapers(formats: Iterable[Format]) -> list[Scraper]:
    """One for each of these formats that is Prometheus text."""
    readers = ((fmt, fmt.reader) for fmt in formats if isinstance(fmt.reader, partial))
    return [Scraper(fmt, made.keywords["names"]) for fmt, made in readers if made.func is PrometheusReader]
