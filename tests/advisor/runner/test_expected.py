"""Measured turns as a prediction takes them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from advisor.runner import expected
from advisor.runner.arm import Arm
from advisor.runner.block import Block, Facts, Measured, Side
from advisor.runner.engine import Processor, Timed
from advisor.runner.expected import expect, facts
from advisor.runner.settings import Settings
from advisor.runner.workload import Ask, Prompt, Workload
from rules.prediction import Host

SETTINGS = Settings(Path("none.gguf"), threads=2, threads_batch=2)
CPU = Processor("CPU", "a processor", is_gpu=False)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected, "host", lambda: Host(2))


def turn(settings: Settings, prompts: list[tuple[int, int, float]], *, output: int = 11) -> Block:
    """A turn of prompts, each of so many tokens, so many of them shared, read in so many ms."""
    arm = Arm(settings, Workload("made", ()))
    measured = [
        Measured(
            "side",
            0,
            Prompt(Ask("one", (), output), tuple(range(tokens)), shared),
            Timed(
                started_at=datetime(2026, 11, 30, tzinfo=UTC),
                prompt_tokens=tokens,
                cached_tokens=shared,
                prefill_tokens=tokens - shared,
                prefill_ms=ms,
                output_tokens=output,
                decode_ms=100.0,
                decode_steps=output - 1,
                ttft_ms=ms,
                total_ms=ms + 100.0,
            ),
        )
        for tokens, shared, ms in prompts
    ]
    facts = Facts("llama-cpp-python", None, (CPU,), 4096, ())
    return Block(Side("side", arm), 0, facts, measured, is_complete=True)


def test_threads() -> None:
    prompts = [(1000, 0, 4000.0)]
    found = expect([turn(SETTINGS, prompts)], [turn(replace(SETTINGS, threads=1, threads_batch=1), prompts)])
    assert found is not None
    assert (found.prefill.ratio, found.decode.ratio) == (2.0, 2.0)


def test_a_kept_prefix_by_the_usual_time_of_each_request() -> None:
    broken = [turn(SETTINGS, [(1000, 0, ms), (1000, 0, 4000.0)]) for ms in (3000.0, 4000.0, 9000.0)]
    found = expect(broken, [turn(SETTINGS, [(1000, 0, 1.0), (1000, 900, 1.0)])])
    assert found is not None
    assert found.prefill.ratio == pytest.approx((4000 + 400) / 8000)
    assert found.decode.ratio == 1.0


def test_a_cap() -> None:
    prompts = [(1000, 0, 4000.0)]
    found = expect([turn(SETTINGS, prompts)], [turn(SETTINGS, prompts, output=6)])
    assert found is not None
    assert (found.prefill.ratio, found.decode.ratio) == (1.0, 0.5)


def test_turns_that_are_not_whole() -> None:
    prompts = [(1000, 0, 4000.0)]
    part = turn(SETTINGS, prompts)
    part.is_complete = False
    assert expect([part], [turn(SETTINGS, prompts)]) is None
    assert expect([turn(SETTINGS, prompts)], [part]) is None


def test_layers_count_only_beside_a_gpu() -> None:
    assert facts(SETTINGS, "llama-server", has_gpu=False).layers_on_gpu == 0.0
    assert facts(SETTINGS, "llama-server", has_gpu=True).layers_on_gpu == 1.0
    assert facts(replace(SETTINGS, gpu_layers=3), "llama-server", has_gpu=True).layers_on_gpu is None


def test_what_an_engine_takes_by_itself() -> None:
    bare = Settings(Path("none.gguf"))
    found = facts(bare, "llama-cpp-python", has_gpu=False)
    assert found.threads_batch is not None
    assert found.threads == max(found.threads_batch // 2, 1)
    assert (found.ubatch, found.kv_type_k, found.read_bytes) == (512, "f16", None)
