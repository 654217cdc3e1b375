"""A session as lines: each request as it ends, and the verdict once a minute."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from advisor.command import warn
from advisor.export import json_lines
from advisor.live.lines import (
    event_line,
    interval_line,
    request_line,
    sums_line,
    verdict_line,
    verdict_record,
)
from advisor.live.view import judged
from parsers.records import TABLES, columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from advisor.live.session import Session
    from advisor.live.view import Judged

VERDICT_EVERY_S = 60.0
_LOOK_EVERY_S = 0.5
_LINES: dict[str, Callable[[dict[str, Any]], str]] = {
    "requests": request_line,
    "intervals": interval_line,
    "events": event_line,
    "aggregates": sums_line,
}


class Printer:
    """Prints a session until it ends.

    Args:
        session: not started yet.
        as_json: an object a line instead of words.
        until: when to stop; never, if that is not given.
    """

    def __init__(self, session: Session, *, as_json: bool, until: datetime | None = None) -> None:
        self._session = session
        self._as_json = as_json
        self._until = until
        self._unjudged = False

    def run(self) -> None:
        """Print what comes until every source has ended, the time is up, or Ctrl-C; last the verdict."""
        self._session.start()
        try:
            self._follow()
        finally:
            self._session.stop()
            self._print_new()
            if self._unjudged:
                self._print_verdict(judged(self._session))

    def _follow(self) -> None:
        said_at_s = time.monotonic()
        verdict: Future[Judged] | None = None
        with ThreadPoolExecutor(1) as judging:
            try:
                while not self._is_over():
                    ended = self._session.ended
                    self._print_new()
                    if verdict is not None and (ended or verdict.done()):
                        self._print_verdict(verdict.result())
                        verdict = None
                    if ended:
                        return
                    if self._unjudged and not verdict and time.monotonic() - said_at_s >= VERDICT_EVERY_S:
                        said_at_s, self._unjudged = time.monotonic(), False
                        verdict = judging.submit(judged, self._session)
                    time.sleep(_LOOK_EVERY_S)
            finally:
                self._unjudged |= verdict is not None

    def _is_over(self) -> bool:
        """Whether the time is up, and all that was there before has been read."""
        if self._until is None or datetime.now(UTC) <= self._until:
            return False
        return all(status.is_live or status.ended for status in self._session.statuses())

    def _print_new(self) -> None:
        """Print what has come, in the order of each source's lines."""
        new = self._session.settle()
        self._unjudged |= bool(new)
        said = [one for table, rows in new for one in self._said(table, rows)]
        if said:
            sys.stdout.write("".join(f"{text}\n" for _, _, text in sorted(said) if text))
            sys.stdout.flush()
        for note in self._session.said():
            warn(note)

    def _said(self, table: str, rows: pl.DataFrame) -> Iterator[tuple[str, int, str]]:
        """Each row's source, line, and text: JSON has the exported columns and a ``type``."""
        places = rows.select("source", "line").iter_rows()
        if self._as_json:
            kind = pl.lit(table.removesuffix("s")).alias("type")
            texts = json_lines(rows.select(kind, *columns(TABLES[table]))).decode().splitlines()
        else:
            texts = [_LINES[table](row) for row in rows.iter_rows(named=True)]
        for (source, line), text in zip(places, texts, strict=True):
            yield source, line, text

    def _print_verdict(self, found: Judged) -> None:
        print(json.dumps(verdict_record(found)) if self._as_json else verdict_line(found), flush=True)
