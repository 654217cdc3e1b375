"""What-if: fixes are ticked, and the bars and times change at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from advisor.tui.what_if.checklist import Checklist
from advisor.tui.what_if.pane import WhatIfPane
from rules.words import percent
from tests.tui.running import LARGE, SMALL, run, text_of
from tests.tui.test_findings import RAG, pane_of, written

if TYPE_CHECKING:
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion
    from textual.pilot import Pilot

    from advisor.tui.app import PhasewiseApp


def test_a_fix_is_ticked_and_unticked(snapshot: SnapshotAssertion) -> None:
    async def then(app: PhasewiseApp, pilot: Pilot[None]) -> None:
        app.query_one(WhatIfPane).focus_main()
        await pilot.pause()
        untouched = text_of(app)
        assert "[ ] Retrieve 5 chunks" in untouched
        await pilot.press("space")
        ticked = text_of(app)
        assert pane_of(ticked) == snapshot
        await pilot.press("enter")
        assert text_of(app) == untouched
        await pilot.press("a")
        assert text_of(app) == ticked

    run([RAG], SMALL, ["4"], then=then)


def test_several_together(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    async def then(app: PhasewiseApp, pilot: Pilot[None]) -> None:
        pane, checklist = app.query_one(WhatIfPane), app.query_one(Checklist)
        pane.focus_main()
        await pilot.press("down", "space")
        chosen = checklist.chosen
        assert [name.rpartition("/")[2] for name in chosen] == ["cache-evicted"]
        app._unjudged = True
        app._judging_pace._next_at_s = 0.0
        app._looked_at_s = -math.inf
        app._tick()
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert checklist.chosen == chosen
        assert checklist.highlighted == 1
        await pilot.press("a")

    shown = run(written("D01", tmp_path), LARGE, ["4"], folder=tmp_path, then=then)
    assert pane_of(shown.text) == snapshot


def test_several_engines_are_told_apart_and_shares_are_of_all_their_time() -> None:
    names = ["llama-server-rag.log", "ollama-reload.log", "vllm.log"]
    shown = run(names, LARGE, ["4"])
    found = shown.app.view and shown.app.view.judged
    assert found
    whole = {finding.rule: finding.saving for finding in found.analysis.findings if finding.saving}
    assert f"saves about 37.0 s ({percent(whole['reload-each-request'].share)})" in shown.text
    for name in ("llama-server", "vllm"):
        assert f" -  {name}: Everything runs on the CPU" in shown.text
