"""Decode on a GPU that is slower than it should be: eager mode, several GPUs, small hosts, heat, pauses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from parsers.setup import Device
from rules.catalogue import all_rules
from rules.decode import (
    at_bandwidth_ceiling,
    decode_far_below,
    eager_mode,
    host_limited_gpu,
    idle_clock_wake,
    multi_gpu_no_gain,
    thermal_or_power,
)
from rules.hardware import Machine
from rules.rule import CannotTell, Confidence, Finding, NotApplicable
from rules.settings import Settings
from rules.testing import measures
from tests.rules.test_decode_rate_rules import (
    CPU,
    LLAMA_3_8B,
    ON_4090,
    RTX_4090,
    chats,
    found,
    saved,
    speaking,
)

# --- eager-mode


A6000 = Machine(device="NVIDIA RTX A6000")
D19: dict[str, Any] = {
    "engine": "vllm",
    "eager": True,
    "weights_bytes": 15_200_000_000,
    "quantization": "BF16",
}


def windows(tok_s: float, n: int = 12, running: int = 1, **more: Any) -> list[dict[str, Any]]:
    """Ten-second windows of vLLM in which nothing but decode happened."""
    row = {"engine": "vllm", "span_ms": 10_000.0, "prefill_tok_s": 0.0, "decode_tok_s": tok_s}
    return [{**row, "running": running, "phase": "decode", "line": 2 + i, **more} for i in range(n)]


def test_d19_eager_mode_in_windows() -> None:
    """11.2 tok/s with --enforce-eager and 45.9 without: 76 % of decode."""
    m = measures(intervals=windows(11.2), setup=D19, machine=A6000)
    finding = found(eager_mode.check(m))

    assert finding.confidence is Confidence.CERTAIN
    assert finding.saving is not None
    assert finding.saving.bound == "at_most"
    assert finding.saving.share == pytest.approx(1 - 11.2 / 45.9, abs=0.03)
    assert saved(finding) == pytest.approx(110 * finding.saving.share, rel=0.02)
    assert finding.change is None
    assert "--enforce-eager" in finding.fixes[0].apply
    assert finding.evidence[0].lines[0].line == 1


def test_eager_mode_of_requests_is_a_counterfactual() -> None:
    rows = chats(11.2, engine="sglang")
    m = measures(rows, setup={**D19, "engine": "sglang"}, machine=A6000)
    finding = found(eager_mode.check(m))

    assert finding.change is not None
    assert saved(finding) == pytest.approx(8 * 300 * (1 / 11.2 - 0.0198), rel=0.01)
    assert finding.fixes[0].apply == "without --disable-cuda-graph"


def test_eager_mode_without_a_price_is_only_possible() -> None:
    finding = found(eager_mode.check(measures(intervals=windows(11.2), setup=D19)))

    assert finding.confidence is Confidence.POSSIBLE
    assert finding.saving is None
    assert "89.3 ms" in finding.why


@pytest.mark.parametrize(
    ("rows", "setup", "answer"),
    [
        (windows(11.2), {**D19, "eager": False}, NotApplicable),
        (windows(11.2), {**D19, "eager": None}, CannotTell),
        (windows(38.0), D19, NotApplicable),
        (windows(11.2), {**D19, "devices": [Device(name="CPU", backend="CPU")]}, NotApplicable),
        ([], D19, NotApplicable),
    ],
    ids=["off", "not said", "near the memory's limit", "on a CPU", "nothing served"],
)
def test_no_eager_mode_without_its_evidence(
    rows: list[dict[str, Any]], setup: dict[str, Any], answer: type
) -> None:
    assert isinstance(eager_mode.check(measures(intervals=rows, setup=setup, machine=A6000)), answer)


def test_windows_of_many_requests_give_no_time_per_token() -> None:
    m = measures(intervals=windows(300.0, running=16), setup=D19, machine=A6000)
    finding = found(eager_mode.check(m))

    assert finding.saving is None
    assert "tok/s" not in finding.why


# --- decode-far-below


def test_half_speed_on_a_known_gpu() -> None:
    m = measures(chats(60), setup=ON_4090)
    finding = found(decode_far_below.check(m))

    assert finding.confidence is Confidence.POSSIBLE
    assert saved(finding) == pytest.approx(8 * 300 * (1 / 60 - 0.00781), rel=0.02)
    assert "llama-bench" in finding.fixes[0].apply
    assert speaking(m) == {"decode-far-below"}


def test_d20_a_healthy_gpu_hears_nothing() -> None:
    rows = [
        row
        for i in range(20)
        for row in chats(130.58 - i, n=1, output=200 + 15 * i, prompt_tokens=500 + 125 * i)
    ]
    assert speaking(measures(rows, setup=ON_4090)) == set()


RX_9070_XT = {**ON_4090, "devices": [Device(name="AMD Radeon RX 9070 XT", backend="Vulkan")]}


def test_a_gpu_without_constants_is_held_to_the_slowest_class() -> None:
    """4.9 GB at half of 640 GB/s and 155 us for each of 32 layers: 20.7 ms; 60 % of that speed is 34 ms."""
    assert isinstance(decode_far_below.check(measures(chats(35), setup=RX_9070_XT)), NotApplicable)
    finding = found(decode_far_below.check(measures(chats(25), setup=RX_9070_XT)))

    assert "no healthy GPU with the bandwidth of AMD Radeon RX 9070 XT needs more than 20.6" in finding.why
    assert saved(finding) == pytest.approx(8 * 300 * (1 / 25 - 0.00781), rel=0.02)


def test_a_cpu_that_reads_a_tenth_of_its_memory() -> None:
    m = measures(chats(1.8), setup={**CPU, "threads": 8}, machine=Machine(bandwidth_gb_s=89.6, cores=8))

    assert "container" in found(decode_far_below.check(m)).why
    assert speaking(m) == {"decode-far-below"}


@pytest.mark.parametrize(
    ("rows", "setup", "machine", "answer"),
    [
        (chats(90), ON_4090, None, NotApplicable),
        (chats(20), {**ON_4090, "layers_offloaded": 20}, None, NotApplicable),
        (chats(20), {**ON_4090, "layers_offloaded": 0}, None, CannotTell),
        (chats(60), {**ON_4090, "experts": 128}, None, CannotTell),
        (chats(60, draft_tokens=100), ON_4090, None, NotApplicable),
        (chats(60), {**ON_4090, "kv_heads": None}, None, CannotTell),
        (chats(40, prompt_tokens=16_000), ON_4090, None, CannotTell),
        (chats(60, engine="vllm"), {**ON_4090, "eager": True}, None, NotApplicable),
        (chats(60), LLAMA_3_8B, None, CannotTell),
        (chats(60, prefill_ms=90_000.0), ON_4090, None, NotApplicable),
        (chats(60, output=20), ON_4090, None, CannotTell),
    ],
    ids=[
        "a little slow",
        "partial offload",
        "an idle GPU",
        "experts",
        "drafts",
        "KV unknown",
        "deep context",
        "eager mode explains it",
        "no device",
        "too little time",
        "short answers",
    ],
)
def test_not_far_below_without_its_evidence(
    rows: list[dict[str, Any]], setup: dict[str, Any], machine: Machine | None, answer: type
) -> None:
    assert isinstance(decode_far_below.check(measures(rows, setup=setup, machine=machine)), answer)


def test_the_rules_that_explain_slow_decode_exist() -> None:
    assert set(decode_far_below.EXPLAINING) <= {loaded.rule.id for loaded in all_rules()}


def test_a_rule_that_is_switched_off_explains_nothing() -> None:
    setup = {**ON_4090, "eager": True}
    off = Settings(disabled=frozenset({"eager-mode"}))

    assert isinstance(
        decode_far_below.check(measures(chats(60, engine="vllm"), setup=setup, settings=off)), Finding
    )


# --- multi-gpu-no-gain


TWO_4090 = {**ON_4090, "devices": [RTX_4090, RTX_4090]}


def test_two_gpus_at_a_quarter_of_one() -> None:
    """As reported in llama.cpp#4014: 80 tok/s became 20 with a second card."""
    m = measures(chats(32), setup=TWO_4090)
    finding = found(multi_gpu_no_gain.check(m))

    assert finding.confidence is Confidence.POSSIBLE
    assert finding.fixes[0].apply == "-sm none -mg 0"
    assert saved(finding) == pytest.approx(8 * 300 * (1 / 32 - 0.00781), rel=0.02)
    assert speaking(m) == {"multi-gpu-no-gain"}


@pytest.mark.parametrize(
    ("tok_s", "facts", "answer"),
    [
        (122.6, {}, NotApplicable),
        (8, {"weights_bytes": 42_509_438_812, "layers": 80}, NotApplicable),
        (32, {"tensor_parallel": 2}, NotApplicable),
        (32, {"devices": [RTX_4090]}, NotApplicable),
        (32, {"devices": [Device(name=RTX_4090.name, backend="CUDA")] * 2}, CannotTell),
        (32, {"layers_offloaded": 20}, NotApplicable),
    ],
    ids=["as measured on Linux", "70B needs both", "tensor parallel", "one", "memory unknown", "partial"],
)
def test_several_gpus_are_no_fault_without_evidence(
    tok_s: float, facts: dict[str, Any], answer: type
) -> None:
    assert isinstance(multi_gpu_no_gain.check(measures(chats(tok_s), setup={**TWO_4090, **facts})), answer)


# --- host-limited-gpu


SMALL: dict[str, Any] = {**ON_4090, "weights_bytes": 2_000_000_000, "layers": 28, "threads_available": 4}


def test_a_small_model_behind_a_single_board_computer() -> None:
    m = measures(chats(140), setup=SMALL)
    finding = found(host_limited_gpu.check(m))

    assert finding.confidence is Confidence.POSSIBLE
    assert "4 hardware threads" in finding.why
    assert speaking(m) == {"host-limited-gpu"}


@pytest.mark.parametrize(
    ("tok_s", "facts"),
    [
        (140, {"threads_available": 16}),
        (215, {}),
        (50, {}),
        (38, {"weights_bytes": 14_000_000_000, "layers": 40}),
        (140, {"threads_available": None}),
    ],
    ids=["a PC", "healthy", "slower than a host explains", "a large model", "host unknown"],
)
def test_no_slow_host_without_evidence(tok_s: float, facts: dict[str, Any]) -> None:
    assert not isinstance(host_limited_gpu.check(measures(chats(tok_s), setup={**SMALL, **facts})), Finding)


# --- thermal-or-power


def worked(
    ms_per_token: list[float], pauses_ms: dict[int, float] | None = None, **more: Any
) -> list[dict[str, Any]]:
    """Answers of 300 tokens one after the other, each with its time per token."""
    rows, clock = [], 0.0
    for i, ms in enumerate(ms_per_token):
        clock += 500.0 + (pauses_ms or {}).get(i, 0.0)
        row = chats(1_000 / ms, n=1, line=i + 1, clock_start_ms=clock, **more)[0]
        clock += row["prefill_ms"] + row["decode_ms"]
        rows.append({**row, "clock_end_ms": clock})
    return rows


RISING = [*np.linspace(80, 84, 10), *np.linspace(90, 118, 10), *np.linspace(119, 121, 10)]


def test_a_laptop_that_gets_hot() -> None:
    hot = measures(worked(RISING), setup=ON_4090)
    finding = found(thermal_or_power.check(hot))

    assert finding.confidence is Confidence.POSSIBLE
    assert "from 82.4 to 120.1 ms" in finding.why
    assert saved(finding) == pytest.approx(0.3 * sum(max(ms - 82.4, 0) for ms in RISING), rel=0.05)

    rested = measures(worked([*RISING, 81.0], {30: 600_000.0}), setup=ON_4090)
    assert found(thermal_or_power.check(rested)).confidence is Confidence.LIKELY


def test_contexts_that_grow_with_time_are_no_heat() -> None:
    rows = worked(RISING)
    grown = [{**row, "prompt_tokens": 512 + 1_000 * i} for i, row in enumerate(rows)]
    mixed = [{**row, "prompt_tokens": 512 + 7_919 * i % 5_000} for i, row in enumerate(rows)]

    assert isinstance(thermal_or_power.check(measures(grown, setup=ON_4090)), CannotTell)
    assert isinstance(thermal_or_power.check(measures(mixed, setup=ON_4090)), Finding)


@pytest.mark.parametrize(
    ("ms", "pauses", "answer"),
    [
        ([80.0] * 30, {}, NotApplicable),
        (RISING[::3], {}, NotApplicable),
        (RISING, dict.fromkeys(range(30), 90_000.0), NotApplicable),
        ([80.0, 120.0] * 15, {}, NotApplicable),
        ([*RISING[:10]] * 3, {}, NotApplicable),
    ],
    ids=["steady", "a few minutes", "pauses between", "noise", "no trend"],
)
def test_no_heat_without_its_evidence(ms: list[float], pauses: dict[int, float], answer: type) -> None:
    assert isinstance(thermal_or_power.check(measures(worked(ms, pauses), setup=ON_4090)), answer)


def test_no_heat_without_a_clock() -> None:
    assert isinstance(thermal_or_power.check(measures(chats(10, n=30), setup=ON_4090)), CannotTell)


# --- idle-clock-wake


MAC: dict[str, Any] = {**LLAMA_3_8B, "devices": [Device(name="Apple M4 Pro", backend="Metal")]}


def after_pauses(wake_ms: float, tokens: int = 40) -> list[dict[str, Any]]:
    """Short prompts, every other one after five seconds without work."""
    rows, clock = [], 0.0
    for i in range(20):
        paused = i % 2 == 1
        clock += 5_000.0 if paused else 100.0
        row = chats(20, n=1, output=32, prompt_tokens=tokens, line=i + 1, clock_start_ms=clock)[0]
        row["prefill_ms"] = 60.0 + i + (wake_ms if paused else 0.0)
        clock += row["prefill_ms"] + row["decode_ms"]
        rows.append({**row, "clock_end_ms": clock})
    return rows


def test_a_mac_that_wires_its_memory_again() -> None:
    finding = found(idle_clock_wake.check(measures(after_pauses(260.0), setup=MAC)))

    assert finding.confidence is Confidence.POSSIBLE
    assert finding.requests == 10
    assert saved(finding) == pytest.approx(2.6, rel=0.05)
    assert finding.evidence[0].lines[0].line == 2


@pytest.mark.parametrize(
    ("backend", "switch"), [("Metal", "GGML_METAL"), ("CUDA", "a request for one token")]
)
def test_only_metal_has_a_switch_against_it(backend: str, switch: str) -> None:
    setup = {**MAC, "devices": [Device(name="RTX 3060", backend=backend)], "engine_version": "b9000"}
    finding = found(idle_clock_wake.check(measures(after_pauses(260.0), setup=setup)))

    assert finding.fixes[0].apply.startswith(switch)


@pytest.mark.parametrize(
    ("rows", "setup", "answer"),
    [
        (after_pauses(0.0), MAC, NotApplicable),
        (after_pauses(260.0), CPU, NotApplicable),
        (after_pauses(260.0)[:6], MAC, CannotTell),
        (
            [{**r, "prefill_tokens": 40 if i % 2 else 400} for i, r in enumerate(after_pauses(260.0))],
            MAC,
            CannotTell,
        ),
        (chats(20, n=20), MAC, CannotTell),
    ],
    ids=["no difference", "on a CPU", "few", "other lengths", "no clock"],
)
def test_no_wake_without_its_evidence(
    rows: list[dict[str, Any]], setup: dict[str, Any], answer: type
) -> None:
    assert isinstance(idle_clock_wake.check(measures(rows, setup=setup)), answer)


def test_why_pauses_or_places_are_unknown() -> None:
    timed = [
        {**row, "finished_at": datetime(2026, 1, 1, 0, i, tzinfo=UTC)}
        for i, row in enumerate(chats(20, n=20))
    ]
    ends = [{**row, "prefill_ms": None, "decode_ms": None, "total_ms": None} for row in timed]
    reasons = {
        "the log has no clock": chats(20, n=20),
        "times are printed in whole seconds": timed,
        "requests have the time at which they ended": ends,
        "too few requests have a time": [*chats(20, n=20), *timed],
        "no single request is logged": [],
    }
    for start, rows in reasons.items():
        answer = idle_clock_wake.check(measures(rows, setup=MAC))
        assert isinstance(answer, CannotTell)
        assert answer.reason.startswith(start)


def test_the_ceiling_and_a_fault_are_never_said_together() -> None:
    for tok_s in (30, 60, 77, 100, 130):
        m = measures(chats(tok_s), setup=ON_4090)
        assert not (isinstance(at_bandwidth_ceiling.check(m), Finding) and speaking(m))
