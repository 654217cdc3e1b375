"""D01 to D03: prompts that are read again."""

from __future__ import annotations

from dataclasses import replace

from tests.diagnosis.case import Case
from tests.diagnosis.facts import Asked, Gpu, Machine, Model, asked
from tests.diagnosis.writers import llama_server_bare
from tests.diagnosis.writers.llama_server import prefixed
from tests.diagnosis.writers.ollama import LlamaServerLog, blob

STRIX = Machine(
    cpu="AMD RYZEN AI MAX+ 395 w/ Radeon 8060S",
    memory_mib=95_000,
    threads=16,
    hardware_threads=32,
    gpus=(
        Gpu(
            "AMD Radeon 8060S (RADV GFX1151)",
            97_000,
            "Vulkan",
            "(radv) | uma: 1 | fp16: 1 | bf16: 0 | warp size: 64 | shared memory: 65536 | int dot: 1 | "
            "matrix cores: KHR_coopmat",
        ),
    ),
)


P40 = Machine(
    cpu="Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz",
    threads=14,
    hardware_threads=28,
    gpus=(Gpu("Tesla P40", 24_438, "CUDA", "compute capability 6.1, VMM: yes"),),
)


HYBRID = Model(
    path="/models/Qwen3.5-35B-A3B-UD-Q4_K_XL.gguf",
    name="Qwen3.5-35B-A3B",
    file_type="Q4_K - Medium",
    size="20.70 GiB (5.13 BPW)",
    params="34.66 B",
    arch="qwen35moe",
    kind="35B.A3B",
    layers=40,
    heads=16,
    kv_heads=2,
    head_dim=256,
    embedding=2048,
    experts=256,
    experts_used=8,
    trained=262_144,
    offloaded=(41, 41),
    weights={"CPU_Mapped": 515.31, "Vulkan0": 20_681.55},
    cache={"Vulkan0": 2560.0},
    cache_layers=10,
    compute={"Vulkan0": 493.0, "Vulkan_Host": 268.02},
    context=131_072,
)


_TURN_TOK_S = 1001 / 3.76094


_TURN = Asked(72_161, 3760.94, 1389, 52_747.74, cached=71_160)


def _prefix_breaker() -> dict[str, str]:
    first = Asked(69_772, 1000 * 69_772 / _TURN_TOK_S, 1389, 52_747.74)
    broken = [
        replace(_TURN, prompt=prompt, cached=1732, prefill_ms=1000 * (prompt - 1732) / _TURN_TOK_S)
        for prompt in (72_400, 72_900, 73_400, 73_900, 74_400, 74_900)
    ]
    log = llama_server_bare.log(
        HYBRID, STRIX, [first, _TURN, *broken], build=8240, state_mib_per_token=7582.135 / 4 / _TURN.prompt
    )
    return {"server.log": log}


def _claude_code() -> dict[str, str]:
    log = LlamaServerLog(P40)
    model = Model(
        path=blob("1194192c"),
        name="Qwen3-Coder-30B-A3B-Instruct",
        file_type="Q4_K - Medium",
        size="17.28 GiB (4.86 BPW)",
        params="30.53 B",
        arch="qwen3moe",
        kind="30B.A3B",
        layers=48,
        kv_heads=4,
        embedding=2048,
        experts=128,
        experts_used=8,
        trained=262_144,
        offloaded=(49, 49),
        weights={"CPU_Mapped": 166.92, "CUDA0": 17_524.43},
        cache={"CUDA0": 3072.0},
        compute={"CUDA0": 300.75, "CUDA_Host": 68.02},
        context=32_768,
        batch=512,
    )
    log.load(model, "qwen3-coder:30b", 6_200)
    for prompt in range(18_000, 24_000, 600):
        log.ask(
            asked(prompt, 200, cached=12 if prompt > 18_000 else 0, prefill_tok_s=900, decode_tok_s=45),
            "/v1/messages",
        )
    return {"ollama.log": log.text}


_FORCED = (
    "forcing full prompt re-processing due to lack of cache data (likely due to SWA or hybrid/recurrent "
    "memory, "
    "see https://github.com/ggml-org/llama.cpp/pull/13194#issuecomment-2868343055)"
)


_SWA_TOK_MS = 9683 / 12_454.58


def _swa_turn(prompt: int, cached: int, *, forced: bool) -> Asked:
    """A turn on slot 0; a short request on slot 1 has run beside its decode."""
    evaluated = prompt - cached
    said = (f"n_past = {prompt - 900}, slot.prompt.tokens.size() = {prompt - 895}, n_swa = 128", _FORCED)
    return Asked(
        prompt,
        evaluated / _SWA_TOK_MS,
        106,
        7658.14,
        cached=cached,
        pause_ms=12_000,
        said=said if forced else (),
    )


def _swa() -> dict[str, str]:
    beside = Asked(538, 912.36, 82, 2517.84, pause_ms=-6_000, slot=1)
    turns = [
        _swa_turn(19_000, 0, forced=False),
        _swa_turn(20_000, 0, forced=True),
        _swa_turn(21_000, 20_105, forced=False),
        _swa_turn(22_000, 0, forced=True),
        _swa_turn(23_000, 22_105, forced=False),
    ]
    model = Model(
        path="/models/gpt-oss-20b-mxfp4.gguf",
        name="Gpt Oss 20B",
        file_type="MXFP4 MoE",
        size="11.27 GiB (4.63 BPW)",
        params="20.91 B",
        arch="gpt-oss",
        kind="20B",
        layers=24,
        heads=64,
        kv_heads=8,
        head_dim=64,
        embedding=2880,
        window=128,
        experts=32,
        experts_used=4,
        offloaded=(25, 25),
        weights={"CPU_Mapped": 586.82, "MTL0_Mapped": 11_536.18},
        cache={"MTL0": 1536.0},
        cache_layers=12,
        compute={"MTL0": 398.38, "CPU": 69.65},
        context=65_536,
        slots=2,
    )
    machine = Machine(
        "Apple M1 Pro",
        32_768,
        8,
        10,
        (Gpu("Apple M1 Pro", 26_214, "MTL"),),
        "AppleClang 17.0.0 for arm64-apple-darwin",
    )
    return {"server.log": prefixed(model, machine, [part for turn in turns for part in (turn, beside)])}


CASES = (
    Case(
        id="D01",
        title="the system prompt changes near its start",
        files=_prefix_breaker,
        source="kon#4; claude-code-router#1220, llama.cpp#20623, ollama#14918",
        confirmed="the project, for the class",
        expect=("prefix-unstable", "cache-evicted"),
        fix=("fixed text first",),
        saving_ms=6 * 1000 * (72_161 - 1001) / 266,
        must_not=("quantise-weights", "ubatch-small"),
        note="Printed: the second request, f_keep, the cache state. The machine and the other turns are "
        "made up.",
    ),
    Case(
        id="D02",
        title="Claude Code's billing header",
        files=_claude_code,
        source="ollama#14918; lmstudio docs#227",
        confirmed="the project",
        expect=("prefix-unstable",),
        fix=("CLAUDE_CODE_ATTRIBUTION_HEADER=0",),
        must_not=("rag-chunks-too-many",),
        note="Ollama 0.30 or newer, since older ones log no timings; ollama#14918 helps only `ollama "
        "launch`.",
    ),
    Case(
        id="D03",
        title="sliding window, full re-processing",
        files=_swa,
        source="llama.cpp#13194, llama.cpp#14157",
        confirmed="the project",
        expect=("swa-hybrid-full-reprocess",),
        fix=("--swa-full", "checkpoint"),
        not_first=("prefix-unstable",),
        note="Printed: the line, the two requests' times. The turns are made up.",
    ),
)
