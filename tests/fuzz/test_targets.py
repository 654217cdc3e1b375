"""Every target over what fuzzing begins with, and inputs near it; `python -m tests.fuzz` goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.fuzz.mutations import inputs
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
_SEEDS, _NEAR = 60, 60

each = pytest.mark.parametrize("name", TARGETS)


@each
def test_what_fuzzing_begins_with(name: str) -> None:
    target = TARGETS[name]
    seeds = target.seeds()
    for data in seeds[:: max(len(seeds) // _SEEDS, 1)]:
        target.run(data[: target.longest])


@each
def test_what_found_a_fault_once(name: str) -> None:
    for data in TARGETS[name].kept():
        TARGETS[name].run(data)


@each
def test_inputs_near_it(name: str) -> None:
    target = TARGETS[name]

    @settings(
        max_examples=_NEAR, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
    )
    @given(inputs(target))
    def near(data: bytes) -> None:
        target.run(data)

    near()


@pytest.mark.parametrize("engine", [["--plain"], []])
def test_the_command(engine: list[str], tmp_path: Path) -> None:
    if not engine:
        pytest.importorskip("atheris")
    command = [sys.executable, "-m", "tests.fuzz", "carriers", "--runs", "600", *engine]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=120)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "600" in ran.stdout + ran.stderr
