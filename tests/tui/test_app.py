"""The application over a session that goes on: pause, help, judging, faults."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from advisor.analysis import Options
from advisor.live.session import Session
from advisor.live.tails import TailedLog
from advisor.tui.app import PhasewiseApp
from parsers import Stream
from tests.tui.running import SAMPLES, run, session_of, text_of

if TYPE_CHECKING:
    from textual.pilot import Pilot

RAG, FOUR = "llama-server-rag.log", "llama-server-four-slots.log"


class Fed:
    """A log to which a test writes."""

    def __init__(self) -> None:
        self.name = "server.log"
        self.has_caught_up = True
        self._data = b""
        self._more = threading.Condition()

    def write(self, data: bytes) -> None:
        with self._more:
            self._data += data
            self._more.notify_all()

    def read(self, wait_s: float) -> bytes | None:
        with self._more:
            self._more.wait_for(lambda: self._data, wait_s)
            data, self._data = self._data, b""
            return data

    def notes(self) -> list[str]:
        return []

    def close(self) -> None:
        """Nothing to let go of."""


async def seen(app: PhasewiseApp, pilot: Pilot[None], text: str) -> None:
    for _ in range(200):
        if text in text_of(app):
            return
        await pilot.pause(0.05)
    raise AssertionError(f"{text!r} is not on the screen:\n{text_of(app)}")


def test_a_paused_view_keeps_reading() -> None:
    whole, log = (SAMPLES / FOUR).read_bytes(), Fed()
    cut = whole.index(b"task 9 |")
    app = PhasewiseApp(Session([TailedLog(log, Stream(log.name))], Options()))

    async def watch() -> None:
        async with app.run_test(size=(100, 30)) as pilot:
            log.write(whole[:cut])
            await seen(app, pilot, "2 requests")
            await pilot.press("p")
            await seen(app, pilot, "paused")
            log.write(whole[cut:])
            while app.session.totals.requests < 12:
                await pilot.pause(0.05)
            await pilot.press("2")
            await pilot.pause()
            assert "12 requests" not in text_of(app)
            await pilot.press("p")
            await seen(app, pilot, "12 requests")

    asyncio.run(watch())


def test_help_lists_the_keys_and_goes_away() -> None:
    async def look(app: PhasewiseApp, pilot: Pilot[None]) -> None:
        await pilot.press("question_mark")
        await seen(app, pilot, "Quit")
        assert app.screen.query("HelpPanel")
        await pilot.press("question_mark")
        assert not app.screen.query("HelpPanel")

    run([RAG], (120, 40), then=look)


def test_ctrl_c_ends_as_it_ends_any_command() -> None:
    async def press(app: PhasewiseApp, pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+c")
        assert app.return_code == 130
        app.paused = True

    assert run([RAG], keys=["2"], then=press).app.return_code == 130


def test_a_fault_is_one_sentence_without_what_variables_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(self: PhasewiseApp, *, ended: bool) -> None:
        secret = "a prompt"
        raise ZeroDivisionError(secret)

    monkeypatch.setattr(PhasewiseApp, "_ask_rules", broken)
    monkeypatch.chdir(SAMPLES)

    async def start() -> None:
        app = PhasewiseApp(session_of([RAG]))
        async with app.run_test() as pilot:
            await pilot.pause(2)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(start())
    err = capsys.readouterr().err
    assert "stopped at a fault (ZeroDivisionError, test_app.py:" in err
    assert "a prompt" not in err
