"""What the verdict says of logs that hold windows and batches, no requests."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from advisor.analysis import _healthy
from advisor.sentences import verdict_sentence
from parsers import Stream
from parsers.records import Event
from rules.attribution import interval_verdict, verdict
from rules.deaths import WAYS
from rules.decode import at_bandwidth_ceiling
from rules.rule import Confidence, Evidence
from rules.testing import measures
from tests.advisor.helpers import analysis

if TYPE_CHECKING:
    from rules.measures import Measures


def said(kind: str, n: int, more: list[dict[str, Any]] | None = None, **columns: Any) -> str:
    row = {"engine": "sglang", "kind": kind, **columns}
    m = measures(intervals=[{**row, "line": i} for i in range(1, n + 1)] + (more or []))
    return verdict_sentence(m, interval_verdict(m.intervals), None)


PREFILL = {"engine": "sglang", "kind": "prefill_batch", "line": 99, "running": 3, "waiting": 0}


@pytest.mark.parametrize(
    ("waiting", "sentence"),
    [
        (20, "Up to 60 requests ran, up to 20 waited."),
        (0, "Up to 60 requests ran, none waited."),
        (None, "Up to 60 requests ran."),
        (90, "Up to 60 requests ran, up to 90 waited."),
    ],
)
def test_batches_are_counted_as_batches(waiting: int | None, sentence: str) -> None:
    row = {**PREFILL, "waiting": waiting}
    text = said("decode_batch", 12, [row, {**row, "line": 100}], running=60, waiting=waiting)

    assert "Lines of 12 decode batches and 2 prefill batches can't split a request's latency." in text
    assert text.endswith(sentence)
    assert text.startswith("At least as many requests wait as run") == (waiting == 90)
    assert "window" not in text


def test_an_idle_engine_is_called_idle() -> None:
    assert said("window", 20, running=0, waiting=0, phase="idle") == (
        "The engine was idle in all 20 windows: there is nothing to split."
    )
    busy = said("window", 3, [{**PREFILL, "kind": "window", "phase": "idle"}], phase="mixed", running=2)
    assert busy == "Averages over windows can't split a request's latency; of 3 busy windows: 3 mixed."


def test_an_engine_that_nobody_saw_is_not_called_recognised() -> None:
    m = measures(setup={"engine": None})
    assert "No engine is recognised" in verdict_sentence(m, interval_verdict(m.intervals), None)
    m = measures(setup={"engine": "vllm"})
    assert verdict_sentence(m, interval_verdict(m.intervals), None).startswith("The engine is recognised")


# --- engines that died

ROOT = Path(__file__).parents[2]
VLLM_DIES = ROOT / "parsers/formats/samples/vllm-dies.log"
START = {"kind": "error", "engine": "vllm", "line": 2, "detail": "the engine did not start (ValueError)"}
DEATH = {
    "kind": "out_of_memory",
    "engine": "vllm",
    "line": 4,
    "time": datetime(2026, 5, 1, 14, 39, 6, tzinfo=UTC),
    "detail": "the engine died: could not allocate 50.00 MiB",
}
WINDOW = {"engine": "vllm", "kind": "window", "line": 3, "phase": "mixed", "running": 1, "waiting": 0}


def sentence(m: Measures) -> str:
    decided = verdict(m.attribution) if m.generations.height else interval_verdict(m.intervals)
    return verdict_sentence(m, decided, None)


def test_an_engine_that_did_not_start_is_the_answer() -> None:
    assert sentence(measures(setup={"engine": "vllm"}, events=[START])) == (
        "At line 2 the engine did not start (ValueError). Nothing was served."
    )
    again = [{"engine": "vllm", "context": context} for context in (4_096, 2_048)]
    assert sentence(measures(setups=again, events=[START])).endswith(
        "(ValueError). This log holds no timings."
    )
    assert sentence(measures(setup={"engine": "vllm"}, events=[DEATH])).endswith(
        " This log holds no timings."
    )


def test_a_death_comes_before_what_windows_say() -> None:
    assert sentence(measures(setup={"engine": "vllm"}, events=[DEATH], intervals=[WINDOW])) == (
        "At line 4 (05-01 14:39:06) the engine died: could not allocate 50.00 MiB. "
        "Averages over windows can't split a request's latency; of 1 busy window: 1 mixed."
    )


def test_of_several_deaths_the_first_and_the_last_are_told() -> None:
    lost = {**START, "line": 29, "detail": "the server lost its engine"}
    text = sentence(measures(setup={"engine": "vllm"}, events=[DEATH, {**START, "line": 24}, lost]))

    assert text.startswith("At line 4 (05-01 14:39:06) the engine died: could not allocate 50.00 MiB. ")
    assert "3 such failures in all; the last, at line 29: the server lost its engine." in text


def test_of_several_logs_the_one_with_the_death_is_named() -> None:
    setup = {"engine": "vllm"}
    m = measures(setup=setup, events=[{**START, "source": "b.log"}], intervals=[WINDOW])
    assert sentence(m).startswith("At b.log:2 the engine did not start (ValueError). ")


def test_deaths_of_several_logs_are_in_the_order_of_their_clocks() -> None:
    early = {**START, "source": "z.log", "time": datetime(2026, 5, 1, 14, 0, 0, tzinfo=UTC)}
    text = sentence(measures(setup={"engine": "vllm"}, events=[DEATH, early]))
    assert text.startswith("At z.log:2 (05-01 14:00:00) the engine did not start (ValueError). 2 such")


def test_requests_that_were_served_do_not_hide_a_death() -> None:
    row = {"prefill_ms": 500.0, "prefill_tokens": 500, "output_tokens": 100, "decode_ms": 4_000.0}
    crash = {"kind": "error", "line": 99, "detail": "the model's process ended unexpectedly"}
    text = sentence(measures([row] * 6, events=[crash]))

    assert text.startswith("At line 99 the model's process ended unexpectedly. Decode takes")
    unloaded = {**crash, "detail": "the model could not be loaded"}
    assert sentence(measures([row] * 6, events=[unloaded])).startswith("Decode takes")
    failed = {**crash, "detail": "HTTP 500 on /v1/chat/completions"}
    assert sentence(measures([row] * 6, events=[failed])).startswith("Decode takes")


OLLAMA = (
    b'time=2026-05-01T14:00:00.000+00:00 level=INFO source=routes.go:1400 msg="Listening on [::]:11434 '
    b'(version 0.6.2)"\n'
    b'time=2026-05-01T14:01:00.000+00:00 level=ERROR source=server.go:449 msg="llama runner terminated" '
    b'error="exit status 2"\n'
)


def test_each_way_to_die_is_one_that_a_reader_tells() -> None:
    """The wording is the parsers'; this keeps the two together."""
    bad_gguf = ROOT / "tests/logs/llama-server-b11434/l_bad_gguf/server.log"
    texts = [VLLM_DIES.read_bytes(), bad_gguf.read_bytes(), OLLAMA]
    told = set[str]()
    for text in texts:
        stream = Stream("engine.log", year=2026)
        rows = [*stream.feed(text), *stream.close()]
        told |= {row.detail for row in rows if isinstance(row, Event) and row.detail}

    assert {way for way in WAYS if not any(detail.startswith(way) for detail in told)} == set()


def test_no_engine_that_died_is_called_healthy() -> None:
    row = {"prefill_ms": 500.0, "prefill_tokens": 500, "output_tokens": 100, "decode_ms": 4_000.0}
    crash = {"kind": "error", "line": 99, "detail": "the model's process ended unexpectedly"}
    good = at_bandwidth_ceiling.RULE.finding(
        confidence=Confidence.LIKELY, why="", evidence=(Evidence("rows", 6),), requests=6, fixes=()
    )
    lived, died = measures([row] * 6), measures([row] * 6, events=[crash])

    assert _healthy(lived, [good], verdict(lived.attribution)) is True
    assert _healthy(died, [good], verdict(died.attribution)) is None


def test_the_whole_page_of_a_log_with_deaths() -> None:
    said = analysis(str(VLLM_DIES))
    (memory,) = [finding for finding in said["findings"] if finding["rule"] == "kv-oom-risk"]

    assert said["verdict"]["sentence"].startswith("At line 4 (05-01 14:39:06) the engine died: could not")
    assert memory["fixes"][0]["apply"].startswith("--gpu-memory-utilization")
