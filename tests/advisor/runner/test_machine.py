"""What disturbs a measurement: seen on the real machine, and said in sentences."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest

from advisor.runner import machine as machines
from advisor.runner.disturbances import disturbances
from advisor.runner.machine import Machine, Moment, Reference, Watch, crowded_cores

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


def test_without_a_child_the_others_are_known(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "_FORGETS", True)
    monkeypatch.setattr(machines, "_ours", lambda: [psutil.Process()])
    machine.look()
    time.sleep(0.3)
    machine.note()
    assert machine.look().others_share is not None


@pytest.mark.parametrize(
    ("processors", "cores", "share", "threads", "expected"),
    [
        (16, 16, 1 / 16, 16, 1.0),
        (16, 16, 1 / 16, 15, 0.0),
        (16, 8, 3 / 16, 7, 2.0),
        (2, 2, 0.5, 1, 0.0),
        (2, 2, 0.25, 2, 0.5),
        (4, None, 0.5, 4, 2.0),
    ],
)
def test_others_crowd_only_where_the_engine_leaves_them_no_core(
    monkeypatch: pytest.MonkeyPatch,
    processors: int,
    cores: int | None,
    share: float,
    threads: int,
    expected: float,
) -> None:
    monkeypatch.setattr(machines, "processors", lambda: processors)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: processors if logical else cores)
    looks = [Moment(), *(Moment(others_share=share + more) for more in (-0.01, 0.0, 0.2))]
    assert crowded_cores(looks, threads) == pytest.approx(expected)
    assert crowded_cores([Moment()], threads) is None


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
    assert disturbances([Moment()] * 8, STEADY, 2) == []
    assert disturbances([], [], 2) == []
    quiet = Moment(others_share=0.02, stolen_share=0.0, is_hot=False, on_battery=False, gpu_held_back=())
    assert disturbances([quiet] * 8, STEADY, 2) == []


def test_other_programs_and_the_host() -> None:
    busy = [Moment(others_share=0.48, stolen_share=0.1)] * 3 + [Moment(others_share=0.01)] * 13
    assert disturbances(busy, STEADY, 2) == [
        "Other programs used 48 % of the processors during 3 of 16 blocks.",
        "The host took 10 % of the processors' time away during 3 of 3 blocks.",
    ]


def test_heat_battery_and_gpu() -> None:
    moments = [
        Moment(heat_c=101.0, is_hot=True, on_battery=True, gpu_held_back=("heat", "its power limit")),
        Moment(heat_c=70.0, is_hot=False, on_battery=True, gpu_held_back=("its power limit",), gpu_others=1),
    ]
    assert disturbances(moments, STEADY, 2) == [
        "A processor was at its limit of heat after 1 of 2 blocks.",
        "The machine ran on battery.",
        "The GPU was held back by heat after 1 of 2 blocks.",
        "1 other program was using the GPU.",
    ]


def test_one_core_is_told_however_many_there_are() -> None:
    one_of_16 = [Moment(others_share=0.04)] * 4
    assert disturbances(one_of_16, STEADY, 2) == []
    assert disturbances(one_of_16, STEADY, 16) == [
        "Other programs used 4 % of the processors during 4 of 4 blocks."
    ]


def test_a_reference_that_gets_slower() -> None:
    falling = [Reference(40.0, 200.0 / (1 + n / 20), 3400 - 100 * n) for n in range(8)]
    assert disturbances([], falling, 2) == [
        (
            "A fixed piece of work between turns, arithmetic, got 35 % slower during the run "
            "(its clock fell from 3.4 to 2.7 GHz)."
        )
    ]
    no_clock = [Reference(r.memory_gb_s, r.compute_gflops) for r in falling]
    assert disturbances([], no_clock, 2)[0].endswith("(heat, clocks, or other programs).")


def test_a_small_drift_of_the_reference_counts_where_the_turns_drift() -> None:
    falling = [Reference(40.0, 200.0 / (1 + n / 50)) for n in range(8)]
    assert disturbances([], falling, 2) == []
    assert "14 % slower" in disturbances([], falling, 2, turns_drift=True)[0]


def test_a_reference_that_was_disturbed_now_and_then() -> None:
    slow = Reference(20.0, 200.0)
    assert disturbances([], [*STEADY[:4], slow, slow, *STEADY[4:]], 2) == []
    assert disturbances([], [slow, *STEADY[:4], slow, *STEADY[4:], slow], 2) == [
        "A fixed piece of work between turns, reading memory, was at least 40 % slower 3 of 11 times."
    ]
