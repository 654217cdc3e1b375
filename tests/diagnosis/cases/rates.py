"""D12 and D16: a GPU whose memory spills, and a draft that is refused."""

from __future__ import annotations

from dataclasses import replace

from rules.hardware import Machine as Given
from tests.diagnosis.case import ADVICE, Case
from tests.diagnosis.cases.cpu import LLAMA_7B
from tests.diagnosis.facts import Asked, Gpu, Machine, Model, asked
from tests.diagnosis.writers import llama_server_bare
from tests.diagnosis.writers.llama_server import prefixed

LAPTOP = Machine(
    cpu="AMD Ryzen 7 5800H",
    gpus=(Gpu("NVIDIA GeForce RTX 3070 Laptop GPU", 8191, "CUDA", "compute capability 8.6, VMM: yes"),),
    compiler="MSVC 19.43.34808.0 for x64",
)


def _laptop(
    file_type: str, size: str, gpu_mib: float, prefill_tok_s: float, decode_tok_s: float
) -> dict[str, str]:
    model = replace(
        LLAMA_7B,
        path=f"C:\\models\\llama-7b-{file_type}.gguf",
        file_type=file_type,
        size=size,
        weights={"CPU_Mapped": gpu_mib / 50, "CUDA0": gpu_mib},
    )
    asks = [asked(512, 128, prefill_tok_s=prefill_tok_s, decode_tok_s=decode_tok_s, pause_ms=1_000)] * 6
    varied = [replace(one, prompt=512 - i % 3, cached=0) for i, one in enumerate(asks)]
    return {"server.log": llama_server_bare.log(model, LAPTOP, varied, build=4980)}


def _f16() -> dict[str, str]:
    return _laptop("F16", "12.55 GiB (16.00 BPW)", 12_603.02, 14.35, 0.82)


def _q8_0() -> dict[str, str]:
    return _laptop("Q8_0", "6.67 GiB (8.50 BPW)", 6695.83, 56.12, 39.48)


def _q4_0() -> dict[str, str]:
    return _laptop("Q4_0", "3.56 GiB (4.54 BPW)", 3577.56, 1735.10, 64.22)


def _weak_draft() -> dict[str, str]:
    target = Model(
        path="C:\\models\\Qwen3-4B-Q4_K_M.gguf",
        name="Qwen3 4B",
        file_type="Q4_K - Medium",
        size="2.32 GiB (4.95 BPW)",
        params="4.02 B",
        arch="qwen3",
        kind="4B",
        layers=36,
        embedding=2560,
        trained=40_960,
        offloaded=(37, 37),
        weights={"CPU_Mapped": 304.28, "Vulkan0": 2375.92},
        cache={"Vulkan0": 1152.0},
        compute={"Vulkan0": 306.75, "Vulkan_Host": 86.05},
        ubatch=2048,
    )
    draft = replace(
        target,
        path="C:\\models\\Qwen3-0.6B-Q8_0.gguf",
        name="Qwen3 0.6B",
        file_type="Q8_0",
        size="604.15 MiB (8.50 BPW)",
        params="596.05 M",
        kind="0.6B",
        layers=28,
        heads=16,
        embedding=1024,
        offloaded=(29, 29),
        weights={"CPU_Mapped": 157.65, "Vulkan0": 604.15},
        cache={"Vulkan0": 896.0},
    )
    gpu = Gpu(
        "AMD Radeon RX 9070 XT", 16_304, "Vulkan", "(AMD proprietary driver) | uma: 0 | fp16: 1 | bf16: 1"
    )
    machine = Machine(gpus=(gpu,), compiler="Clang 19.1.5 for Windows x86_64")
    spec = (
        "spec common_specu: adding speculative implementation 'draft-simple'\n"
        "spec common_specu: - n_max=64, n_min=0, p_min=0.00\n"
        "srv    load_model: speculative decoding context initialized"
    )
    accepted, drafted, output = 96, 1378, 118
    asks = [
        Asked(300 + 9 * (i % 5), 110.0, output, 1000 * (output - 1) / 41, draft=(accepted, drafted))
        for i in range(8)
    ]
    return {"server.log": prefixed(target, machine, asks, build=10068, draft=draft, spec=spec)}


RTX_3070_LAPTOP = Given(vram_bytes=8 << 30, bandwidth_gb_s=448.0)
"""Logs of 2025 name the GPU, not its memory; laptops clock theirs as their maker likes."""


CASES = (
    Case(
        id="D12-F16",
        title="the weights spill into shared memory",
        files=_f16,
        source="gist andrewginns cf95867c",
        confirmed="published numbers",
        expect=("vram-spill-sysmem",),
        fix=("file of the same model", "-ngl"),
        machine=RTX_3070_LAPTOP,
        must_not=("thermal-or-power",),
        note="The gist has llama-bench's numbers; here a server does the same work. 2,048 tokens of context.",
    ),
    Case(
        id="D12-Q8_0",
        title="the compute buffers spill",
        files=_q8_0,
        source="gist andrewginns cf95867c",
        confirmed="published numbers",
        expect=("vram-spill-sysmem",),
        fix=("file of the same model", "-ngl", "-c "),
        machine=RTX_3070_LAPTOP,
        must_not=("thermal-or-power",),
    ),
    Case(
        id="D12-Q4_0",
        title="all of it fits",
        files=_q4_0,
        source="gist andrewginns cf95867c",
        confirmed="published numbers",
        only=ADVICE,
        machine=RTX_3070_LAPTOP,
        must_not=("vram-spill-sysmem", "thermal-or-power"),
    ),
    Case(
        id="D16",
        title="a draft model whose tokens are refused",
        files=_weak_draft,
        source="llama.cpp#25908",
        confirmed="measured by the reporter",
        expect=("spec-unprofitable",),
        fix=("--spec-draft-n-max", "--spec-draft-p-min"),
        must_not=("at-bandwidth-ceiling",),
        note="Printed: 96 of 1378 accepted, n_max and p_min. The times are made up.",
    ),
)
