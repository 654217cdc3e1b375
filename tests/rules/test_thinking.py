"""Models that think first get a budget and no cap, and slow decode comes before long answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from parsers.setup import Device, Setup
from rules.decode import at_bandwidth_ceiling, output_long, thermal_or_power, thinking_tokens
from rules.hardware import Machine
from rules.rule import Confidence, Finding, NotApplicable
from rules.thinking import thinks
from tests.rules.helpers import measures

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def found(answer: object) -> Finding:
    assert isinstance(answer, Finding), answer
    return answer


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("qwen3:8b", "unless they are told not to"),
        ("Qwen3 30B A3B", "unless they are told not to"),
        ("Qwen/Qwen3.5-27B", "unless they are told not to"),
        ("GLM-4.5-Air-Q4_K_M.gguf", "unless they are told not to"),
        ("glm-4.6", "unless they are told not to"),
        ("SmolLM3-3B", "unless they are told not to"),
        ("DeepSeek R1 Distill Llama 70B", "Its name says"),
        ("Gpt Oss 20B", "Its name says"),
        ("Qwen3-VL-8B-Thinking", "Its name says"),
        ("Qwen3-30B-A3B-Instruct-2507", None),
        ("Qwen3-Coder-30B-A3B-Instruct", None),
        ("qwen3-embedding:0.6b", None),
        ("Qwen2.5-32B-Instruct", None),
        ("glm-4-9b-chat", None),
        ("DeepSeek-V3", None),
        ("gemma-3-27b-it", None),
        (None, None),
    ],
)
def test_names_of_models_that_think(model: str | None, known: str | None) -> None:
    said = thinks(Setup(model=model))

    assert (known in said) if known and said else said is known
    assert "template" in (thinks(Setup(model=model, thinking=True)) or "")


ANSWER = {"prompt_tokens": 100, "prefill_ms": 200.0, "output_tokens": 2_000, "decode_ms": 16_000.0}


@pytest.mark.parametrize("engine", ["ollama", "llama-server"])
def test_qwen3_gets_a_budget_and_no_cap(engine: str) -> None:
    setup = {"model": "qwen3:8b", "thinking": None if engine == "ollama" else False}
    m = measures([{**ANSWER, "engine": engine}] * 9, setup=setup)
    short = measures([{**ANSWER, "engine": engine, "output_tokens": 600}] * 9, setup=setup)

    assert found(thinking_tokens.check(m)).fixes[0].knob == "reasoning-budget"
    assert isinstance(output_long.check(m), NotApplicable)
    assert isinstance(output_long.check(short), NotApplicable)


def on_cpu(model: str, tokens: int, ms: float = 100.0) -> Finding:
    setup = {
        "model": model,
        "weights_bytes": 4_900_000_000,
        "quantization": "Q4_K_M",
        "experts": 0,
        "devices": [Device(name="CPU", backend="CPU")],
    }
    rows = [{**ANSWER, "slot": 0, "output_tokens": tokens, "decode_ms": ms * tokens}] * 8
    machine = Machine(bandwidth_gb_s=89.6, cores=24)
    return found(at_bandwidth_ceiling.check(measures(rows, setup=setup, machine=machine)))


def test_the_ceiling_of_a_cpu_leaves_speculation_for_last() -> None:
    capped, budgeted = on_cpu("llama.gguf", 500, ms=75.0), on_cpu("qwen3.gguf", 1_500, ms=75.0)

    assert capped.confidence is Confidence.LIKELY
    assert [fix.knob for fix in capped.fixes][-2:] == ["output-tokens", "speculation"]
    assert [fix.knob for fix in budgeted.fixes][-2:] == ["reasoning-budget", "speculation"]
    assert not [e for e in budgeted.evidence if "answers of at most" in e.label]
    assert any("threads" in vain for vain in capped.wont_help)


def test_half_of_the_bandwidth_is_no_proof_of_the_ceiling() -> None:
    finding = on_cpu("llama.gguf", 500)

    assert finding.confidence is Confidence.POSSIBLE
    assert "55 %" in finding.title
    assert "Only fewer bytes" not in finding.why
    assert "threads, memory channels or clocks may hold it back" in finding.why
    assert finding.wont_help == ()
    assert "-t" in finding.verify


def test_a_machine_that_slows_down_comes_before_long_answers() -> None:
    def hour(last_ms: float) -> list[dict[str, Any]]:
        rows, at = [], NOON
        for i in range(60):
            ms = 25.0 if i < 28 else last_ms
            end = at + timedelta(milliseconds=200 + 500 * ms)
            row = {**ANSWER, "output_tokens": 500, "decode_ms": 500 * ms, "slot": 0}
            rows.append({**row, "started_at": at, "finished_at": end})
            at = end + timedelta(seconds=1)
        return rows

    hot, cool = measures(hour(37.0)), measures(hour(25.0))

    assert found(thermal_or_power.check(hot)).saving is not None
    assert "thermal-or-power" in output_long.check(hot).reason  # type: ignore[union-attr]
    assert found(output_long.check(cool)).fixes[0].knob == "output-tokens"
