"""The pictures of the screens in the README and the manual.

Write them anew with ``python -m tests.tui.pictures``.
"""

from __future__ import annotations

import asyncio
from contextlib import chdir
from typing import TYPE_CHECKING

from advisor.report.terminal import without_web_font
from advisor.tui.app import PhasewiseApp
from tests.advisor.helpers import ROOT
from tests.tui.running import SAMPLES, drawn, session_of, settled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

IMAGES = ROOT / "docs" / "images"
SIZE = (120, 36)
PICTURES = {
    "tui-overview": ("ollama-reload.log", ()),
    "tui-request": ("llama-server-four-slots.log", ("2", "end", "up", "up", "up", "enter")),
    "tui-what-if": ("llama-server-rag.log", ("4", "space")),
}


def write(folder: Path = IMAGES) -> None:
    """Write every picture."""
    for name, (log, keys) in PICTURES.items():
        with chdir(SAMPLES):
            picture = asyncio.run(_picture(log, keys))
        (folder / f"{name}.svg").write_text(without_web_font(picture), "utf-8")


async def _picture(log: str, keys: Sequence[str]) -> str:
    app = PhasewiseApp(session_of([log]))
    async with app.run_test(size=SIZE) as pilot:
        await settled(app, pilot)
        for key in keys:
            await pilot.press(key)
            await drawn(app, pilot)
        await pilot.pause(0.5)
        return app.export_screenshot(title="phasewise")


if __name__ == "__main__":
    write()
