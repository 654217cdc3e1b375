"""A KV cache in main memory, mixtures of experts in the wrong place, files that fit only in few bits."""

from __future__ import annotations

from typing import Any

import pytest

from parsers.setup import Device
from rules.decode import decode_far_below, decode_slope_attention, moe_on_cpu, partial_offload
from rules.hardware import Machine
from rules.memory import ctx_oversized, ctx_steals_layers, kv_in_main_memory, np_splits_ctx
from rules.prefill import prefill_dominates_long_prompt
from rules.prefilling import plausible_rate
from rules.queue import slots_idle
from rules.ranking import rank
from rules.rule import CannotTell, Confidence, Finding, NotApplicable
from rules.testing import complaints, measures

MIB, GIB = 1 << 20, 1 << 30
RTX_4090 = [Device(name="NVIDIA GeForce RTX 4090", backend="CUDA", memory_bytes=24_080 * MIB)]
LLAMA_3_8B: dict[str, Any] = {
    "parameters": 8_030_000_000,
    "quantization": "Q4_K_M",
    "weights_bytes": int(4.58 * GIB),
    "layers": 32,
    "layers_offloaded": 33,
    "layers_offloadable": 33,
    "kv_heads": 8,
    "head_dim_k": 128,
    "head_dim_v": 128,
    "experts": 0,
    "kv_bytes_per_token": 131_072.0,
    "kv_bytes": 4 * GIB,
    "context": 32_768,
    "slots": 1,
    "devices": RTX_4090,
}
IN_MAIN_MEMORY: dict[str, Any] = {**LLAMA_3_8B, "kv_cpu_bytes": 4 * GIB}


def found(answer: object) -> Finding:
    assert isinstance(answer, Finding), answer
    return answer


def chats(
    n: int, prompt: int, prefill_tok_s: float, decode_tok_s: float, output: int = 250
) -> list[dict[str, Any]]:
    """Requests one after the other, each a little longer than the one before."""
    rows = []
    for i in range(n):
        row: dict[str, Any] = {"prompt_tokens": prompt + 10 * i, "cached_tokens": 0, "slot": 0}
        row |= {"prefill_ms": (prompt + 10 * i) * 1_000 / prefill_tok_s, "output_tokens": output}
        row |= {"decode_ms": output * 1_000 / decode_tok_s, "clock_start_ms": i * 1e6}
        rows.append({**row, "clock_end_ms": i * 1e6 + row["prefill_ms"] + row["decode_ms"]})
    return rows


# --- kv-in-main-memory


def test_a_kv_cache_in_main_memory_is_the_cause_and_comes_first() -> None:
    m = measures(chats(12, 6_000, 700, 28), setup=IN_MAIN_MEMORY)
    finding = found(kv_in_main_memory.check(m))

    assert finding.confidence is Confidence.CERTAIN
    assert finding.fault
    assert finding.fixes[0].apply == "without --no-kv-offload (-nkvo)"
    assert finding.evidence[0].value == 4 * GIB
    assert finding.evidence[0].lines[0].line == 1
    assert "The GPU has room for it" in finding.why
    assert finding.saving is not None
    assert finding.saving.bound == "at_most"
    assert finding.saving.ms == pytest.approx(12 * 250 * (1_000 / 28 - 8.5), rel=0.02)
    assert isinstance(decode_far_below.check(m), NotApplicable)
    assert plausible_rate(m) is None
    prompts = found(prefill_dominates_long_prompt.check(m))
    assert (prompts.confidence, prompts.fault) == (Confidence.POSSIBLE, False)
    assert [f.rule for f in rank([prompts, finding], m)] == [finding.rule, prompts.rule]


def test_a_kv_cache_that_the_gpu_has_no_room_for_gets_smaller_first() -> None:
    m = measures(chats(12, 6_000, 700, 28), setup=IN_MAIN_MEMORY, machine=Machine(vram_bytes=8 * GIB))
    finding = found(kv_in_main_memory.check(m))

    assert "has no room for all of it" in finding.why
    assert [fix.knob for fix in finding.fixes] == ["context", "kv-type", "kv-place"]


def test_the_slope_bounds_what_a_mixture_saves() -> None:
    """10 ms a token and 2 more for each thousand tokens of context."""
    rows = [
        {**row, "output_tokens": 200, "decode_ms": 200 * (10 + 2 * (row["prompt_tokens"] + 100) / 1_000)}
        for row in chats(12, 500, 700, 28)
    ]
    rows = [
        {**row, "prompt_tokens": tokens, "decode_ms": 200 * (10 + 2 * (tokens + 100) / 1_000)}
        for row, tokens in zip(rows, range(500, 12_500, 1_000), strict=True)
    ]
    m = measures(rows, setup={**IN_MAIN_MEMORY, "experts": 128})
    finding = found(kv_in_main_memory.check(m))

    context_ms = sum(200 * 2 * (row["prompt_tokens"] + 100) / 1_000 for row in rows)
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(context_ms, rel=0.02)
    assert isinstance(decode_slope_attention.check(m), NotApplicable)


@pytest.mark.parametrize(
    ("facts", "tok_s", "answer"),
    [
        pytest.param({"kv_cpu_bytes": None}, 28, CannotTell, id="not logged"),
        pytest.param({"kv_cpu_bytes": 0}, 28, NotApplicable, id="on the GPU"),
        pytest.param(
            {"kv_cpu_bytes": GIB, "layers_offloaded": 25}, 28, NotApplicable, id="of layers on the CPU"
        ),
        pytest.param({"layers_offloaded": 1}, 28, NotApplicable, id="the output layer alone is on the GPU"),
        pytest.param({"layers_offloaded": 0}, 28, NotApplicable, id="on the CPU with all else"),
        pytest.param({}, 115, NotApplicable, id="as fast as on the GPU"),
        pytest.param(
            {"devices": [Device(name="Apple M2 Max", backend="Metal")]}, 28, NotApplicable, id="one memory"
        ),
    ],
)
def test_a_kv_cache_in_its_place(facts: dict[str, Any], tok_s: float, answer: type) -> None:
    m = measures(chats(12, 6_000, 4_000, tok_s), setup={**IN_MAIN_MEMORY, **facts})

    assert isinstance(kv_in_main_memory.check(m), answer)


def test_what_is_in_main_memory_takes_no_gpu_memory() -> None:
    facts = {"gpu_weights_bytes": 5 * GIB, "kv_bytes": 4 * GIB}
    taken = [
        measures(setup={**LLAMA_3_8B, **facts, "kv_cpu_bytes": kv}).room.needed_bytes
        for kv in (None, 0, GIB, 4 * GIB)
    ]
    assert taken == [9 * GIB, 9 * GIB, 8 * GIB, 5 * GIB]


@pytest.mark.parametrize(("layers", "kv_gib"), [(33, 4.0), (0, 0.0), (11, 4 / 3), (None, 4.0)])
def test_unknown_layers_are_not_no_layers(layers: int | None, kv_gib: float) -> None:
    facts = {"kv_bytes": 4 * GIB, "kv_cpu_bytes": None, "layers_offloaded": layers, "layers_offloadable": 33}

    assert measures(setup={**LLAMA_3_8B, **facts}).room.kv_vram_bytes == pytest.approx(kv_gib * GIB)


# --- mixtures of experts

QWEN_30B_A3B: dict[str, Any] = {
    "parameters": 30_530_000_000,
    "quantization": "Q4_K_M",
    "weights_bytes": int(17.28 * GIB),
    "layers": 48,
    "experts": 128,
    "experts_used": 8,
    "layers_offloaded": 30,
    "layers_offloadable": 49,
    "gpu_weights_bytes": 10_800 * MIB,
    "cpu_weights_bytes": 6_900 * MIB,
    "kv_bytes": 1_500 * MIB,
    "kv_cpu_bytes": 600 * MIB,
    "kv_bytes_per_token": 98_304.0,
    "compute_bytes": 300 * MIB,
    "context": 16_384,
    "slots": 1,
    "devices": [Device(name="NVIDIA GeForce RTX 3060", backend="CUDA", memory_bytes=12_036 * MIB)],
}


@pytest.mark.parametrize(
    ("devices", "layers"),
    [
        (QWEN_30B_A3B["devices"], 25),
        ([Device(name="NVIDIA GeForce RTX 3060", backend="CUDA")], 23),
    ],
    ids=["memory known", "memory unknown"],
)
def test_layers_of_a_mixture_on_the_cpu_have_one_cause_and_one_fix(
    devices: list[Device], layers: int
) -> None:
    """17.28 GiB and 1.76 of cache and buffers on 10.75: 8.3 too many, in experts of 0.34 a layer."""
    m = measures(chats(10, 3_500, 310, 19), setup={**QWEN_30B_A3B, "devices": devices})
    finding = found(moe_on_cpu.check(m))

    assert finding.confidence is Confidence.CERTAIN
    assert finding.fault
    assert finding.saving is None
    assert finding.fixes[0].apply == f"-ngl 99 --n-cpu-moe {layers}"
    assert {fix.knob for fix in finding.fixes} == {"cpu-experts", "context", "kv-type"}
    assert isinstance(partial_offload.check(m), NotApplicable)
    assert isinstance(ctx_steals_layers.check(m), NotApplicable)
    prompts = found(prefill_dominates_long_prompt.check(m))
    assert (prompts.confidence, prompts.fault) == (Confidence.POSSIBLE, False)
    assert rank([prompts, finding], m)[0].rule == finding.rule


def test_the_number_to_start_with_fits_with_a_gib_to_spare() -> None:
    """Of a layer of this model 0.97 is experts; two layers fewer on the CPU would take of that GiB."""
    m = measures(chats(10, 3_500, 310, 19), setup=QWEN_30B_A3B)
    kept = int(found(moe_on_cpu.check(m)).fixes[0].apply.split()[-1])
    spare = [
        11 * GIB + 772 * MIB - (QWEN_30B_A3B["weights_bytes"] * (1 - 0.97 * n / 48) + 1_800 * MIB)
        for n in (kept - 2, kept)
    ]

    assert spare[0] < GIB <= spare[1]


def test_a_mixture_that_would_fit_is_put_on_the_gpu() -> None:
    m = measures(chats(10, 3_500, 310, 19), setup={**QWEN_30B_A3B, "devices": RTX_4090})

    assert isinstance(moe_on_cpu.check(m), NotApplicable)
    assert found(partial_offload.check(m)).fixes[0].knob == "gpu-layers"


ALL_EXPERTS: dict[str, Any] = {
    **QWEN_30B_A3B,
    "layers_offloaded": 49,
    "gpu_weights_bytes": 4_700 * MIB,
    "cpu_weights_bytes": 13_000 * MIB,
    "kv_cpu_bytes": 0,
    "devices": RTX_4090,
}


def test_all_experts_on_the_cpu_for_nothing() -> None:
    """1.08 GiB of active experts take 1.3 ms or more on a 4090, and 48 layers their time on top."""
    m = measures(chats(10, 3_500, 310, 30), setup=ALL_EXPERTS)
    finding = found(moe_on_cpu.check(m))

    assert finding.fault
    assert finding.fixes[0].apply == "-ngl 99 --n-cpu-moe 0"
    assert finding.saving is not None
    assert finding.saving.bound == "at_most"
    assert 0.7 < finding.saving.ms / (10 * 250 * 1_000 / 30) < 1 - 1.3 / 33.3
    unknown = found(
        moe_on_cpu.check(measures(m.requests.to_dicts(), setup={**ALL_EXPERTS, "experts_used": None}))
    )
    assert unknown.saving is None


@pytest.mark.parametrize(
    ("facts", "plausible"),
    [
        ({}, None),
        ({"gpu_weights_bytes": 17_530 * MIB}, True),
        ({"layers_offloaded": 30}, None),
    ],
    ids=["experts on the CPU", "only the embedding table", "layers on the CPU"],
)
def test_rates_beside_a_cpu_say_nothing_of_the_prompts(facts: dict[str, Any], plausible: bool | None) -> None:
    assert plausible_rate(measures(chats(10, 3_500, 3_000, 30), setup={**ALL_EXPERTS, **facts})) is plausible


# --- files that fit, and caches that are in nobody's way

LLAMA_3_70B: dict[str, Any] = {
    "parameters": 70_550_000_000,
    "quantization": "Q4_K_M",
    "weights_bytes": int(39.59 * GIB),
    "layers": 80,
    "experts": 0,
    "layers_offloaded": 42,
    "layers_offloadable": 81,
    "kv_bytes": int(2.5 * GIB),
    "kv_bytes_per_token": 327_680.0,
    "context": 8_192,
    "slots": 1,
    "devices": [Device(name="NVIDIA GeForce RTX 3090", backend="CUDA", memory_bytes=24_126 * MIB)],
}


def test_a_smaller_model_comes_before_two_bits_a_weight() -> None:
    m = measures(chats(9, 600, 130, 2.9, 200), setup=LLAMA_3_70B)
    finding = found(partial_offload.check(m))

    assert [fix.knob for fix in finding.fixes[:2]] == ["model", "weights-file"]
    assert "up to about 38 billion parameters" in finding.fixes[0].title
    assert "2.7 bits a weight: at most 21.9 GiB" in finding.fixes[1].title
    assert "clearly worse" in finding.fixes[1].cost
    assert "needs a smaller model or 2.7 bits a weight" in finding.why
    assert finding.saving is not None
    assert finding.saving.bound == "at_most"
    read_ms = 21.9 * GIB / 936e6
    assert 0.5 < finding.saving.ms / (9 * 200 * (1_000 / 2.9 - read_ms)) < 1


def test_four_bits_that_fit_are_a_smaller_quantization_as_before() -> None:
    facts = {**LLAMA_3_70B, "quantization": "Q8_0", "weights_bytes": int(69.83 * GIB)}
    two = [Device(name="NVIDIA GeForce RTX 3090", backend="CUDA", memory_bytes=24_126 * MIB)] * 2
    finding = found(partial_offload.check(measures(chats(9, 600, 130, 2.9), setup={**facts, "devices": two})))

    assert [fix.knob for fix in finding.fixes[:2]] == ["weights-file", "context"]
    assert finding.fixes[0].title.startswith("Use a quantization that fits")


def test_a_context_steals_nothing_where_all_would_fit_beside_it() -> None:
    facts = {"layers_offloaded": 20, "kv_bytes": GIB, "context": 8_192}
    m = measures(chats(30, 900, 900, 21), setup={**LLAMA_3_8B, **facts})

    assert isinstance(ctx_steals_layers.check(m), NotApplicable)
    assert found(partial_offload.check(m)).fixes[0].apply == "-ngl 99"
    short = measures(
        chats(30, 900, 900, 21), setup={**LLAMA_3_8B, **facts}, machine=Machine(vram_bytes=6 * GIB)
    )
    assert isinstance(ctx_steals_layers.check(short), Finding)


@pytest.mark.parametrize("vram_gib", [10, 20, None])
def test_a_large_cache_matters_where_memory_is_short_or_unknown(vram_gib: int | None) -> None:
    facts = {"slots": 4, "context": 8_192, "context_total": 32_768}
    devices = [
        Device(name="NVIDIA GeForce RTX 4090", backend="CUDA", memory_bytes=vram_gib and vram_gib * GIB)
    ]
    m = measures(chats(24, 900, 5_000, 115), setup={**LLAMA_3_8B, **facts, "devices": devices})
    silent = vram_gib == 20

    assert isinstance(slots_idle.check(m), NotApplicable if silent else Finding)
    assert isinstance(ctx_oversized.check(m), NotApplicable if silent else Finding)


def test_fewer_slots_keep_the_context_that_each_request_is_short_of() -> None:
    facts = {"slots": 4, "context": 4_096, "context_total": 16_384, "kv_bytes": 2 * GIB, "kv_unified": False}
    m = measures(chats(24, 3_600, 4_600, 120), setup={**LLAMA_3_8B, **facts, "devices": []})
    finding = found(np_splits_ctx.check(m))

    assert [fix.apply for fix in finding.fixes] == ["--kv-unified", "-np 2 -c 16384"]
    assert isinstance(slots_idle.check(m), NotApplicable)


def test_house_rules() -> None:
    assert complaints(kv_in_main_memory) == []
