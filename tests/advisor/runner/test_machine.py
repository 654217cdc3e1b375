"""What disturbs a measurement: seen on the real machine, and said in sentences."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest

from advisor.runner import machine as machines
from advisor.runner.disturbances import disturbances
from advisor.runner.machine import Machine, Moment, Reference, Watch

STEADY = [Reference(40.0 + n % 2, 200.0) for n in range(8)]
BURN = "import time\nend = time.time() + {}\nwhile time.time() < end: pass"


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_the_first_look_knows_no_stretch(machine: Machine) -> None:
    moment = machine.look()
    assert (moment.others_share, moment.stolen_share) == (None, None)


def test_the_reference_is_short_and_positive(machine: Machine) -> None:
    machine.reference()
    begin = time.perf_counter()
    found = machine.reference()
    assert found.memory_gb_s > 0.1
    assert found.compute_gflops > 0.1
    assert time.perf_counter() - begin < 5


@pytest.mark.parametrize("forgets", [False, True])
def test_a_child_of_ours_is_no_other_program(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, forgets: bool
) -> None:
    """Its time is ours, though it has ended."""
    if machines._FORGETS and not forgets:
        pytest.skip("this system forgets what a child used that has ended")
    monkeypatch.setattr(machines, "_FORGETS", forgets)
    machine.look()
    used_before, begin = _busy_s(), time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", BURN.format(0.8)], stdin=subprocess.PIPE):
        time.sleep(0.75)
        machine.note()
    share = machine.look().others_share
    everything = (_busy_s() - used_before) / (time.perf_counter() - begin) / (psutil.cpu_count() or 1)
    assert share is not None
    assert 0 <= share < everything


def test_unknown_children_leave_the_others_unknown(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "_FORGETS", True)
    machine.look()
    subprocess.run([sys.executable, "-c", BURN.format(0.3)], check=True)
    assert machine.look().others_share is None


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


def test_a_watch_counts_turns_however_they_end() -> None:
    watch = Watch()
    with watch.turn():
        time.sleep(0.25)
    with pytest.raises(KeyboardInterrupt), watch.turn():
        raise KeyboardInterrupt
    assert (len(watch.moments), len(watch.references)) == (2, 3)
    assert isinstance(watch.disturbances(), list)


# --- sentences


def test_nothing_known_is_nothing_said() -> None:
    assert disturbances([Moment()] * 8, STEADY) == []
    assert disturbances([], []) == []
    quiet = Moment(others_share=0.02, stolen_share=0.0, is_hot=False, on_battery=False, gpu_held_back=())
    assert disturbances([quiet] * 8, STEADY) == []


def test_other_programs_and_the_host() -> None:
    busy = [Moment(others_share=0.48, stolen_share=0.1)] * 3 + [Moment(others_share=0.01)] * 13
    assert disturbances(busy, STEADY) == [
        "Other programs used 48 % of the processors during 3 of 16 blocks.",
        "The host took 10 % of the processors' time away during 3 of 3 blocks.",
    ]


def test_heat_battery_and_gpu() -> None:
    moments = [
        Moment(heat_c=101.0, is_hot=True, on_battery=True, gpu_held_back=("heat", "its power limit")),
        Moment(heat_c=70.0, is_hot=False, on_battery=True, gpu_held_back=("its power limit",), gpu_others=1),
    ]
    assert disturbances(moments, STEADY) == [
        "A processor was at its limit of heat after 1 of 2 blocks.",
        "The machine ran on battery.",
        "The GPU was held back by heat after 1 of 2 blocks.",
        "1 other program was using the GPU.",
    ]


def test_a_reference_that_gets_slower() -> None:
    falling = [Reference(40.0, 200.0 / (1 + n / 20), 3400 - 100 * n) for n in range(8)]
    assert disturbances([], falling) == [
        "The reference, arithmetic, got 35 % slower during the run (its clock fell from 3.4 to 2.7 GHz)."
    ]
    no_clock = [Reference(r.memory_gb_s, r.compute_gflops) for r in falling]
    assert disturbances([], no_clock)[0].endswith("(heat, clocks, or other programs).")


def test_a_reference_that_was_disturbed_once() -> None:
    once = [*STEADY[:4], Reference(20.0, 200.0), *STEADY[4:]]
    assert disturbances([], once) == ["The reference, reading memory, was at least 40 % slower 1 of 9 times."]
