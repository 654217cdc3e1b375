"""D09 to D11: Ollama leaves layers to the CPU."""

from __future__ import annotations

from dataclasses import replace

from tests.diagnosis.case import Case
from tests.diagnosis.facts import Asked, Gpu, Machine, Model, asked
from tests.diagnosis.writers.ollama import ServerLog, blob
from tests.diagnosis.writers.ollama_runners import cpp_runner, go_engine, go_runner, offload, verbose

LLAMA_8B = Model(
    path=blob("6a0746a1"),
    name="Meta Llama 3 8B Instruct",
    file_type="Q4_0",
    size="4.33 GiB (4.64 BPW)",
    params="8.03 B",
    trained=8192,
    batch=512,
)


def _parallel() -> dict[str, str]:
    machine = Machine(
        cpu="AMD EPYC 7742",
        threads=64,
        hardware_threads=64,
        gpus=(Gpu("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 19_968, "CUDA", "compute capability 8.0, VMM: yes"),),
    )
    model = replace(
        LLAMA_8B,
        offloaded=(15, 33),
        weights={"CPU": 4437.80, "CUDA0": 1755.47},
        cache={"CUDA_Host": 8704.0, "CUDA0": 7680.0},
        compute={"CUDA0": 8480.0, "CUDA_Host": 264.01},
        context=64 * 2048,
        slots=64,
    )
    busy_ms = 900 + 1000 * 199 / 9
    requests = [
        Asked(
            400 + 20 * i,
            900,
            200,
            busy_ms - 900,
            slot=i % 3,
            pause_ms=1_000 if i % 3 == 0 else 400 - busy_ms,
        )
        for i in range(12)
    ]
    log = ServerLog("0.2.7", OLLAMA_NUM_PARALLEL="64", OLLAMA_DEBUG="true")
    log.gpus(machine)
    offload(log, model, machine, kv="16.0 GiB", weights="19.9 GiB", graph="8.3 GiB")
    cpp_runner(log, model, machine, requests, 5_200)
    return {"ollama.log": log.text}


def _long_context() -> dict[str, str]:
    machine = Machine(
        cpu="Intel(R) Xeon(R) CPU @ 2.20GHz",
        memory_mib=193_000,
        threads=24,
        hardware_threads=48,
        gpus=(Gpu("NVIDIA L4", 22_940),) * 4,
    )
    layer_mib, cache_mib = 866.6, 250.0
    model = Model(
        path=blob("feef62aa"),
        name="DeepSeek R1 Distill Llama 70B",
        file_type="Q8_0",
        size="69.82 GiB (8.50 BPW)",
        params="70.55 B",
        kind="70B",
        layers=80,
        heads=64,
        embedding=8192,
        offloaded=(44, 81),
        weights={"CPU_Mapped": 71_496 - 44 * layer_mib, **{f"CUDA{i}": 11 * layer_mib for i in range(4)}},
        cache={"CPU": 36 * cache_mib, **{f"CUDA{i}": 11 * cache_mib for i in range(4)}},
        compute={"CUDA0": 1331.12, **{f"CUDA{i}": 176.0 for i in range(1, 4)}, "CUDA_Host": 141.01},
        context=64_000,
        batch=512,
        flash=True,
    )
    log = ServerLog("0.5.11", OLLAMA_FLASH_ATTENTION="true")
    log.gpus(machine)
    log.slog(
        "server.go:130",
        "offload library=cuda layers.requested=-1 layers.model=81 layers.offload=44 layers.split=11,11,11,11 "
        'memory.available="[22.0 GiB 22.0 GiB 22.0 GiB 22.0 GiB]" memory.gpu_overhead="0 B" '
        'memory.required.full="127.4 GiB" memory.required.partial="87.1 GiB" memory.required.kv="19.5 GiB" '
        'memory.required.allocations="[21.8 GiB 21.8 GiB 21.8 GiB 21.8 GiB]" memory.weights.total="87.3 GiB" '
        'memory.weights.repeating="86.2 GiB" memory.weights.nonrepeating="1.0 GiB" memory.graph.full="8.2 '
        'GiB" '
        'memory.graph.partial="8.2 GiB"',
    )
    go_runner(log, model, machine, 61_000, flags="--flash-attn ")
    asks = [
        asked(prompt, 500, prefill_tok_s=200, decode_tok_s=2.1)
        for prompt in (8_500, 6_200, 7_900, 5_400, 8_100, 6_800, 7_300, 8_300)
    ]
    return {"ollama.log": log.text, "run.txt": verbose("deepseek-r1:70b-llama-distill-q8_0", asks)}


def _output_layer() -> dict[str, str]:
    machine = Machine(gpus=(Gpu("NVIDIA GeForce RTX 4060", 8188),))
    model = Model(
        path=blob("4e30e266"),
        name="",
        file_type="Q4_K_M",
        size="",
        params="",
        arch="gemma4",
        layers=42,
        window=512,
        offloaded=(42, 43),
        weights={"CUDA0": 3174.4, "CPU": 5836.8},
        cache={"CUDA0": 552.0},
        compute={"CUDA0": 1228.8, "CPU": 5.0},
        context=32_768,
        batch=512,
    )
    log = ServerLog("0.20.7", OLLAMA_CONTEXT_LENGTH="32768")
    log.gpus(machine)
    go_engine(log, model, machine, 8_100)
    asks = [
        asked(prompt, 300, prefill_tok_s=1000, decode_tok_s=11)
        for prompt in (600, 640, 580, 610, 655, 590, 620, 605)
    ]
    return {"ollama.log": log.text, "run.txt": verbose("gemma4:e4b", asks)}


CASES = (
    Case(
        id="D09",
        title="64 slots push layers off the GPU",
        files=_parallel,
        source="ollama#5756; ollama#9246",
        confirmed="the project, for the formula",
        expect=("ctx-steals-layers", "partial-offload"),
        fix=("OLLAMA_NUM_PARALLEL",),
        must_not=("cpu-only", "threads-too-few"),
        note="OLLAMA_DEBUG=1, since 0.2 prints timings at that level only.",
    ),
    Case(
        id="D10",
        title="a context of 64,000 pushes layers off four GPUs",
        files=_long_context,
        source="ollama#9181",
        confirmed="the project",
        expect=("ctx-steals-layers", "partial-offload"),
        fix=("num_ctx", "OLLAMA_KV_CACHE_TYPE", "file of the same model"),
        note="weights.total counts the KV cache in: llama.cpp's header has the file's 69.8 GiB. The server "
        "log ends "
        "with the load; the times are what `ollama run --verbose` printed.",
    ),
    Case(
        id="D11",
        title="all layers but the largest on the GPU",
        files=_output_layer,
        source="ollama#15634",
        confirmed="the project",
        expect=("partial-offload",),
        fix=("num_ctx", "file of the same model"),
        note="Ollama's own engine, whose log ends with the load; the times are what `ollama run --verbose` "
        "printed.",
    ),
)
