"""Loads after pauses, of models that take turns, and from slow disks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rules.load import load_slow_disk, models_evict_each_other, reload_after_idle, reload_each_request
from rules.ranking import combined, rank
from rules.rule import CannotTell, Confidence, Finding, NotApplicable
from rules.testing import complaints, measures

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE_S = 60.0


def found(answer: object) -> Finding:
    assert isinstance(answer, Finding), answer
    return answer


def saved_ms(finding: Finding) -> float:
    assert finding.saving is not None
    return finding.saving.ms


def served(
    *pauses_s: float, load_ms: float = 9_000.0, models: tuple[str, ...] = ("coder",), **more: Any
) -> list[dict[str, Any]]:
    """Requests after these pauses, each waiting for a load of its model, taken from ``models`` in turn."""
    rows, at = [], NOON
    for i, pause_s in enumerate(pauses_s):
        begun = at + timedelta(seconds=pause_s)
        phases = {"load_ms": load_ms, "prefill_ms": 500.0, "decode_ms": 4_000.0}
        at = begun + timedelta(milliseconds=sum(phases.values()))
        row = {"engine": "ollama", "model": models[i % len(models)], "prompt_tokens": 800, **phases}
        rows.append({**row, "output_tokens": 150, "started_at": begun, "finished_at": at, **more})
    return rows


# --- reload-after-idle


def test_loads_after_pauses() -> None:
    rows = [*served(0, 400, 600, 900), *served(3_000, load_ms=20.0)]
    finding = found(reload_after_idle.check(measures(rows)))

    assert finding.confidence is Confidence.LIKELY
    assert finding.requests == 3
    assert saved_ms(finding) == pytest.approx(27_000)
    assert finding.fixes[0].apply == "OLLAMA_KEEP_ALIVE=-1"
    assert [ref.line for ref in finding.evidence[0].lines] == [2, 3, 4]
    assert "10 min 0 s after the last one" in finding.why


@pytest.mark.parametrize(
    ("rows", "answer"),
    [
        pytest.param(served(0, 40, 40, 40), NotApplicable, id="D06: short pauses"),
        pytest.param(served(0, 1, 1, 1, load_ms=6_000.0), NotApplicable, id="D08: no pauses"),
        pytest.param(served(0), NotApplicable, id="the first load"),
        pytest.param(served(0, 600, 600, load_ms=40.0), NotApplicable, id="still loaded"),
        pytest.param(served(0, 10, 600, 10, 600, 10, models=("a", "b")), NotApplicable, id="models in turn"),
        pytest.param(served(0, 600, 600, started_at=None, finished_at=None), CannotTell, id="no clock"),
        pytest.param([{"engine": "ollama", "decode_ms": 4_000.0}] * 3, CannotTell, id="no loads logged"),
    ],
)
def test_no_load_after_a_pause(rows: list[dict[str, Any]], answer: type) -> None:
    rows = [{**row, "total_ms": 20_000.0} for row in rows]

    assert isinstance(reload_after_idle.check(measures(rows)), answer)


def test_other_options_would_load_it_anyway() -> None:
    rows = [{**row, "run": i} for i, row in enumerate(served(0, 600, 600, 600))]
    other = [{"model": "coder", "context": 4_096 + 1_024 * i} for i in range(4)]
    same = [{"model": "coder", "context": 4_096}] * 4

    assert isinstance(reload_after_idle.check(measures(rows, setups=other)), NotApplicable)
    assert found(reload_after_idle.check(measures(rows, setups=same))).requests == 3


def test_short_and_long_pauses_are_two_findings_for_two_loads() -> None:
    m = measures(served(0, 40, 40, 600, 40, 600))
    soon, late = found(reload_each_request.check(m)), found(reload_after_idle.check(m))

    both = combined([soon, late], m)

    assert both is not None
    assert both.ms == pytest.approx(saved_ms(soon) + saved_ms(late)) == pytest.approx(45_000)


# --- models-evict-each-other


def test_two_models_in_turn() -> None:
    m = measures(served(0, *[5] * 9, models=("qwen3:14b", "gemma3:12b")))
    finding = found(models_evict_each_other.check(m))

    assert finding.confidence is Confidence.LIKELY
    assert finding.requests == 8
    assert saved_ms(finding) == pytest.approx(72_000)
    assert "gemma3:12b, qwen3:14b" in finding.why
    assert finding.fixes[0].apply.startswith("OLLAMA_MAX_LOADED_MODELS=2")
    assert isinstance(reload_each_request.check(m), NotApplicable)


def test_chat_and_embeddings_in_turn_save_the_chats_loads() -> None:
    kinds = ("generation", "embedding")
    rows = served(0, *[2] * 9, models=("chat", "embed"))
    rows = [{**row, "kind": kinds[i % 2]} for i, row in enumerate(rows)]

    assert saved_ms(found(models_evict_each_other.check(measures(rows)))) == pytest.approx(4 * 9_000)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(served(0, *[5] * 9, models=("a", "b"), load_ms=20.0), id="both fit"),
        pytest.param(served(0, *[5] * 9), id="one model"),
        pytest.param(served(0, *[600] * 9, models=("a", "b")), id="unloaded in pauses"),
        pytest.param(served(0, 5, 5, models=("a", "b")), id="compared once"),
        pytest.param(
            [
                {**row, "load_ms": 9_000.0 * (i % 2)}
                for i, row in enumerate(served(0, *[5] * 9, models=("a", "b")))
            ],
            id="only one of them is loaded",
        ),
    ],
)
def test_models_that_do_not_evict(rows: list[dict[str, Any]]) -> None:
    assert isinstance(models_evict_each_other.check(measures(rows)), NotApplicable)


# --- load-slow-disk


def test_a_model_on_a_network_share() -> None:
    """4.9 GB in 42 s: 40 s of reading at 0.12 GB/s, of which an NVMe disk would take 2.5."""
    m = measures(served(0, *[900] * 4, load_ms=42_000.0), setup={"weights_bytes": 4_920_000_000})
    finding = found(load_slow_disk.check(m))

    assert finding.confidence is Confidence.POSSIBLE
    assert saved_ms(finding) == pytest.approx(5 * (40_000 - 2_460), rel=0.005)
    assert finding.saving is not None
    assert finding.saving.bound == "at_most"
    assert "0.12 GB/s" in finding.why
    assert finding.fixes[0].apply == "OLLAMA_MODELS=/path/on/nvme"


def test_loads_that_need_not_be_come_first() -> None:
    m = measures(served(0, *[900] * 4, load_ms=42_000.0), setup={"weights_bytes": 4_920_000_000})
    findings = [found(load_slow_disk.check(m)), found(reload_after_idle.check(m))]

    assert [f.rule for f in rank(findings, m)] == ["reload-after-idle", "load-slow-disk"]
    together = combined(findings, m)
    assert together is not None
    assert together.ms <= 5 * 42_000


@pytest.mark.parametrize(
    ("load_ms", "facts", "answer"),
    [
        pytest.param(6_000.0, {"weights_bytes": 4_920_000_000}, NotApplicable, id="SATA is fast enough"),
        pytest.param(
            6_000.0,
            {"weights_bytes": 2_019_000_000, "kv_bytes": int(13.7 * 2**30)},
            NotApplicable,
            id="D08: most of it clears the KV cache",
        ),
        pytest.param(42_000.0, {}, CannotTell, id="size unknown"),
    ],
)
def test_disks_that_are_not_to_blame(load_ms: float, facts: dict[str, Any], answer: type) -> None:
    rows = served(0, *[900] * 4, load_ms=load_ms)

    assert isinstance(load_slow_disk.check(measures(rows, setup=facts)), answer)


def test_one_slow_load_may_be_a_download() -> None:
    rows = [*served(0, load_ms=42_000.0), *served(900, 900, load_ms=4_000.0)]
    m = measures(rows, setup={"weights_bytes": 4_920_000_000})

    assert isinstance(load_slow_disk.check(m), NotApplicable)


@pytest.mark.parametrize("module", [reload_after_idle, models_evict_each_other, load_slow_disk])
def test_house_rules(module: Any) -> None:
    assert complaints(module) == []
