"""Runs the application headless over finished logs, and tells what its screen shows."""

from __future__ import annotations

import asyncio
import math
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.analysis import Options
from advisor.live.session import Session
from advisor.live.tails import TailedLog
from advisor.sources.files import Input
from advisor.sources.finished import Finished
from advisor.tui.app import PhasewiseApp
from parsers import SourceReader, Stream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from textual.app import App
    from textual.pilot import Pilot

    Then = Callable[[PhasewiseApp, Pilot[None]], Awaitable[None]]

SMALL, LARGE = (80, 24), (140, 44)
SAMPLES = Path(__file__).parents[2] / "sample_logs"

_STEP_S, _MOST_STEPS = 0.02, 1500


@dataclass(frozen=True, slots=True)
class Shown:
    """An application that has run.

    Attributes:
        text: what its terminal showed last, line by line, without blanks at the ends of lines.
        app: stopped by now; what it held is there still.
    """

    text: str
    app: PhasewiseApp


def run(
    names: Sequence[str],
    size: tuple[int, int] = SMALL,
    keys: Sequence[str] = (),
    *,
    folder: Path = SAMPLES,
    options: Options | None = None,
    then: Then | None = None,
) -> Shown:
    """Read these logs to their ends, judge them, press keys, and look.

    Args:
        names: of finished logs in the folder, as the screen will name them.
        size: columns and lines of the terminal.
        keys: pressed one after another; the screen settles after each.
        folder: where the application runs.
        options: of the session.
        then: what to do after the keys and before the last look; it may assert.
    """
    with chdir(folder):
        return asyncio.run(_run(session_of(names, options), size, keys, then))


def session_of(names: Sequence[str], options: Options | None = None) -> Session:
    """A session over finished logs, not started yet."""
    tails = [TailedLog(Finished(Input(name)), SourceReader(Stream(name)), grows=False) for name in names]
    return Session(tails, options or Options(), history=1_000_000, in_turn=True)


def text_of(app: App[None]) -> str:
    """What the terminal shows now, line by line, without blanks at the ends of lines."""
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in line).rstrip() for line in lines)


async def settled(app: PhasewiseApp, pilot: Pilot[None]) -> None:
    """Wait until all sources have ended, the rules have judged all rows, and the screen shows it."""
    for _ in range(_MOST_STEPS):
        if app.session.ended and not app._judging:
            app._judging_pace._next_at_s = 0.0
            app._looked_at_s = -math.inf
            app._tick()
            if app._judged and not app._unjudged and not app._judging:
                break
        await pilot.pause(_STEP_S)
    else:
        raise AssertionError("the application did not settle")
    await drawn(app, pilot)


async def drawn(app: PhasewiseApp, pilot: Pilot[None]) -> None:
    """Wait until workers are done and the screen shows what there is now."""
    await app.workers.wait_for_complete()
    app.draw()
    await pilot.pause()


async def _run(session: Session, size: tuple[int, int], keys: Sequence[str], then: Then | None) -> Shown:
    app = PhasewiseApp(session)
    async with app.run_test(size=size) as pilot:
        await settled(app, pilot)
        for key in keys:
            await pilot.press(key)
            await drawn(app, pilot)
        if then is not None:
            await then(app, pilot)
            await drawn(app, pilot)
        shown = Shown(text_of(app), app)
        app.paused = True
        return shown
