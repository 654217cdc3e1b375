"""Findings, setup and the report: what they show at two sizes, and what their keys do."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len
from textual.widgets import Button, Input, Static

from advisor.errors import InputError
from advisor.tui.findings.finding import UNTOLD, FindingView
from advisor.tui.findings.listing import FindingList
from advisor.tui.findings.pane import FindingsPane
from advisor.tui.names import named
from advisor.tui.report_dialog import ReportDialog, place, proposed
from advisor.tui.setup.pane import note_of
from advisor.tui.setup.process_starts import MOST, rows
from tests.diagnosis.cases import CASES
from tests.rules.helpers import measures
from tests.tui.running import LARGE, SAMPLES, SMALL, drawn, run, text_of

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion
    from textual.pilot import Pilot

    from advisor.tui.app import PhasewiseApp

RAG, RELOADS, WINDOWS = "llama-server-rag.log", "ollama-reload.log", "vllm.log"


def pane_of(text: str) -> str:
    """The screen without the line on top, the tabs and the keys."""
    return "\n".join(text.splitlines()[3:-1])


async def exists(name: str) -> bool:
    """Wait until a file is there, for some seconds at most."""
    for _ in range(200):
        if Path(name).exists():
            return True
        await asyncio.sleep(0.02)
    return False


def written(case: str, folder: Path) -> list[str]:
    """The logs of a case of the diagnosis, as files."""
    (files,) = (one.files() for one in CASES if one.id == case)
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    return list(files)


def test_one_finding_and_its_fixes(snapshot: SnapshotAssertion) -> None:
    async def then(app: PhasewiseApp, pilot: Pilot[None]) -> None:
        assert pane_of(text_of(app)) == snapshot(name="small")
        pane, listed = app.query_one(FindingsPane), app.query_one(FindingList)
        pane.focus_main()
        await pilot.press("c")
        assert app.clipboard == "top_k = 5"
        await pilot.press("enter", "tab", "tab", "enter")
        assert app.clipboard.startswith("fixed text first")
        await pilot.press("tab", "c")
        assert app.clipboard.startswith("drop or summarise")

        await pilot.press("escape", "down", "up")
        pane.choose("nowhere")
        assert (listed.has_focus, listed.highlighted) == (True, 0)
        assert len(app.query_one(FindingView).fixes) == 3
        pane.choose("cpu-only")
        await drawn(app, pilot)
        assert "decode, possible; 9 requests; cpu-only" in text_of(app)
        view = app.view
        assert view is not None
        assert view.judged is not None
        analysis = view.judged.analysis
        turned = analysis.model_copy(update={"findings": analysis.findings[::-1]})
        pane.show(replace(view, judged=replace(view.judged, analysis=turned)))
        await pilot.pause()
        assert (listed.chosen, listed.highlighted) == ("cpu-only", 0)

        assert len(named(analysis.model_copy(update={"findings": analysis.findings * 2}))) == 4

        pane.focus_main()
        await pilot.press("end")
        assert listed.chosen == UNTOLD
        assert app.query_one(FindingView).fixes == []
        await pilot.press("c")
        assert app.clipboard.startswith("drop or summarise")
        await pilot.resize_terminal(*LARGE)

    last = run([RAG], SMALL, ["3"], then=then)
    assert pane_of(last.text) == snapshot(name="untold")


def test_several_savings_are_recomputed_together(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    shown = run(written("D01", tmp_path), LARGE, ["3"], folder=tmp_path)
    assert pane_of(shown.text) == snapshot


def test_a_log_of_windows(snapshot: SnapshotAssertion) -> None:
    async def then(app: PhasewiseApp, pilot: Pilot[None]) -> None:
        for key in "345":
            await pilot.press(key)
            await drawn(app, pilot)
            assert pane_of(text_of(app)) == snapshot(name=key)

    run([WINDOWS], (80, 34), then=then)


def test_where_each_fact_is_from(snapshot: SnapshotAssertion) -> None:
    async def then(app: PhasewiseApp, pilot: Pilot[None]) -> None:
        assert pane_of(text_of(app)) == snapshot(name="small")
        await pilot.resize_terminal(*LARGE)

    assert pane_of(run([RELOADS, WINDOWS], (80, 90), ["5"], then=then).text) == snapshot(name="large")


def test_a_note_names_its_source_once() -> None:
    assert note_of("a.log", "a.log: no such file yet.") == "a.log: no such file yet."
    assert note_of("a.log", "It was emptied.") == "a.log: It was emptied."


def test_process_starts() -> None:
    runs = [0] * 3 + [1] * 5 + [2]
    setups = [{"model": "m.gguf", "context": n} for n in (4096, 8192, 4096)]
    m = measures([{"run": run, "prefill_ms": 1.0} for run in runs], setups=setups)
    assert rows(m) == [
        ("start", "what differs", "requests"),
        ("line 3 (shown)", "context 4,096", "1"),
        ("line 2", "context 8,192", "5"),
        ("line 1", "context 4,096", "3"),
    ]
    many = measures([{"run": 7, "prefill_ms": 1.0}], setups=[{"context": 4096}] * 40)
    assert len(told := rows(many)) == MOST + 2
    assert told[-1] == (f"{40 - MOST} more", "", "0")
    assert rows(measures([{"prefill_ms": 1.0}], setup={"context": 4096})) == []


def test_names_are_no_markup_and_break_nothing(tmp_path: Path) -> None:
    name = "[b]日本語 [@click=app.quit]" + "x" * 90 + ".log"
    (tmp_path / name).write_bytes((SAMPLES / RAG).read_bytes())

    async def then(app: PhasewiseApp, pilot: Pilot[None]) -> None:
        for key in "35":
            await pilot.press(key)
            await drawn(app, pilot)
            lines = text_of(app).splitlines()
            assert max(map(cell_len, lines)) <= 140
            assert key == "3" or any("[@click=app.quit]" in line for line in lines[3:])

    run([name], LARGE, folder=tmp_path, then=then)


# --- the report


def test_a_report_replaces_only_what_it_may(tmp_path: Path) -> None:
    (tmp_path / RAG).write_bytes((SAMPLES / RAG).read_bytes())

    async def then(app: PhasewiseApp, pilot: Pilot[None]) -> None:
        assert re.search(r"Write a report.*phasewise-\d{8}T\d{6}Z\.md .*Cancel", text_of(app), re.DOTALL)

        async def submit(name: str) -> str:
            app.screen.query_one(Input).value = name
            await pilot.pause()
            return await again()

        async def again() -> str:
            await pilot.press("enter")
            await drawn(app, pilot)
            if not isinstance(app.screen, ReportDialog):
                return ""
            return str(app.screen.query_one("#said", Static).content)

        assert "no such folder" in await submit("nowhere/report.md")
        assert "end the name with" in await submit("report.txt")
        assert "Name a file" in await submit(" ")
        assert await submit("report.json") == ""
        assert json.loads(Path("report.json").read_text("utf-8"))["verdict"]["phase"] == "prefill"

        Path("report.html").write_text("mine", "utf-8")
        await pilot.press("r")
        assert "exists already" in await submit("report.html")
        assert str(app.screen.query_one("#write", Button).label) == "Replace"
        assert Path("report.html").read_text("utf-8") == "mine"
        assert await again() == ""
        assert Path("report.html").read_text("utf-8").startswith("<!doctype html>")

        await pilot.press("r")
        app.screen.query_one(Input).value = "late.md"
        await pilot.pause()
        await pilot.press("enter", "escape")
        assert not isinstance(app.screen, ReportDialog)
        await app.workers.wait_for_complete()
        assert await exists("late.md")

    run([RAG], SMALL, ["r"], folder=tmp_path, then=then)


def test_where_a_report_can_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert proposed().endswith("Z.md")
    assert not set(proposed()) & set('<>:"/\\|?*')
    assert place("a.MD", [])[0] == Path("a.MD")
    for name, sources in (("log.json", ["log.json"]), ("-", []), ("folder.md", []), ("~nobody-x/a.md", [])):
        (tmp_path / "folder.md").mkdir(exist_ok=True)
        with pytest.raises(InputError):
            place(name, sources)
    assert place("a.html", ["http://127.0.0.1:8080"])[1] == "html"
