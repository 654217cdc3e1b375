"""GPU memory that is overfull, and mixtures of experts whose experts lie in the wrong memory."""

from __future__ import annotations

from typing import Any

import pytest

from parsers.setup import Device
from rules.decode import moe_on_cpu, partial_offload, vram_spill_sysmem
from rules.hardware import Machine
from rules.rule import CannotTell, Confidence, Finding, NotApplicable
from rules.testing import complaints, measures

GIB = 1 << 30
OFFLOADED = {"layers_offloaded": 33, "layers_offloadable": 33}
LLAMA_3_8B: dict[str, Any] = {
    **OFFLOADED,
    "parameters": 8_030_000_000,
    "layers": 32,
    "kv_heads": 8,
    "head_dim_k": 128,
    "head_dim_v": 128,
    "experts": 0,
    "kv_bytes_per_token": 131_072.0,
}


def found(answer: object) -> Finding:
    assert isinstance(answer, Finding), answer
    return answer


def ms_saved(finding: Finding) -> float:
    assert finding.saving is not None
    return finding.saving.ms


# --- vram-spill-sysmem

D12 = {"F16": (12.55, 14.35, 0.82), "Q8_0": (6.67, 56.12, 39.48), "Q4_0": (3.56, 1_735.10, 64.22)}
LAPTOP: dict[str, Any] = {
    "layers": 32,
    "kv_heads": 32,
    "head_dim_k": 128,
    "head_dim_v": 128,
    "kv_bytes": GIB // 4,
    "kv_bytes_per_token": 524_288.0,
    "context": 512,
    "slots": 1,
    "devices": [Device(name="NVIDIA GeForce RTX 3070 Laptop GPU", backend="CUDA")],
}
EIGHT = Machine(vram_bytes=8 * GIB)


def d12(quant: str) -> tuple[dict[str, Any], float, float]:
    gib, prefill_tok_s, decode_tok_s = D12[quant]
    return {**LAPTOP, "weights_bytes": int(gib * GIB), "quantization": quant}, prefill_tok_s, decode_tok_s


def laptop_chats(prefill_tok_s: float, decode_tok_s: float, n: int = 6, **more: Any) -> list[dict[str, Any]]:
    row = {
        "prompt_tokens": 512,
        "cached_tokens": 0,
        "prefill_ms": 512_000 / prefill_tok_s,
        "output_tokens": 128,
    }
    return [{**row, "decode_ms": 128_000 / decode_tok_s, "slot": 0, **more} for _ in range(n)]


def test_d12_f16_on_8_gib() -> None:
    setup, prefill_tok_s, decode_tok_s = d12("F16")
    m = measures(laptop_chats(prefill_tok_s, decode_tok_s), setup={**setup, **OFFLOADED}, machine=EIGHT)
    finding = found(vram_spill_sysmem.check(m))

    assert finding.confidence is Confidence.LIKELY
    assert [fix.knob for fix in finding.fixes] == ["weights-file", "gpu-layers"]
    assert "at most 6.7 GiB" in finding.fixes[0].title
    assert "should hold at least 12.8 GiB" in finding.why
    assert ms_saved(finding) == pytest.approx(m.wall_ms, rel=0.03)
    assert finding.saving is not None
    assert finding.saving.bound == "at_most"
    assert finding.evidence[2].lines[0].line == 1
    assert isinstance(partial_offload.check(m), NotApplicable)


@pytest.mark.parametrize(
    ("system", "confidence"), [(None, Confidence.POSSIBLE), ("windows", Confidence.LIKELY)]
)
def test_d12_q8_0_spills_its_buffers_only(system: str | None, confidence: Confidence) -> None:
    setup, prefill_tok_s, decode_tok_s = d12("Q8_0")
    rows = laptop_chats(prefill_tok_s, decode_tok_s)
    m = measures(rows, setup={**setup, **OFFLOADED, "os": system}, machine=EIGHT)
    finding = found(vram_spill_sysmem.check(m))

    assert finding.confidence is confidence
    assert "prompts are read" in finding.title
    assert finding.fixes[0].knob == "gpu-layers"
    slow_ms = 6 * 512_000 / prefill_tok_s
    assert ms_saved(finding) == pytest.approx(slow_ms * (1 - 56.12 / (33 * 39.48)), rel=0.01)


@pytest.mark.parametrize("quant", ["F16", "Q8_0", "Q4_0"])
def test_d12_as_it_was_measured_by_llama_bench(quant: str) -> None:
    setup, prefill_tok_s, decode_tok_s = d12(quant)
    bench = {"engine": "llama-bench", "kind": "benchmark"}
    read = {**bench, "prompt_tokens": 512, "prefill_tokens": 512, "prefill_ms": 512_000 / prefill_tok_s}
    rows = [read, {**bench, "output_tokens": 128, "decode_ms": 128_000 / decode_tok_s}]
    setup = {k: v for k, v in setup.items() if k in ("weights_bytes", "devices")}
    answer = vram_spill_sysmem.check(measures(rows, setup=setup, machine=EIGHT))

    if quant == "Q4_0":
        assert isinstance(answer, NotApplicable)
    else:
        assert found(answer).saving is None
        assert found(answer).confidence is Confidence.POSSIBLE
        assert ("prompts are read" in found(answer).title) == (quant == "Q8_0")


@pytest.mark.parametrize(
    ("quant", "facts", "machine", "answer"),
    [
        pytest.param("Q4_0", OFFLOADED, EIGHT, NotApplicable, id="Q4_0: nothing"),
        pytest.param("Q8_0", {**OFFLOADED, "os": "linux"}, EIGHT, NotApplicable, id="Linux fails instead"),
        pytest.param("F16", OFFLOADED, Machine(), CannotTell, id="memory unknown"),
        pytest.param(
            "F16", {"layers_offloaded": 20, "layers_offloadable": 33}, EIGHT, NotApplicable, id="split"
        ),
        pytest.param("F16", {**OFFLOADED, "devices": []}, EIGHT, NotApplicable, id="no GPU"),
        pytest.param("F16", OFFLOADED, Machine(vram_bytes=24 * GIB), NotApplicable, id="plenty"),
        pytest.param(
            "Q8_0",
            {**OFFLOADED, "kv_type_k": "q8_0", "kv_type_v": "q4_0"},
            EIGHT,
            NotApplicable,
            id="D05: KV types",
        ),
        pytest.param("F16", {**OFFLOADED, "experts": 128}, EIGHT, CannotTell, id="experts, who knows where"),
        pytest.param(
            "F16",
            {**OFFLOADED, "devices": [Device(name="Apple M2 Max", backend="Metal")]},
            EIGHT,
            NotApplicable,
            id="shared memory",
        ),
        pytest.param(
            "F16",
            {**OFFLOADED, "devices": [Device(name="AMD Radeon RX 7600", backend="ROCm")]},
            EIGHT,
            NotApplicable,
            id="another maker",
        ),
    ],
)
def test_no_spill(quant: str, facts: dict[str, Any], machine: Machine, answer: type) -> None:
    setup, prefill_tok_s, decode_tok_s = d12(quant)
    m = measures(laptop_chats(prefill_tok_s, decode_tok_s), setup={**setup, **facts}, machine=machine)

    assert isinstance(vram_spill_sysmem.check(m), answer)


def test_a_full_gpu_at_full_speed_is_no_spill() -> None:
    """F16 of 8B on a 24 GiB 3090 at 47 tok/s with much context: 23.5 GiB."""
    setup = {**LLAMA_3_8B, "weights_bytes": 16_063_177_687, "kv_bytes": int(8.5 * GIB)}
    gpu = [Device(name="NVIDIA GeForce RTX 3090", backend="CUDA", memory_bytes=24 * GIB)]
    rows = laptop_chats(4_444.0, 47.4)

    assert isinstance(vram_spill_sysmem.check(measures(rows, setup={**setup, "devices": gpu})), NotApplicable)


# --- moe-on-cpu

GPT_OSS: dict[str, Any] = {
    "weights_bytes": 60 * GIB,
    "gpu_weights_bytes": 8 * GIB,
    "cpu_weights_bytes": 52 * GIB,
    "layers": 36,
    "experts": 128,
    "experts_used": 4,
    "layers_offloaded": 37,
    "layers_offloadable": 37,
    "kv_bytes": GIB,
    "compute_bytes": GIB,
    "devices": [Device(name="NVIDIA GeForce RTX 3090", backend="CUDA", memory_bytes=24 * GIB)],
}


def chats(engine: str = "llama-server") -> list[dict[str, Any]]:
    """Twelve answers at 9 tok/s."""
    row = {"engine": engine, "prompt_tokens": 600, "cached_tokens": 0, "prefill_ms": 1_000.0}
    return [{**row, "output_tokens": 300, "decode_ms": 300_000 / 9, "slot": 0} for _ in range(12)]


@pytest.mark.parametrize(
    ("engine", "switch"),
    [
        ("llama-server", "-ngl 99 --n-cpu-moe 25"),
        ("ollama", "LLAMA_ARG_N_CPU_MOE=25"),
        ("koboldcpp", "--gpulayers 99 --moecpu 25"),
    ],
)
def test_experts_that_would_fit(engine: str, switch: str) -> None:
    """13 GiB free, a GiB of them kept: 7 of the 32 layers of experts on the CPU, 1.67 GiB each."""
    finding = found(moe_on_cpu.check(measures(chats(engine=engine), setup=GPT_OSS)))

    assert finding.confidence is Confidence.LIKELY
    assert not finding.fault
    assert finding.fixes[0].apply == switch
    assert "52.0 of 60.0 GiB of weights are on the CPU" in finding.why
    assert "14.0 of the GPU's 24.0 GiB are not taken" in finding.why
    assert finding.saving is not None
    assert finding.saving.bound == "at_most"
    assert ms_saved(finding) == pytest.approx(12 * 300_000 / 9 * 7 * (60 / 36) / 52, rel=0.01)


def test_whole_layers_of_a_mixture_on_the_cpu() -> None:
    facts = {"layers_offloaded": 12, "gpu_weights_bytes": 20 * GIB, "cpu_weights_bytes": 40 * GIB}
    finding = found(moe_on_cpu.check(measures(chats(), setup={**GPT_OSS, **facts})))

    assert "Whole layers" in finding.title
    assert finding.saving is None
    assert finding.fixes[0].apply == "-ngl 99 --n-cpu-moe 25"


@pytest.mark.parametrize(
    ("facts", "answer"),
    [
        ({"gpu_weights_bytes": 20 * GIB, "cpu_weights_bytes": 40 * GIB}, NotApplicable),
        ({"gpu_weights_bytes": 59 * GIB}, NotApplicable),
        ({"experts": 0}, NotApplicable),
        ({"layers_offloaded": 0, "gpu_weights_bytes": None}, NotApplicable),
        ({"weights_bytes": None}, CannotTell),
        ({"devices": [Device(name="NVIDIA GeForce RTX 3090", backend="CUDA")]}, CannotTell),
        ({"devices": [Device(name="Apple M3 Ultra", backend="Metal", memory_bytes=96 * GIB)]}, NotApplicable),
    ],
    ids=[
        "the GPU is full",
        "only the embedding",
        "dense",
        "CPU only",
        "size unknown",
        "memory unknown",
        "Apple",
    ],
)
def test_experts_in_their_place(facts: dict[str, Any], answer: type) -> None:
    assert isinstance(moe_on_cpu.check(measures(chats(), setup={**GPT_OSS, **facts})), answer)


@pytest.mark.parametrize("module", [vram_spill_sysmem, moe_on_cpu])
def test_house_rules(module: Any) -> None:
    assert complaints(module) == []
