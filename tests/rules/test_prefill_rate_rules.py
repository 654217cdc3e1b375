"""Rules about the rate at which prompts are read: what fires them, with its numbers, and what must not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from parsers.setup import Device
from rules.hardware import Machine
from rules.prefill import (
    kv_type_fallback,
    prefill_after_load_slow,
    prefill_at_cpu_speed,
    prefill_quadratic,
    prefill_slowed_by_concurrency,
    tiny_prompt_overhead,
    ubatch_small,
    ubatch_small_moe_on_cpu,
)
from rules.ranking import rank
from rules.rule import CannotTell, Confidence, Finding, NotApplicable
from rules.testing import complaints
from tests.rules.helpers import LOGS, measures, read

if TYPE_CHECKING:
    from rules.rule import Answer

MODULES = (
    prefill_at_cpu_speed,
    prefill_quadratic,
    ubatch_small,
    ubatch_small_moe_on_cpu,
    prefill_slowed_by_concurrency,
    tiny_prompt_overhead,
    prefill_after_load_slow,
)
GB = 10**9
RTX_4090 = Device(name="NVIDIA GeForce RTX 4090", backend="CUDA", memory_bytes=24_080 << 20)
ON_4090: dict[str, Any] = {
    "weights_bytes": 4_917_737_553,
    "layers": 32,
    "layers_offloaded": 33,
    "layers_offloadable": 33,
    "experts": 0,
    "slots": 1,
    "context": 32_768,
    "devices": [RTX_4090],
}


def request(
    tokens: int, tok_s: float = 5_000.0, output: int = 100, decode_tok_s: float = 120.0, **more: Any
) -> dict[str, Any]:
    """A prompt that is evaluated whole and alone."""
    return {
        "prompt_tokens": tokens,
        "cached_tokens": 0,
        "prefill_ms": 1_000 * tokens / tok_s,
        "output_tokens": output,
        "decode_ms": 1_000 * output / decode_tok_s,
        "slot": 0,
        **more,
    }


def found(answer: Answer) -> Finding:
    assert isinstance(answer, Finding), answer
    return answer


def saved_ms(finding: Finding) -> float:
    assert finding.saving is not None
    return finding.saving.ms


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.RULE.id)
def test_house_rules(module: Any) -> None:
    assert complaints(module) == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.RULE.id)
def test_silence_on_real_logs(module: Any) -> None:
    logs = [str(path.parent.relative_to(LOGS)) for path in LOGS.glob("*/*/server.log")]
    assert len(logs) > 40
    assert [log for log in logs if isinstance(module.check(read(log)), Finding)] == []


# --- prefill-at-cpu-speed


def test_a_gpu_that_reads_three_times_as_fast_as_it_writes() -> None:
    m = measures([request(2_000, tok_s=360.0)] * 10, setup=ON_4090)

    finding = found(prefill_at_cpu_speed.check(m))

    assert finding.confidence is Confidence.LIKELY
    assert saved_ms(finding) == pytest.approx(10 * 2_000 / 0.36 * (1 - 3 / 33), rel=0.005)
    assert finding.fixes[0].knob == "gpu-prefill"
    assert "3.0 times" in finding.why
    assert finding.evidence[0].lines
    assert finding.evidence[-1].lines


def on(name: str) -> dict[str, Any]:
    return {**ON_4090, "devices": [Device(name=name, backend="Vulkan", memory_bytes=16 << 30)]}


@pytest.mark.parametrize(
    ("name", "ratio"), [("AMD Radeon RX 5700 XT", 5.3), ("AMD Radeon VII", 5.3), ("AMD Radeon R9 200", 6.4)]
)
def test_cards_without_matrix_cores_read_as_slowly_as_they_do(name: str, ratio: float) -> None:
    m = measures([request(2_000, 60 * ratio, 100, 60)] * 10, setup=on(name))
    assert isinstance(prefill_at_cpu_speed.check(m), NotApplicable)


def test_a_kind_of_gpu_that_was_not_measured_is_only_possible() -> None:
    m = measures([request(2_000, 180, 100, 60)] * 10, setup=on("AMD Radeon RX 7900 XTX"))

    finding = found(prefill_at_cpu_speed.check(m))

    assert finding.confidence is Confidence.POSSIBLE
    assert finding.saving is not None
    assert finding.saving.bound == "at_most"
    assert "of this kind" not in finding.why


def test_no_token_is_promised_faster_than_the_memory_lets_it_be() -> None:
    """An RTX 3060 reads 4.9 GB at 360 GB/s in 13.7 ms; 6.7 times as fast as here would be 6.8 ms."""
    gpu = Device(name="NVIDIA GeForce RTX 3060", backend="CUDA", memory_bytes=12_288 << 20)
    setup = {**ON_4090, "devices": [gpu], "kv_type_k": "q8_0", "kv_type_v": "q4_0"}
    m = measures([request(3_000, 160, 300, 22)] * 8, setup=setup)

    finding = found(kv_type_fallback.check(m))

    assert finding.change is not None
    after = finding.change(m.ledger)
    assert after.decode_ms.sum() / after.output_tokens.sum() == pytest.approx(
        m.decoding.predicted_ms(), rel=0.01
    )
    assert saved_ms(finding) == pytest.approx(m.ledger.total_ms - after.total_ms, rel=0.01)
    assert [fix.knob for fix in finding.fixes] == ["kv-type", "attention-kernels"]


def test_no_build_of_llama_cpp_has_kernels_for_iq4_nl() -> None:
    setup = {**ON_4090, "kv_type_k": "iq4_nl", "kv_type_v": "iq4_nl"}

    def knobs(engine: str) -> list[str]:
        m = measures([{**request(3_000, 160, 300, 18), "engine": engine}] * 8, setup=setup)
        return [fix.knob for fix in found(kv_type_fallback.check(m)).fixes]

    assert knobs("llama-server") == ["kv-type"]
    assert knobs("ik-llama") == ["kv-type", "attention-kernels"]


SPILLED = {
    "weights_bytes": 7_161_089_720,
    "gpu_weights_bytes": 7_161_089_720,
    "kv_bytes": 256 << 20,
    "os": "windows",
    "devices": [Device(name="NVIDIA GeForce RTX 3070 Laptop GPU", backend="CUDA", memory_bytes=8_192 << 20)],
}


@pytest.mark.parametrize(
    ("tok_s", "decode_tok_s", "setup"),
    [
        pytest.param(2_040, 120, {}, id="17 times: the slowest half of the range"),
        pytest.param(360, 120, {"layers_offloaded": 20}, id="partly on the CPU"),
        pytest.param(30, 10, {"layers_offloaded": 0, "devices": []}, id="CPU"),
        pytest.param(114, 18, {"kv_type_k": "q8_0", "kv_type_v": "q4_0"}, id="D05: types of the KV cache"),
        pytest.param(56.12, 39.48, SPILLED, id="D12: memory spills"),
        pytest.param(
            84, 8.7, {"experts": 256, "cpu_weights_bytes": 4 * GB, "gpu_weights_bytes": GB}, id="D04: experts"
        ),
    ],
)
def test_prefill_is_not_at_cpu_speed(tok_s: float, decode_tok_s: float, setup: dict[str, Any]) -> None:
    m = measures([request(3_000, tok_s, 300, decode_tok_s)] * 8, setup={**ON_4090, **setup})
    assert isinstance(prefill_at_cpu_speed.check(m), NotApplicable)


def test_types_of_the_kv_cache_stay_the_first_cause() -> None:
    setup = {**ON_4090, "kv_type_k": "q8_0", "kv_type_v": "q4_0", "experts": 128}
    m = measures([request(3_000, 114, 300, 18)] * 8, setup=setup)
    findings = [found(kv_type_fallback.check(m))]
    findings += [a for module in MODULES if isinstance(a := module.check(m), Finding)]
    assert [f.rule for f in rank(findings, m)] == ["kv-type-fallback"]


def test_prompts_that_share_their_batches_are_not_judged() -> None:
    """Four at once get a quarter of the prefill rate each and most of their decode rate."""
    rows = [
        request(2_000, 1_250, 100, 100, slot=i % 4, clock_start_ms=100.0 * i, clock_end_ms=100.0 * i + 2_600)
        for i in range(16)
    ]
    assert isinstance(prefill_at_cpu_speed.check(measures(rows, setup={**ON_4090, "slots": 4})), CannotTell)


def test_a_device_that_only_the_user_names_may_not_be_in_use() -> None:
    rows = [request(2_000, 30, 100, 10)] * 8
    m = measures(rows, setup={"slots": 1}, machine=Machine(device="RTX 4090"))
    assert isinstance(prefill_at_cpu_speed.check(m), CannotTell)


# --- prefill-quadratic

LENGTHS = [int(n) for n in np.geomspace(500, 16_000, 12)]


def attended(tokens: int, pair_us: float = 0.01414) -> dict[str, Any]:
    """RTX 4090, Llama 3 8B Q4_K_M without flash attention: 131.8 us a token, 0.01414 a token and token."""
    return request(tokens, output=40) | {"prefill_ms": (131.8 * tokens + pair_us * tokens**2) / 1_000}


def test_attention_takes_most_of_the_longest_prompts() -> None:
    m = measures([attended(n) for n in LENGTHS], setup={**ON_4090, "flash_attention": False})

    finding = found(prefill_quadratic.check(m))

    assert finding.confidence is Confidence.LIKELY
    assert finding.saving is not None
    assert finding.saving.bound == "at_most"
    attention_ms = sum(0.01414e-3 * n**2 for n in LENGTHS)
    assert finding.saving.ms == pytest.approx(0.5 * attention_ms, rel=0.02)
    assert finding.fixes[0].apply == "-fa on"
    said = {e.label: e.value for e in finding.evidence}
    assert said["attention at the longest prompt"] == pytest.approx(0.632, abs=0.01)
    assert said["attention equals weights at"] == pytest.approx(9_321, rel=0.02)


def test_attention_on_amd_or_of_unknown_kind_is_only_possible() -> None:
    amd = [Device(name="AMD Radeon RX 7900 XTX", backend="ROCm", memory_bytes=24 << 30)]
    for more in ({"flash_attention": False, "devices": amd}, {"flash_attention": None}):
        m = measures([attended(n) for n in LENGTHS], setup={**ON_4090, **more})
        assert found(prefill_quadratic.check(m)).confidence is Confidence.POSSIBLE


@pytest.mark.parametrize(
    ("rows", "more"),
    [
        pytest.param([attended(n) for n in LENGTHS], {"flash_attention": True}, id="flash attention is on"),
        pytest.param([attended(n, 0.0) for n in LENGTHS], {}, id="no attention"),
        pytest.param([attended(n, 0.002) for n in LENGTHS], {}, id="little attention"),
        pytest.param([attended(n) | {"engine": "vllm"} for n in LENGTHS], {}, id="vLLM"),
        pytest.param(
            [attended(n) for n in LENGTHS], {"layers_offloaded": 0, "devices": []}, id="on the CPU"
        ),
        pytest.param([attended(n) | {"output_tokens": 900, "decode_ms": 90_000.0} for n in LENGTHS], {},
                     id="decode is where the time goes"),
    ],
)  # fmt: skip
def test_attention_is_no_matter(rows: list[dict[str, Any]], more: dict[str, Any]) -> None:
    m = measures(rows, setup={**ON_4090, "flash_attention": False, **more})
    assert isinstance(prefill_quadratic.check(m), NotApplicable)


def test_prompts_of_like_length_or_with_unknown_cache_show_no_attention() -> None:
    setup = {**ON_4090, "flash_attention": False}
    chats = [attended(n) for n in range(500, 3_001, 130)]
    hidden = [attended(n) | {"cached_tokens": None, "prefill_tokens": n} for n in LENGTHS]
    for rows in (chats, hidden):
        assert isinstance(prefill_quadratic.check(measures(rows, setup=setup)), CannotTell)


# --- ubatch-small and ubatch-small-moe-on-cpu


def test_small_batches_cost_at_most_what_was_measured() -> None:
    m = measures([request(4_000, output=8)] * 10, setup={**ON_4090, "ubatch": 128, "batch": 2_048})

    finding = found(ubatch_small.check(m))

    assert finding.confidence is Confidence.POSSIBLE
    assert not finding.fault
    assert saved_ms(finding) == pytest.approx(10 * 800 * (1 - 1 / 1.39), rel=0.01)
    assert finding.saving is not None
    assert finding.saving.bound == "at_most"
    assert finding.fixes[0].apply == "-b 2048 -ub 512"
    assert finding.evidence[0].lines


def test_a_mixture_gains_more_from_larger_batches() -> None:
    """Gemma 4 26B A4B on an RTX 3090: 2,497 tok/s at 256 tokens a batch, 5,172 tok/s at 2,048."""
    m = measures([request(4_000, output=8)] * 10, setup={**ON_4090, "ubatch": 256, "experts": 128})
    finding = found(ubatch_small.check(m))
    assert saved_ms(finding) == pytest.approx(10 * 800 * (1 - 2_497 / 5_172), rel=0.01)
    assert finding.fixes[0].apply == "-b 2048 -ub 2048"


def test_steps_of_another_engine_count_as_batches() -> None:
    rows = [request(4_000, output=8, engine="vllm")] * 10
    m = measures(rows, setup={"chunk_tokens": 64, "devices": [RTX_4090]})
    assert found(ubatch_small.check(m)).fixes[0].apply == "--max-num-batched-tokens 512"


@pytest.mark.parametrize(
    ("tokens", "setup"),
    [
        pytest.param(4_000, {"ubatch": 512}, id="the default"),
        pytest.param(4_000, {"ubatch": 256, "weights_bytes": 24 * GB, "kv_bytes": 0}, id="no memory left"),
        pytest.param(250, {"ubatch": 128}, id="two batches"),
        pytest.param(4_000, {"ubatch": 128, "layers_offloaded": 0, "devices": []}, id="CPU"),
        pytest.param(4_000, {"ubatch": 256}, id="8 % of a small part"),
    ],
)
def test_batches_are_large_enough(tokens: int, setup: dict[str, Any]) -> None:
    m = measures([request(max(tokens, 256), output=100)] * 10, setup={**ON_4090, **setup})
    assert isinstance(ubatch_small.check(m), NotApplicable)


GLM_4_5_AIR = {
    **ON_4090,
    "weights_bytes": 68 * GB,
    "gpu_weights_bytes": 23 * GB,
    "layers": 47,
    "layers_offloaded": 48,
    "layers_offloadable": 48,
    "experts": 128,
    "experts_used": 8,
    "ubatch": 512,
    "batch": 2_048,
}


def test_experts_that_are_copied_for_every_batch() -> None:
    """textgen#7309: 15,000 tokens at 175 tok/s with 512 tokens a batch, at 535 tok/s with 2,048."""
    m = measures([request(15_000, 175, 100, 10)] * 4, setup=GLM_4_5_AIR)

    finding = found(ubatch_small_moe_on_cpu.check(m))

    measured_ms = 4 * 15_000 * (1_000 / 175 - 1_000 / 535)
    assert saved_ms(finding) == pytest.approx(4 * (30 - 4) * 45 * GB / (24 * 1e6), rel=0.03)
    assert 0.6 * measured_ms < saved_ms(finding) < measured_ms
    assert finding.confidence is Confidence.LIKELY
    assert finding.fixes[0].apply == "-b 4096 -ub 4096"
    assert "30 times" in finding.why


@pytest.mark.parametrize(
    ("tok_s", "setup"),
    [
        pytest.param(175, {"ubatch": 4_096, "batch": 4_096}, id="large batches"),
        pytest.param(175, {"gpu_weights_bytes": 60 * GB}, id="few experts on the CPU"),
        pytest.param(175, {"experts": 0}, id="dense"),
        pytest.param(2_000, {}, id="faster than a copy"),
        pytest.param(175, {"layers_offloaded": 20}, id="whole layers on the CPU"),
        pytest.param(175, {"devices": [Device(name="Apple M3 Max", backend="Metal")]}, id="shared memory"),
    ],
)
def test_no_experts_are_copied(tok_s: float, setup: dict[str, Any]) -> None:
    m = measures([request(15_000, tok_s, 100, 10)] * 4, setup={**GLM_4_5_AIR, **setup})
    assert isinstance(ubatch_small_moe_on_cpu.check(m), NotApplicable)


# --- prefill-slowed-by-concurrency


def crowd(slowdown: float, alone: int = 4) -> list[dict[str, Any]]:
    """Prompts alone, a minute apart, then eight that all overlap."""
    solo = [
        request(2_000, slot=0, clock_start_ms=60_000.0 * i, clock_end_ms=60_000.0 * i + 1_233)
        for i in range(alone)
    ]
    beside = [
        request(2_000, 5_000 / slowdown, slot=i % 4, clock_start_ms=1e6 + i, clock_end_ms=1.01e6 + i)
        for i in range(8)
    ]
    return solo + beside


def test_prompts_wait_for_their_company() -> None:
    finding = found(prefill_slowed_by_concurrency.check(measures(crowd(4.0), setup={**ON_4090, "slots": 4})))

    assert finding.requests == 8
    assert "4.0 times" in finding.why
    assert "9.6 s more" in finding.why
    assert finding.saving is None
    assert not finding.fault
    assert finding.fixes[0].apply == "-np 2"


@pytest.mark.parametrize(
    ("rows", "answer"),
    [
        pytest.param(crowd(1.5), NotApplicable, id="half slower"),
        pytest.param(crowd(4.0, alone=2), CannotTell, id="two alone"),
        pytest.param([request(2_000)] * 10, NotApplicable, id="one at a time"),
        pytest.param([request(2_000, slot=i % 4) for i in range(12)], CannotTell, id="no clock"),
    ],
)
def test_company_costs_little(rows: list[dict[str, Any]], answer: type) -> None:
    m = measures(rows, setup={**ON_4090, "slots": 4})
    assert isinstance(prefill_slowed_by_concurrency.check(m), answer)


# --- tiny-prompt-overhead


def turns(tiny_ms: float, n: int = 12) -> list[dict[str, Any]]:
    """A chat whose history is cached: 2,000 tokens at first, then 20 new ones a turn."""
    turn = {"prompt_tokens": 2_020, "cached_tokens": 2_000, "prefill_tokens": 20, "prefill_ms": tiny_ms}
    return [request(2_000), *[request(2_020) | turn for _ in range(n)], request(1_000)]


def test_a_fixed_cost_on_every_short_turn() -> None:
    m = measures(turns(900.0), setup=ON_4090)

    finding = found(tiny_prompt_overhead.check(m))

    needed_ms = 1_000 / 120 + 20 / 5
    assert finding.requests == 12
    assert saved_ms(finding) == pytest.approx(12 * (900 - needed_ms), rel=0.005)
    assert finding.confidence is Confidence.POSSIBLE
    assert "every 60 s" in finding.fixes[0].apply
    assert "METAL" not in finding.fixes[0].apply


def test_thirteen_tokens_of_a_mixture_take_as_long_as_thirteen_steps() -> None:
    """D04, ik_llama.cpp#455: 13 tokens in 1,171 ms where a token takes 115 ms is no fault."""
    tiny = request(13, 11.1, 113, 8.7)
    rows = [request(536, 84, 113, 8.7)] + [tiny] * 6
    for experts in (256, None):
        m = measures(rows, setup={**ON_4090, "experts": experts})
        assert isinstance(tiny_prompt_overhead.check(m), NotApplicable)


def test_few_or_fast_short_turns_are_fine() -> None:
    for rows in (turns(200.0), turns(900.0, 1) + [request(1_000)] * 10):
        assert isinstance(tiny_prompt_overhead.check(measures(rows, setup=ON_4090)), NotApplicable)


# --- prefill-after-load-slow


def starts(cold_ms: float, runs: int = 4) -> list[dict[str, Any]]:
    """Each process start reads one cold prompt and four warm ones."""
    cold, warm = request(2_000) | {"prefill_ms": cold_ms}, request(2_000)
    return [{**row, "run": run} for run in range(runs) for row in (cold, warm, warm, warm, warm)]


def test_the_first_prompt_of_each_start_waits() -> None:
    m = measures(starts(4_400.0), setups=[ON_4090] * 4)

    finding = found(prefill_after_load_slow.check(m))

    assert finding.requests == 4
    assert finding.confidence is Confidence.LIKELY
    assert saved_ms(finding) == pytest.approx(4 * 4_000, rel=0.005)
    assert not finding.fault
    assert '"n_predict": 1' in finding.fixes[0].apply


def test_a_load_that_a_request_waited_for_counts_as_a_start() -> None:
    rows = [row | {"engine": "ollama", "run": 0, "load_ms": 40.0} for row in starts(4_400.0)]
    rows = [row | {"load_ms": 9_000.0} if row["prefill_ms"] > 4_000 else row for row in rows]
    finding = found(prefill_after_load_slow.check(measures(rows, setup=ON_4090)))
    assert finding.requests == 4
    assert '"num_predict": 1' in finding.fixes[0].apply


@pytest.mark.parametrize(
    ("rows", "setups", "answer"),
    [
        pytest.param(starts(1_000.0), [ON_4090] * 4, NotApplicable, id="2.5 times"),
        pytest.param(starts(4_400.0), [{}] * 4, NotApplicable, id="no header: others may have come before"),
        pytest.param(starts(4_400.0, 1), [ON_4090], NotApplicable, id="one start"),
        pytest.param(starts(4_400.0)[::5], [ON_4090] * 4, CannotTell, id="nothing to compare with"),
    ],
)
def test_starts_are_fine(rows: list[dict[str, Any]], setups: list[dict[str, Any]], answer: type) -> None:
    assert isinstance(prefill_after_load_slow.check(measures(rows, setups=setups)), answer)


def test_healthy_4090_hears_nothing() -> None:
    """D20."""
    rows = [request(n, 7_000, 300, 130, slot=0) for n in range(500, 3_001, 130)]
    m = measures(rows, setup={**ON_4090, "flash_attention": True, "ubatch": 512, "batch": 2_048})
    assert [module.RULE.id for module in MODULES if isinstance(module.check(m), Finding)] == []
