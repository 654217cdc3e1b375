"""Whatever stands in a log, it does not change the terminal, no line of the screen is longer than the screen,
and nothing private is on it: on no tab, in no request, and in no line of `tail --plain`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from tests.advisor.attacks import ATTACKS, SECRETS
from tests.advisor.helpers import phasewise
from tests.advisor.test_attacks import LOGS
from tests.advisor.test_hostile import unsafe
from tests.tui.running import SMALL, drawn, run, text_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from textual.pilot import Pilot

    from advisor.tui.app import PhasewiseApp

HOSTILE = " ".join([*ATTACKS.values(), *SECRETS])


@pytest.mark.parametrize("log", LOGS)
def test_no_screen_acts_on_what_a_log_says(log: Callable[[str], str], tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(log(HOSTILE), "utf-8")
    screens: list[str] = []

    async def look(app: PhasewiseApp, pilot: Pilot[None]) -> None:
        for keys in (["1"], ["2"], ["enter"], ["escape", "3"], ["down"], ["4"], ["space"], ["5"], ["end"]):
            await pilot.press(*keys)
            await drawn(app, pilot)
            screens.append(text_of(app))

    run(["server.log"], SMALL, folder=tmp_path, then=look)
    for screen in screens:
        assert max(map(cell_len, screen.splitlines())) <= SMALL[0]
    shown = "\n".join(screens)
    assert unsafe(shown) == set()
    assert [secret for secret in SECRETS.values() if secret in shown] == []


@pytest.mark.parametrize("log", LOGS)
def test_lines(log: Callable[[str], str]) -> None:
    said = log(HOSTILE).encode("utf-8", "replace")
    for form in ("text", "json"):
        ran = phasewise("tail", "-", "--format", form, stdin=said)
        assert (ran.status, unsafe(ran.out + ran.err)) == (0, set())
        assert [secret for secret in SECRETS.values() if secret in ran.out] == []


def test_a_line_of_a_megabyte(tmp_path: Path) -> None:
    log = LOGS[0]("x" * 1_000_000)
    (tmp_path / "server.log").write_text(log, "utf-8")
    shown = run(["server.log"], SMALL, ["2", "enter"], folder=tmp_path)
    assert max(map(cell_len, shown.text.splitlines())) <= SMALL[0]
