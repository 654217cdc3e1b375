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
    from collections.abc import Callable

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


class Plain:
    """Prints a session until it ends.

    Args:
        as_json: an object a line instead of words.
        until: when to stop; never, if that is not given.
    """

    def __init__(self, *, as_json: bool, until: datetime | None = None) -> None:
        self._as_json = as_json
        self._until = until
        self._out: list[tuple[str, int, str]] = []
        self._new = False

    def take(self, table: str, rows: pl.DataFrame) -> None:
        """Take the new rows of a table: what the session calls."""
        lines = self._lines(table, rows)
        places = rows.select("source", "line").iter_rows()
        self._out += [(source, line, text) for (source, line), text in zip(places, lines, strict=True)]
        self._new = True

    def _lines(self, table: str, rows: pl.DataFrame) -> list[str]:
        """Rows as lines; as JSON with the exported columns and a ``type``."""
        if self._as_json:
            kind = pl.lit(table.removesuffix("s")).alias("type")
            return json_lines(rows.select(kind, *columns(TABLES[table]))).decode().splitlines()
        return [_LINES[table](row) for row in rows.iter_rows(named=True)]

    def run(self, session: Session) -> None:
        """Print what comes until every source has ended, the time is up, or Ctrl-C."""
        session.start()
        try:
            with ThreadPoolExecutor(1) as judging:
                self._follow(session, judging)
        finally:
            session.stop()
            session.settle()
            self._write(session)
            if self._new:
                self._say(judged(session))

    def _follow(self, session: Session, judging: ThreadPoolExecutor) -> None:
        said_at_s = time.monotonic()
        verdict: Future[Judged] | None = None
        while not self._is_over(session):
            ended = session.ended
            session.settle()
            if verdict is not None and verdict.done():
                self._say(verdict.result())
                verdict = None
            self._write(session)
            if ended:
                return
            if self._new and time.monotonic() - said_at_s >= VERDICT_EVERY_S:
                said_at_s, self._new = time.monotonic(), False
                verdict = judging.submit(judged, session)
            time.sleep(_LOOK_EVERY_S)

    def _is_over(self, session: Session) -> bool:
        return session.stopped.is_set() or (self._until is not None and datetime.now(UTC) > self._until)

    def _say(self, found: Judged) -> None:
        said = found.analysis
        print(json.dumps(verdict_record(said)) if self._as_json else verdict_line(said), flush=True)

    def _write(self, session: Session) -> None:
        """Print what has come, in the order of each source's lines."""
        out, self._out = sorted(self._out), []
        if out:
            sys.stdout.write("".join(f"{text}\n" for _, _, text in out if text))
            sys.stdout.flush()
        for note in session.said():
            warn(note)
