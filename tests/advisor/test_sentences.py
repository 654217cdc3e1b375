"""What the verdict says of logs that hold windows and batches, no requests."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.sentences import verdict_sentence
from rules.attribution import interval_verdict
from rules.testing import measures


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
