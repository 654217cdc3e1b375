"""D04, D05 and D13: ik_llama.cpp, and LM Studio."""

from __future__ import annotations

from dataclasses import replace

from rules.hardware import Machine as Given
from tests.diagnosis.case import Case
from tests.diagnosis.cases.healthy import LLAMA_8B
from tests.diagnosis.cases.prefill import HYBRID
from tests.diagnosis.facts import Asked, Gpu, Machine, Model, asked
from tests.diagnosis.writers import ik_llama, lmstudio

RTX_3090 = Machine(
    cpu="AMD Ryzen 9 5900X 12-Core Processor",
    threads=12,
    hardware_threads=24,
    gpus=(Gpu("NVIDIA GeForce RTX 3090", 24_575, "CUDA", "compute capability 8.6, VMM: yes"),),
    compiler="MSVC 19.44.35211.0 for x64",
)


def _cache_prompt() -> dict[str, str]:
    requests = [
        Asked(13, 1170.90, 50, 5742.0),
        Asked(536, 6383.32, 113, 12_977.77, pause_ms=9_000),
        Asked(536, 6326.97, 113, 12_948.27, pause_ms=9_000),
        Asked(536, 6375.81, 113, 12_939.86, pause_ms=9_000),
    ]
    model = Model(
        path="/models/DeepSeek-V3-0324-IQ4_K_R4.gguf",
        name="DeepSeek V3 0324",
        file_type="IQ4_K_R4 - 4.5 bpw",
        size="376.65 GiB (4.82 BPW)",
        params="671.03 B",
        arch="deepseek2",
        kind="671B",
        layers=61,
        heads=128,
        kv_heads=128,
        head_dim=192,
        embedding=7168,
        experts=256,
        experts_used=8,
        trained=163_840,
        offloaded=(62, 62),
        weights={"CPU": 368_061.33, "CUDA0": 17_744.02},
        cache={"CUDA0": 1166.62},
        compute={"CUDA0": 3425.0, "CUDA_Host": 176.01},
        context=32_768,
        kv_types=("q8_0", "q8_0"),
        flash=True,
    )
    machine = Machine(
        cpu="AMD EPYC 7763",
        memory_mib=515_000,
        threads=64,
        hardware_threads=128,
        gpus=(Gpu("NVIDIA RTX A6000", 48_531, "CUDA", "compute capability 8.6, VMM: yes"),),
    )
    return {"server.log": ik_llama.log(model, machine, requests, build=3714)}


def _mixed_types() -> dict[str, str]:
    model = replace(
        HYBRID,
        path="C:\\Users\\dev\\.lmstudio\\models\\unsloth\\Qwen3.6-35B-A3B-GGUF\\Qwen3.6-35B-A3B-Q4_K_S.gguf",
        name="Qwen3.6-35B-A3B",
        file_type="Q4_K - Small",
        size="19.24 GiB (4.77 BPW)",
        weights={"CPU_Mapped": 272.81, "CUDA0": 19_429.12},
        cache={"CUDA0": 260.0},
        compute={"CUDA0": 493.0, "CUDA_Host": 72.02},
        context=32_768,
        batch=512,
        kv_types=("q8_0", "q4_0"),
    )
    requests = [
        asked(prompt, 300, prefill_tok_s=114, decode_tok_s=18)
        for prompt in (3010, 2960, 3040, 2985, 3025, 2970, 3000, 3015)
    ]
    return {"lmstudio.log": lmstudio.developer_log(model, RTX_3090, requests, name="qwen3.6-35b-a3b")}


def _more_threads() -> dict[str, str]:
    model = replace(
        LLAMA_8B,
        offloaded=None,
        weights={"CPU_Mapped": 4685.30},
        cache={"CPU": 1024.0},
        compute={"CPU": 560.01},
        batch=512,
    )
    asks = [
        asked(prompt, 300, prefill_tok_s=90, decode_tok_s=13.8)
        for prompt in (512, 380, 640, 455, 590, 420, 530, 610)
    ]
    return {"lmstudio.log": lmstudio.developer_log(model, Machine(), asks, name="meta-llama-3-8b-instruct")}


CASES = (
    Case(
        id="D04",
        title="cache_prompt is not sent",
        files=_cache_prompt,
        source="ik_llama.cpp#455",
        confirmed="the project, and measured by the reporter",
        expect=("cache-prompt-off",),
        fix=("cache_prompt",),
        saving_ms=2 * 6_350,
        must_not=("tiny-prompt-overhead",),
        not_first=("prefill-at-cpu-speed",),
        note="Printed: all times but the decode of the first request.",
    ),
    Case(
        id="D05",
        title="mixed KV cache types",
        files=_mixed_types,
        source="lmstudio-bug-tracker#2246; llama.cpp#27109, llama.cpp#28455, llama.cpp#28456",
        confirmed="the project, for the mechanism",
        expect=("kv-type-fallback",),
        fix=("in the same type", "GGML_CUDA_FA_ALL_QUANTS"),
        saving_ms=8 * 1000 * ((26.3 - 1.2) + (16.7 - 2.5)),
        not_first=("vram-spill-sysmem",),
        note="LM Studio 0.4.20 hides llama.cpp's header and prints no cache type; this is its layout of "
        "April 2026.",
    ),
    Case(
        id="D13",
        title="more threads gain nothing",
        files=_more_threads,
        source="llama.cpp#12966",
        confirmed="the project",
        expect=("at-bandwidth-ceiling",),
        fix=("file of the same model", "fewer bytes"),
        must_not=("threads-too-few",),
        machine=Given(bandwidth_gb_s=89.6, cores=20),
        note="The layout of LM Studio in April 2026, which prints neither processor nor threads.",
    ),
)
