"""A calibration with a model: what the engine does is what is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from advisor.runner import calibrating
from advisor.runner import machine as machines
from advisor.runner.cores import cores
from advisor.runner.engines.xllamacpp import Xllamacpp
from advisor.runner.machine import Machine
from advisor.runner.model_file import checked

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engine


def test_rates_of_a_model(model_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrating, "LENGTHS", (32, 128))
    monkeypatch.setattr(calibrating, "MODEL_S", 600.0)
    told: list[str] = []
    machine = Machine()
    monkeypatch.setattr(machines, "_FORGETS", True)
    machine.look()
    file = checked(model_path)
    assert file is not None
    found = calibrating.measured(
        file, model_path, Xllamacpp(), told.append, machine.note, seconds=0, memory_bytes=1 << 22
    )
    assert machine.look().others_share is not None
    model = found.model
    assert model is not None
    assert (model.name, model.read_bytes) == (model_path.name, file.read_bytes)
    assert model.engine_version
    assert (model.threads, model.flash_attention) == (cores(), True)
    assert [one.tokens for one in model.prefill] == [32, 128]
    assert [one.depth > 32 for one in model.decode] == [True, True]
    for one in model.prefill:
        assert one.gflops is not None
        blocks = 2e-9 * (file.active_parameters - file.head_parameters) * one.tok_s.median
        assert blocks < one.gflops < 1.2 * blocks
    shallow, deep = model.decode
    assert shallow.kv_bytes is not None
    assert deep.kv_bytes is not None
    assert deep.kv_bytes > shallow.kv_bytes
    assert shallow.gb_s == pytest.approx((file.read_bytes + shallow.kv_bytes) * shallow.tok_s.median / 1e9)
    assert model.decode_gb_s is not None
    assert told[-4:] == [f"loading {model_path.name}", *(f"prompts, round {n} of 3" for n in (1, 2, 3))]
