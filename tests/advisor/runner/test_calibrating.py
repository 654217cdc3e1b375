"""What is measured of a model, on an engine whose every time is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from advisor.gguf import ModelFile
from advisor.runner.calibrating import LENGTHS, OUTPUT_TOKENS, measured
from advisor.runner.cores import cores
from advisor.runner.settings import BATCH, UBATCH, Settings
from rules.physics.layers import LayerCache
from tests.advisor.runner.simulated import Backend

if TYPE_CHECKING:
    from advisor.calibration import ModelRates

PATH = Path("a.gguf")
FILE = ModelFile(
    name="a.gguf",
    architecture="llama",
    quantization="Q4_0",
    parameters=1_000_000,
    active_parameters=1e6,
    head_parameters=200_000,
    weights_bytes=500_000,
    read_bytes=5e5,
    layers=2,
    mixture=False,
    cache=[LayerCache(64, 64)] * 2,
    attention_layers=2,
    attention_width=128,
    facts={},
)


def rates(factor: float, seen: list[Settings], noted: list[int]) -> ModelRates:
    def how_slow(_start: int, settings: Settings) -> float:
        seen.append(settings)
        return factor

    found = measured(
        FILE,
        PATH,
        Backend(how_slow),  # type: ignore[arg-type]
        lambda _: None,
        lambda: noted.append(1),
        seconds=0,
        memory_bytes=1 << 20,
    )
    assert found.model is not None
    return found.model


def test_nothing_is_left_to_the_engine() -> None:
    seen, noted = list[Settings](), list[int]()
    model = rates(1.0, seen, noted)
    (settings,) = seen
    assert (settings.threads, settings.threads_batch, settings.flash_attention) == (cores(), cores(), True)
    assert (settings.batch, settings.ubatch) == (BATCH, UBATCH)
    assert (model.threads, model.flash_attention) == (cores(), True)
    assert len(noted) == 1 + 1 + 3 * len(LENGTHS)  # after arithmetic, the warm-up, and every request


def test_the_head_computes_for_the_last_token_only() -> None:
    short, long = rates(1.0, [], []).prefill
    assert (short.tokens, long.tokens) == LENGTHS
    for one in (short, long):
        attention = 4 * 2 * 128 * one.tokens**2 / 2
        flops = 2 * 800_000 * one.tokens + 2 * 200_000 + attention
        assert one.tok_s.median == pytest.approx(1000)
        assert one.gflops == pytest.approx(flops / one.tokens * 1000 / 1e9)


def test_decode_is_told_by_depth() -> None:
    short, long = rates(1.0, [], []).decode
    assert [short.depth, long.depth] == [n + (OUTPUT_TOKENS - 1) // 2 for n in LENGTHS]
    assert short.kv_bytes == short.depth * 2 * 128 * 2
    assert short.gb_s == pytest.approx((5e5 + short.kv_bytes) * 100 / 1e9)


def test_a_slow_model_is_asked_the_short_prompt_only() -> None:
    noted = list[int]()
    model = rates(10.0, [], noted)
    assert [one.tokens for one in model.prefill] == [LENGTHS[0]]
    assert len(model.decode) == 1
