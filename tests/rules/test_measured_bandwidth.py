"""Main memory whose bandwidth was measured: where it is used, where not, and what it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from parsers.setup import Device
from rules.decode import at_bandwidth_ceiling, memory_channels
from rules.hardware import Machine
from rules.rule import Finding, NotApplicable
from tests.rules.helpers import measures

if TYPE_CHECKING:
    from rules.measures import Measures

MEASURED = Machine(bandwidth_gb_s=60.0, cores=8, measured_on="2026-11-30")
ON_PAPER = Machine(bandwidth_gb_s=60.0, cores=8)
CPU: dict[str, Any] = {
    "weights_bytes": 4_917_737_553,
    "quantization": "Q4_K - Medium",
    "parameters": 8_030_000_000,
    "layers": 32,
    "experts": 0,
    "slots": 1,
    "layers_offloaded": 0,
    "layers_offloadable": 33,
    "threads": 8,
}
GPU = {
    "devices": [Device(name="NVIDIA GeForce RTX 4090", backend="CUDA", memory_bytes=24 << 30)],
    "layers_offloaded": 33,
}


def decoding(tok_s: float, machine: Machine, **facts: Any) -> Measures:
    row = {"prefill_tokens": 600, "prefill_ms": 6_000.0, "output_tokens": 300, "decode_ms": 300_000 / tok_s}
    return measures([row] * 8, setup={**CPU, **facts}, machine=machine)


def test_it_is_main_memorys() -> None:
    assert decoding(9, MEASURED).bandwidth_gb_s == 60.0
    assert decoding(120, MEASURED, **GPU).bandwidth_gb_s == 1008.0
    assert decoding(120, ON_PAPER, **GPU).bandwidth_gb_s == 60.0
    assert decoding(9, MEASURED, layers_offloaded=None).bandwidth_gb_s is None


def test_a_gpu_is_predicted_from_its_own_memory() -> None:
    expected = decoding(120, Machine(), **GPU).decoding.predicted_ms()
    assert expected is not None
    assert decoding(120, MEASURED, **GPU).decoding.predicted_ms() == expected


@pytest.mark.parametrize(
    ("machine", "words"),
    [(MEASURED, "measured on this machine on 2026-11-30"), (ON_PAPER, "on paper")],
)
def test_it_is_called_what_it_is(machine: Machine, words: str) -> None:
    finding = at_bandwidth_ceiling.check(decoding(10, machine))
    assert isinstance(finding, Finding)
    assert f"that the memory has {words}" in finding.why
    assert f"memory bandwidth {words}" in [one.label for one in finding.evidence]


def test_measured_memory_lacks_no_module() -> None:
    assert isinstance(memory_channels.check(decoding(5, ON_PAPER)), Finding)
    assert isinstance(memory_channels.check(decoding(5, MEASURED)), NotApplicable)
