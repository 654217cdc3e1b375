"""The project against a real llama-server: its log must say what the server told its clients."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from parsers import read_rows

if TYPE_CHECKING:
    from pathlib import Path

    from .scenarios import EngineRun

pytestmark = pytest.mark.engine

PRINTED_TO_MS = 0.005 + 1e-9
VERDICT_PHASES = {"prefill", "decode", "queue", "load", "mixed", "unknown"}


def _rows_by_output(run: EngineRun) -> dict[int, dict[str, Any]]:
    """The log's finished requests; every scenario asks for another number of tokens each time."""
    finished = read_rows(run.log_path).requests.filter(pl.col("decode_ms").is_not_null())
    return {row["output_tokens"]: row for row in finished.to_dicts()}


def _analyze(log_path: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "advisor", "analyze", str(log_path), "--format", "json"],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    analysis: dict[str, Any] = json.loads(done.stdout)
    return analysis


def test_rows_equal_the_servers_own_accounts(engine_run: EngineRun) -> None:
    rows = _rows_by_output(engine_run)
    assert sorted(rows) == sorted(answer.timings["predicted_n"] for answer in engine_run.completed)
    for answer in engine_run.completed:
        expected = answer.expected_row()
        row = rows[int(answer.timings["predicted_n"])]
        said = {name: row[name] for name in expected}
        assert said == pytest.approx(expected, abs=PRINTED_TO_MS), answer.label


def test_the_log_claims_no_more_time_than_the_client_waited(engine_run: EngineRun) -> None:
    rows = _rows_by_output(engine_run)
    for answer in engine_run.completed:
        row = rows[int(answer.timings["predicted_n"])]
        assert row["total_ms"] <= answer.total_ms, answer.label
        assert row["ttft_from"] == "slot", answer.label
        if answer.ttft_ms is not None:
            assert row["ttft_ms"] <= answer.ttft_ms, answer.label


def test_a_client_that_hangs_up_is_an_aborted_event(engine_run: EngineRun) -> None:
    events = read_rows(engine_run.log_path).events
    left = [answer for answer in engine_run.answers if not answer.completed]
    assert events.filter(pl.col("kind") == "aborted").height == len(left)


def test_analyze_counts_and_sums_what_the_server_answered(engine_run: EngineRun) -> None:
    analysis = _analyze(engine_run.log_path)
    completed = engine_run.completed
    (source,) = analysis["sources"]
    assert source["engine"] == "llama-server"
    assert source["aborted_requests"] == len(engine_run.answers) - len(completed)
    assert (source["failed_requests"], source["incomplete_requests"]) == (0, 0)

    summary = analysis["summary"]
    assert summary["requests"] == len(completed)
    for phase, timing in (("prefill", "prompt_ms"), ("decode", "predicted_ms")):
        answered_ms = sum(answer.timings[timing] for answer in completed)
        assert summary["phase_ms"][phase] == pytest.approx(answered_ms, abs=PRINTED_TO_MS * len(completed))
    assert analysis["verdict"]["phase"] in VERDICT_PHASES
