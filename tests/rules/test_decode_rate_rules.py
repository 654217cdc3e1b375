"""Decode that is slower than the machine should be: threads, sockets, memory, disk, several GPUs, heat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.setup import Device
from rules.decode import (
    decode_far_below,
    eager_mode,
    host_limited_gpu,
    idle_clock_wake,
    memory_channels,
    multi_gpu_no_gain,
    numa,
    paging_from_disk,
    thermal_or_power,
    threads_too_few,
    threads_too_many,
)
from rules.hardware import Machine
from rules.rule import CannotTell, Confidence, Finding, NotApplicable
from rules.testing import complaints
from tests.rules.helpers import LOGS, measures, read

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from rules.measures import Measures
    from rules.rule import Answer

MODULES: tuple[ModuleType, ...] = (
    decode_far_below,
    eager_mode,
    host_limited_gpu,
    idle_clock_wake,
    memory_channels,
    multi_gpu_no_gain,
    numa,
    paging_from_disk,
    thermal_or_power,
    threads_too_few,
    threads_too_many,
)
GIB = 1 << 30
LLAMA_3_8B: dict[str, Any] = {
    "weights_bytes": 4_917_737_553,
    "quantization": "Q4_K - Medium",
    "parameters": 8_030_000_000,
    "layers": 32,
    "kv_heads": 8,
    "head_dim_k": 128,
    "head_dim_v": 128,
    "experts": 0,
    "slots": 1,
}
CPU: dict[str, Any] = {**LLAMA_3_8B, "devices": [Device(name="CPU", backend="CPU")]}
RTX_4090 = Device(name="NVIDIA GeForce RTX 4090", backend="CUDA", memory_bytes=24_080 << 20)
ON_4090: dict[str, Any] = {
    **LLAMA_3_8B,
    "layers_offloaded": 33,
    "layers_offloadable": 33,
    "devices": [RTX_4090],
}


def chats(tok_s: float, n: int = 8, output: int = 300, **more: Any) -> list[dict[str, Any]]:
    """Requests of 512 tokens, read at 512 tok/s, with equal answers."""
    prompt = {"prompt_tokens": 512, "cached_tokens": 0, "prefill_ms": 1_000.0, "slot": 0}
    answer = {"output_tokens": output, "decode_ms": output * 1_000 / tok_s}
    return [{**prompt, **answer, **more} for _ in range(n)]


def found(answer: Answer) -> Finding:
    assert isinstance(answer, Finding), answer
    return answer


def saved(finding: Finding) -> float:
    """Seconds that it saves."""
    assert finding.saving is not None
    return finding.saving.ms / 1_000


def speaking(m: Measures) -> set[str]:
    return {module.RULE.id for module in MODULES if isinstance(module.check(m), Finding)}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.RULE.id)
def test_house_rules(module: ModuleType) -> None:
    assert complaints(module) == []


REAL_LOGS = sorted(path.parent for path in LOGS.rglob("server.log"))


def test_there_are_real_logs_to_be_silent_on() -> None:
    assert len(REAL_LOGS) > 40


@pytest.mark.parametrize("log", REAL_LOGS, ids=str)
def test_silent_on_every_real_log(log: Path) -> None:
    """All of them ran on two virtual cores of one kind, with a model of 92 MB: none of this was wrong."""
    assert speaking(read(str(log.relative_to(LOGS)))) == set()


# --- paging-from-disk


D15: dict[str, Any] = {**CPU, "weights_bytes": 20_000_000_000, "layers": 60, "threads": 8}
LAPTOP = Machine(bandwidth_gb_s=51.2, memory_bytes=16 * GIB)


def test_d15_a_model_larger_than_memory() -> None:
    m = measures(chats(0.05, n=4, output=40), setup=D15, machine=LAPTOP)
    finding = found(paging_from_disk.check(m))

    assert finding.confidence is Confidence.LIKELY
    assert "13.6 GiB" in finding.fixes[0].title
    assert saved(finding) == pytest.approx(4 * 40 * (20 - 0.285), rel=0.02)
    assert {e.label: e.value for e in finding.evidence}["of it does not fit"] == 20_000_000_000 - 16 * GIB
    assert speaking(m) == {"paging-from-disk"}


def test_the_log_may_list_main_memory() -> None:
    listed = [Device(name="Intel Core i7", backend="CPU", memory_bytes=16 * GIB)]
    m = measures(chats(0.05, n=4, output=40), setup={**D15, "devices": listed})

    assert found(paging_from_disk.check(m)).confidence is Confidence.LIKELY


def test_a_disks_speed_is_possible_without_the_size_of_memory() -> None:
    finding = found(paging_from_disk.check(measures(chats(0.05, n=4, output=40), setup=D15)))

    assert finding.confidence is Confidence.POSSIBLE
    assert finding.saving is None
    assert finding.fixes[0].apply == "--load-mode mlock"
    assert "1 GB/s" in finding.why


MIXTURE = {**D15, "experts": 128, "experts_used": 8}


@pytest.mark.parametrize(
    ("tok_s", "setup", "machine", "answer"),
    [
        (0.05, D15, Machine(memory_bytes=32 * GIB), NotApplicable),
        (2.0, D15, LAPTOP, NotApplicable),
        (1.0, D15, None, CannotTell),
        (0.05, {**D15, "weights_bytes": None}, LAPTOP, CannotTell),
        (50.0, MIXTURE, Machine(memory_bytes=16 * GIB), NotApplicable),
        (1.0, {**MIXTURE, "experts_used": None}, LAPTOP, CannotTell),
        (0.05, {**ON_4090, "gpu_weights_bytes": 4_900_000_000}, Machine(memory_bytes=4 * GIB), NotApplicable),
    ],
    ids=[
        "fits",
        "too fast for a disk",
        "slow memory",
        "no size",
        "fast experts",
        "experts unknown",
        "on GPU",
    ],
)
def test_no_disk_without_its_evidence(
    tok_s: float, setup: dict[str, Any], machine: Machine | None, answer: type
) -> None:
    m = measures(chats(tok_s, n=4, output=100), setup=setup, machine=machine)

    assert isinstance(paging_from_disk.check(m), answer)


def test_experts_from_the_disk_are_possible() -> None:
    finding = found(paging_from_disk.check(measures(chats(1.0), setup=MIXTURE, machine=LAPTOP)))

    assert finding.confidence is Confidence.POSSIBLE
    assert finding.saving is None


# --- numa


D14: dict[str, Any] = {**CPU, "weights_bytes": 141_111_150_510, "quantization": "F16", "layers": 80}
TWO_SOCKETS = Machine(bandwidth_gb_s=819.2, cores=32, sockets=2)


def test_d14_two_sockets_that_read_like_one() -> None:
    m = measures(chats(2.4, n=6), setup={**D14, "threads": 32}, machine=TWO_SOCKETS)
    finding = found(numa.check(m))
    decode_s = 6 * 300 / 2.4

    assert finding.confidence is Confidence.LIKELY
    assert saved(finding) / decode_s == pytest.approx(0.44, abs=0.01)
    assert finding.fixes[0].apply == "--numa distribute"
    assert "drop_caches" in finding.fixes[0].where
    assert speaking(m) == {"numa"}


@pytest.mark.parametrize(
    ("tok_s", "threads", "machine", "answer"),
    [
        (4.31, 32, TWO_SOCKETS, NotApplicable),
        (2.4, 32, Machine(bandwidth_gb_s=819.2, sockets=1), NotApplicable),
        (2.4, 32, Machine(bandwidth_gb_s=819.2), CannotTell),
        (2.4, 32, Machine(sockets=2), CannotTell),
    ],
    ids=["after the fix", "one socket", "sockets unknown", "bandwidth unknown"],
)
def test_no_sockets_without_their_evidence(
    tok_s: float, threads: int, machine: Machine, answer: type
) -> None:
    m = measures(chats(tok_s), setup={**D14, "threads": threads}, machine=machine)

    assert isinstance(numa.check(m), answer)


def test_sockets_are_only_possible_while_threads_may_be_too_few() -> None:
    m = measures(chats(2.4), setup=D14, machine=TWO_SOCKETS)

    assert found(numa.check(m)).confidence is Confidence.POSSIBLE


# --- threads


I7 = Machine(bandwidth_gb_s=89.6, cores=20)
D13 = {1: 4.6, 2: 8.6, 4: 13.4, 8: 13.9, 20: 13.8}
"""Tokens per second of an 8B model on an i7-14700K, by threads."""


@pytest.mark.parametrize("threads", [4, 8, 20])
def test_d13_threads_are_not_the_matter_at_the_memorys_limit(threads: int) -> None:
    m = measures(chats(D13[threads]), setup={**CPU, "threads": threads}, machine=I7)

    assert speaking(m) == set()


@pytest.mark.parametrize("threads", [1, 2])
def test_d13_few_threads_leave_bandwidth_unused(threads: int) -> None:
    m = measures(chats(D13[threads]), setup={**CPU, "threads": threads, "threads_batch": threads}, machine=I7)
    finding = found(threads_too_few.check(m))
    gained = 8 * 300 * (1 / D13[threads] - 1 / 13.9)

    assert finding.confidence is Confidence.LIKELY
    assert finding.fixes[0].apply == "-t 20"
    assert gained < saved(finding) < gained * 1.15 + 8 * 1.0
    assert speaking(m) == {"threads-too-few"}


def test_real_pair_one_thread_then_two() -> None:
    """Eight requests took 25.21 s with one thread and 15.68 s with two, prefill and decode both faster."""
    told = found(threads_too_few.check(read("pairs/threads/before", Machine(cores=2))))

    assert told.confidence is Confidence.POSSIBLE
    assert told.fixes[0].apply == "-t 2"
    assert 25.21 - 15.68 <= saved(told) < 1.5 * (25.21 - 15.68)
    assert isinstance(threads_too_few.check(read("pairs/threads/after", Machine(cores=2))), NotApplicable)
    assert isinstance(threads_too_few.check(read("pairs/threads/before")), CannotTell)


@pytest.mark.parametrize(
    ("facts", "machine", "answer"),
    [
        ({"threads": 8, "threads_available": 16}, None, CannotTell),
        ({"threads": 16, "threads_available": 16}, None, NotApplicable),
        ({"threads": 8}, Machine(cores=16), CannotTell),
        ({"threads": 2}, None, CannotTell),
        ({}, Machine(cores=16), CannotTell),
        ({"threads": 2, "layers_offloaded": 15, "layers_offloadable": 33}, Machine(cores=16), NotApplicable),
        ({"threads": 2, "devices": [RTX_4090], "layers_offloaded": 0}, Machine(cores=16), NotApplicable),
    ],
    ids=[
        "the default",
        "all",
        "eight may do",
        "cores unknown",
        "threads unknown",
        "partial offload",
        "idle GPU",
    ],
)
def test_threads_are_not_few_without_evidence(
    facts: dict[str, Any], machine: Machine | None, answer: type
) -> None:
    m = measures(chats(5), setup={**CPU, **facts}, machine=machine)

    assert isinstance(threads_too_few.check(m), answer)


def test_fewer_than_a_quarter_of_the_hardware_threads_are_few_whatever_a_core_has() -> None:
    m = measures(chats(5), setup={**CPU, "threads": 2, "threads_available": 16})
    finding = found(threads_too_few.check(m))

    assert finding.confidence is Confidence.POSSIBLE
    assert finding.fixes[0].apply == "-t 8"


def test_more_threads_than_hardware_threads() -> None:
    """As in a container that may use 4 of 32: ``n_threads = 32 (n_threads_batch = 32) / 4``."""
    m = measures(chats(2), setup={**CPU, "threads": 32, "threads_available": 4})
    finding = found(threads_too_many.check(m))

    assert finding.confidence is Confidence.LIKELY
    assert finding.saving is None
    assert finding.fixes[0].apply == "-t 4"
    assert finding.evidence[0].lines[0].line == 1


def test_more_threads_than_cores_are_possible_and_bounded_by_the_memory() -> None:
    """An i9-13900K with 8 performance cores: 7B Q4_0 at 15.66 tok/s with 16 threads, 18.27 with 8."""
    setup = {**CPU, "weights_bytes": 3_822_520_893, "threads": 16, "threads_available": 32}
    m = measures(chats(15.66), setup=setup, machine=Machine(bandwidth_gb_s=102.4, cores=8))
    finding = found(threads_too_many.check(m))

    assert finding.confidence is Confidence.POSSIBLE
    assert finding.fixes[0].apply == "-t 8"
    assert saved(finding) >= 8 * 300 * (1 / 15.66 - 1 / 18.27)
    assert speaking(m) == {"threads-too-many"}


@pytest.mark.parametrize(
    ("facts", "machine", "answer"),
    [
        ({"threads": 2, "threads_available": 2}, None, CannotTell),
        ({"threads": 8, "threads_available": 16}, None, NotApplicable),
        ({"threads": 16, "threads_available": 16}, None, CannotTell),
        ({"threads": 8, "threads_available": 16}, Machine(cores=8), NotApplicable),
        ({"threads": 16, "threads_available": 16}, Machine(bandwidth_gb_s=51.2, cores=8), NotApplicable),
        ({}, Machine(cores=8), CannotTell),
    ],
    ids=["a virtual machine", "half", "all", "as many as cores", "at the memory's limit", "threads unknown"],
)
def test_threads_are_not_many_without_evidence(
    facts: dict[str, Any], machine: Machine | None, answer: type
) -> None:
    m = measures(chats(7), setup={**CPU, **facts}, machine=machine)

    assert isinstance(threads_too_many.check(m), answer)


@given(
    threads=st.integers(1, 64),
    hardware=st.none() | st.integers(1, 128),
    cores=st.none() | st.integers(1, 64),
    gb_s=st.none() | st.floats(20, 900),
    tok_s=st.floats(0.2, 60),
)
def test_threads_are_never_few_and_many_at_once(
    threads: int, hardware: int | None, cores: int | None, gb_s: float | None, tok_s: float
) -> None:
    setup = {**CPU, "threads": threads, "threads_available": hardware}
    m = measures(chats(tok_s), setup=setup, machine=Machine(bandwidth_gb_s=gb_s, cores=cores))

    assert len(speaking(m) & {"threads-too-few", "threads-too-many", "memory-channels"}) <= 1
    for module in (threads_too_few, threads_too_many, memory_channels):
        if isinstance(answer := module.check(m), Finding) and answer.saving:
            assert 0 <= answer.saving.share <= 1


# --- memory-channels


def test_half_the_bandwidth_with_threads_enough() -> None:
    m = measures(chats(7), setup={**CPU, "threads": 8}, machine=Machine(bandwidth_gb_s=89.6, cores=8))
    finding = found(memory_channels.check(m))

    assert finding.confidence is Confidence.POSSIBLE
    assert saved(finding) == pytest.approx(8 * 300 / 7 / 2, rel=0.01)
    assert "39 %" in finding.why
    assert speaking(m) == {"memory-channels"}


def test_no_more_bandwidth_than_cpus_reach() -> None:
    """At 48 % of the paper, twice would be 96 %; CPUs reach 80 %, so 0.6 of the time is left."""
    m = measures(chats(7), setup={**CPU, "threads": 8}, machine=Machine(bandwidth_gb_s=72.8, cores=8))
    finding = found(memory_channels.check(m))

    assert m.cpu.reached == pytest.approx(0.48, abs=0.005)
    assert saved(finding) == pytest.approx(8 * 300 / 7 * 0.4, rel=0.02)


@pytest.mark.parametrize(
    ("tok_s", "facts", "machine"),
    [
        (13.9, {}, I7),
        (1.0, {}, I7),
        (7, {"quantization": "IQ4_XS - 4.25 bpw"}, I7),
        (7, {}, TWO_SOCKETS),
        (7, {"devices": [RTX_4090], "layers_offloaded": 33, "layers_offloadable": 33}, I7),
    ],
    ids=["healthy", "far less", "unpacking", "two sockets", "on the GPU"],
)
def test_memory_is_not_slow_without_evidence(tok_s: float, facts: dict[str, Any], machine: Machine) -> None:
    m = measures(chats(tok_s), setup={**CPU, "threads": 8, **facts}, machine=machine)

    assert isinstance(memory_channels.check(m), NotApplicable)


def test_one_thread_tells_nothing_of_the_memory() -> None:
    m = measures(chats(7), setup={**CPU, "threads": 1}, machine=Machine(bandwidth_gb_s=89.6))

    assert isinstance(memory_channels.check(m), CannotTell)
