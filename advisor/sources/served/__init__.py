"""A running engine, seen through its own addresses: `/metrics`, and what else it has open.

- `web.py` asks, bounded in time and size, without giving anything away;
- `engines.py` knows whom to ask what, and tells by the answers who it is;
- `round.py` is what came back at one moment, and what keeps us from seeing anything;
- `watch.py` makes rows of the answers, `since.py` sums that add up;
- `llama_server.py` and `ollama.py` know what only these two tell.
"""

from __future__ import annotations

import time
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime
from queue import Empty, Full, Queue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from advisor.sources.served.engines import METRICS, look
from advisor.sources.served.round import Round
from advisor.sources.served.watch import Watch
from advisor.sources.served.web import NoAnswerError, Web
from parsers.formats import FORMATS
from parsers.formats.process import Counts
from parsers.formats.prometheus.scrape import scrapers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.sources.served.web import Answer
    from parsers.formats import Format
    from parsers.records import Row
    from parsers.setup import Setups

LONGEST_WAIT_S = 5.0
"""Between two tries while nothing answers."""

BLIND_WAIT_S = 30.0
"""The same while there is an engine that tells nothing."""

_MOST_WAITING = 64
_CLOSE_S = 0.5
_KNOWN_PATHS = ("/metrics", "/props", "/slots", "/health", "/v1/models", "/v1", "/api/ps", "/api/version")


class Served:
    """Asks an engine again and again, in a thread of its own; what it has counted before is left out.

    Args:
        address: ``http://host:port``, with or without the path of its metrics.
        token: is sent to it as a bearer token.
        every_s: from one answer to the next question.
        formats: whose metrics are known.

    Attributes:
        name: the address without name and password, as rows call their source.
        engine: who answers, as far as it is known.
        bytes, lines: of answers so far, and how many times it was asked.
        counts: rows and losses so far.
        is_live: always true: what it tells has just happened.

    Raises:
        InputError: this is no address that can be asked.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        every_s: float = 0.5,
        formats: Sequence[Format] = FORMATS,
    ) -> None:
        self._web = Web(_base(address), token=token)
        self.name = self._web.name
        self.engine: str | None = None
        self.bytes = self.lines = 0
        self.counts = Counts()
        self.is_live = True
        self._every_s = every_s
        self._scrapers = scrapers(formats)
        self._watch = Watch(self.name, self._web.key)
        self._rounds: Queue[Round] = Queue(_MOST_WAITING)
        self._lock = Lock()
        self._stopped, self._look = Event(), Event()
        self._begun = self._ended = False
        self._fault = ""
        self._thread = Thread(target=self._ask, name=f"phasewise {self.name}", daemon=True)

    @property
    def setups(self) -> Setups:
        """Each start's, by the rows' ``run``: a copy that changes no more."""
        with self._lock:
            return self._watch.setups.copy()

    def read(self, wait_s: float) -> list[Row] | None:
        """The rows that have come, after ``wait_s`` seconds at most; ``None`` once it is closed."""
        if self._stopped.is_set():
            return None
        if not self._begun:
            self._begun = True
            self._thread.start()
        end_s = time.monotonic() + wait_s
        while True:
            ended = self._ended
            try:
                came = self._rounds.get(timeout=max(end_s - time.monotonic(), 0.001))
            except Empty:
                if ended:
                    return None
                if self._ended or time.monotonic() < end_s:
                    continue
                return []
            rows = self._take(came)
            if rows or self._stopped.is_set():
                return rows

    def rest(self) -> list[Row]:
        """The rows of the answers that have come already, when nothing more will be asked."""
        rows = []
        with suppress(Empty):
            while True:
                rows += self._take(self._rounds.get_nowait())
        return rows

    def _take(self, came: Round) -> list[Row]:
        with self._lock:
            rows = self._watch.take(came)
        self.engine, self.counts = self._watch.engine, copy(self._watch.counts)
        self.lines += 1
        self.bytes += sum(len(answer.body) for answer in came.answers.values())
        if self._watch.must_look:
            self._look.set()
        return rows

    def notes(self) -> list[str]:
        """What happened since this was last asked, a sentence each; each trouble once until it changes."""
        fault, self._fault = self._fault, ""
        return [*self._watch.notes(), *([fault] if fault else [])]

    def close(self) -> None:
        """Stop asking."""
        self._stopped.set()
        self._web.cut()
        if self._begun:
            self._thread.join(_CLOSE_S)

    def _ask(self) -> None:
        """Ask until it is closed. A fault of ours is told: a thread that dies unseen looks like silence."""
        try:
            self._ask_on()
        except Exception as error:
            self._fault = (
                f"{self.name}: asking it broke off by a fault of phasewise ({type(error).__name__})."
            )
        finally:
            self._ended = True
            self._web.close()

    def _ask_on(self) -> None:
        wait_s = 0.0
        paths: tuple[str, ...] = ()
        while not self._stopped.wait(wait_s):
            if self._look.is_set():
                self._look.clear()
                paths = ()
            came, paths = self._round(paths)
            self._put(came)
            wait_s = self._wait_s(wait_s, came, paths)

    def _wait_s(self, before_s: float, came: Round, paths: tuple[str, ...]) -> float:
        """How long to wait until the next question."""
        if paths:
            return self._every_s
        if came.looked is not None and came.looked.engine is not None:
            return BLIND_WAIT_S
        return min(max(2 * before_s, self._every_s), LONGEST_WAIT_S)

    def _round(self, paths: tuple[str, ...]) -> tuple[Round, tuple[str, ...]]:
        """Ask once, and say what to ask next time: nothing where it must be found out anew who answers.

        The clock is that of the first answer that will be asked for again.
        """
        came: dict[str, tuple[datetime, float]] = {}

        def get(path: str) -> Answer:
            answer = self._web.get(path)
            came[path] = _now()
            return answer

        try:
            if paths:
                answers = {path: get(path) for path in paths}
                return Round(*came[paths[0]], answers), paths
            looked = look(get, self._scrapers)
        except NoAnswerError as error:
            return Round(*_now(), {}, trouble=str(error)), ()
        polled = looked.engine.polled if looked.engine is not None else ()
        is_open = tuple(path for path in polled if looked.answers[path].status == 200)
        return Round(*came[is_open[0] if is_open else METRICS], looked.answers, looked), is_open

    def _put(self, came: Round) -> None:
        """Hand over, as soon as there is room: whoever reads slowly is asked for less often."""
        while not self._stopped.is_set():
            try:
                self._rounds.put(came, timeout=_CLOSE_S)
            except Full:
                continue
            return


def _now() -> tuple[datetime, float]:
    return datetime.now(UTC), time.monotonic()


def _base(address: str) -> str:
    """The address that all paths are under."""
    bare = address.rstrip("/")
    return next((bare.removesuffix(path) for path in _KNOWN_PATHS if bare.endswith(path)), bare)
