"""What a session keeps and counts: totals of everything, rows of the last, in words that may be shown."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest

from advisor.analysis import Options, analyze
from advisor.errors import InputError
from advisor.filters import Filters
from advisor.live.history import PLACED_AT
from advisor.live.session import Session
from advisor.live.tails import TailedLog
from advisor.live.view import judged, view
from advisor.reading import read
from benchmarks.logs import KINDS, write
from parsers import Stream
from parsers.records import Request
from rules.attribution import attribute
from tests.advisor.helpers import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

FOUR, OLLAMA = SAMPLES / "llama-server-four-slots.log", SAMPLES / "ollama-reload.log"


class Pieces:
    """A log in pieces, cut anywhere; ``b""`` is a moment in which nothing comes."""

    def __init__(self, name: str, pieces: list[bytes], wait_s: float = 0.0) -> None:
        self.name = name
        self.has_caught_up = False
        self._pieces = iter(pieces)
        self._wait_s = wait_s

    def read(self, wait_s: float) -> bytes | None:
        piece = next(self._pieces, None)
        time.sleep(self._wait_s)
        self.has_caught_up |= piece == b""
        return piece

    def notes(self) -> list[str]:
        return []

    def close(self) -> None:
        """Nothing to let go of."""


def torn(data: bytes, seed: int = 1) -> list[bytes]:
    chance, pieces, start = random.Random(seed), [], 0
    while start < len(data):
        size = chance.choice((1, 40, 700, 9_000))
        pieces.append(data[start : start + size])
        start += size
    return pieces


def finished(session: Session) -> Session:
    """The session, once all that it reads has ended."""
    session.start()
    while not session.ended:
        session.settle()
    session.stop()
    session.settle()
    return session


def read_all(*logs: tuple[str, list[bytes]], options: Options | None = None, **more: object) -> Session:
    tails = [TailedLog(Pieces(name, pieces), Stream(name)) for name, pieces in logs]
    session = Session(tails, options or Options(), **more)  # type: ignore[arg-type]
    return finished(session)


def test_totals_are_exact_while_old_rows_are_dropped(tmp_path: Path) -> None:
    log = tmp_path / "mixed.log"
    truth = write(log, 3_000_000, KINDS["mixed"])
    whole = read([str(log)]).tables
    session = read_all((str(log), torn(log.read_bytes())), history=1_000)
    rows, totals = session.so_far()
    assert rows["requests"].height == 1_000
    assert rows["requests"]["line"].to_list() == whole.requests["line"].tail(1_000).to_list()
    assert totals.rows["requests"] == truth.requests.height == whole.requests.height
    assert totals.rows["intervals"] == truth.intervals.height
    exact = attribute(whole.requests)
    assert totals.attribution.wall_ms == pytest.approx(exact.wall_ms, rel=1e-12)
    assert totals.attribution.phase_ms == {
        phase: ms if ms is None else pytest.approx(ms, abs=1e-6) for phase, ms in exact.phase_ms.items()
    }
    assert totals.tokens["output_tokens"] == whole.requests["output_tokens"].sum()


def test_says_what_analyze_says() -> None:
    for log in (FOUR, OLLAMA, SAMPLES / "vllm.log"):
        whole = analyze(read([str(log)]))
        found = judged(read_all((str(log), torn(log.read_bytes()))))
        assert found.analysis.model_dump() == whole.model_dump()


def test_several_sources_keep_their_setups_apart() -> None:
    session = read_all(("a.log", [FOUR.read_bytes()]), ("b.log", torn(OLLAMA.read_bytes())))
    setups = session.reading().setups
    rows, _ = session.so_far()
    for run, source in rows["requests"].select("run", "source").unique().iter_rows():
        assert setups[run].source == source


def test_what_is_watched_is_placed_by_our_clock() -> None:
    old, new = OLLAMA.read_bytes(), FOUR.read_bytes()
    began = datetime.now(UTC)
    session = read_all(("old", [old]), ("new", [new[:3_000], b"", new[3_000:]]))
    rows, _ = session.so_far()
    watched = pl.col("source") == "new"
    assert (rows["requests"].filter(watched)[PLACED_AT].drop_nulls() >= began).all()
    assert rows["requests"].filter(~watched).select((pl.col(PLACED_AT) == pl.col("finished_at")).all()).item()
    watched_requests = rows["requests"].filter(watched)[PLACED_AT].count()
    assert view(session, None).recent_requests == watched_requests == 10  # two were there before
    recent = read_all(("new", [new[:3_000], b"", new[3_000:]]), last=timedelta(minutes=1))
    assert recent.totals.requests == 10
    assert read_all(("old", [old]), last=timedelta(minutes=1)).totals.requests == 0


def test_filters_and_private_words() -> None:
    text = FOUR.read_bytes().replace(b"smollm2-135m", b"sk-abcdefgh12345678ijkl")
    session = read_all(("/home/anna/a.log", [text]), options=Options(filters=Filters(slot=2)))
    rows, totals = session.so_far()
    assert set(rows["requests"]["slot"]) == {2}
    assert totals.requests == rows["requests"].height > 0
    shown = f"{rows['requests'].to_dicts()}{session.statuses()}{judged(session).analysis.model_dump_json()}"
    assert "anna" not in shown
    assert "abcdefgh12345678" not in shown


class Broken(Pieces):
    """A source whose reader has a fault of ours."""

    def read(self, wait_s: float) -> bytes | None:
        raise ZeroDivisionError


@pytest.mark.parametrize("in_turn", [False, True])
def test_a_fault_in_one_source_ends_that_one_only(in_turn: bool) -> None:
    good = TailedLog(Pieces("good", [FOUR.read_bytes()]), Stream("good"))
    session = Session([TailedLog(Broken("bad", []), Stream("bad")), good], Options(), in_turn=in_turn)
    finished(session)
    assert session.totals.requests == 12
    assert session.problems == ["bad: reading stopped at a fault (ZeroDivisionError)."]
    assert session.said() == session.problems


class Failing(Pieces):
    """A source that can't be read to its end."""

    def read(self, wait_s: float) -> bytes | None:
        if (piece := super().read(wait_s)) is None:
            raise InputError("log: broken.")
        return piece


def test_what_a_source_told_before_it_failed_counts() -> None:
    whole = FOUR.read_bytes()
    cut = whole[: whole.rindex(b"release:")]  # the last request waits for this line
    session = Session([TailedLog(Failing("log", [cut]), Stream("log"))], Options())
    finished(session)
    assert session.totals.requests == 12
    assert session.problems == ["log: broken."]
    assert session.statuses()[0].engine == "llama-server"


def test_what_was_read_when_it_stops_is_counted() -> None:
    tail = TailedLog(Pieces("log", [FOUR.read_bytes() * 30]), Stream("log"))
    session = Session([tail], Options())
    first = tail.read(0.0)  # the log's bytes are taken, and the first of them are read
    session.stopped.set()
    session.start()
    session.stop()
    session.settle()
    told = sum(isinstance(row, Request) for row in first or ())
    assert 0 < told < 12 * 30
    assert session.totals.requests == 12 * 30 - told
    assert tail.counts.requests == 12 * 30
    assert tail.bytes == 30 * len(FOUR.read_bytes())


def test_a_clock_ahead_of_ours_places_nothing_in_a_log_that_grows() -> None:
    ahead = OLLAMA.read_bytes().replace(b"2026-", b"2036-").replace(b"2026/", b"2036/")
    rows, _ = read_all(("ahead", [ahead])).so_far()
    assert rows["requests"][PLACED_AT].null_count() == rows["requests"].height > 0
