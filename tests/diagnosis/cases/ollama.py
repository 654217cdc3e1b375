"""D06 to D08: Ollama loads a model again and again."""

from __future__ import annotations

from dataclasses import replace

from tests.diagnosis.case import Case
from tests.diagnosis.facts import Gpu, Machine, Model, asked
from tests.diagnosis.writers.ollama import LlamaServerLog, ServerLog, blob
from tests.diagnosis.writers.ollama_runners import answered, embedding, go_runner, offload

A4000 = Machine(gpus=(Gpu("NVIDIA RTX A4000", 16_117, "CUDA", "compute capability 8.6, VMM: yes"),))


def _changing_context() -> dict[str, str]:
    log = LlamaServerLog(A4000)
    for tokens in range(4_000, 16_000, 1_000):
        context = int(tokens * 1.25) + 8192
        model = Model(
            path=blob("ac9bc7a6"),
            name="Qwen2.5 Coder 14B Instruct",
            file_type="Q4_K - Medium",
            size="8.37 GiB (4.87 BPW)",
            params="14.77 B",
            arch="qwen2",
            kind="14B",
            layers=48,
            heads=40,
            embedding=5120,
            trained=32_768,
            offloaded=(49, 49),
            weights={"CPU_Mapped": 417.66, "CUDA0": 8148.38},
            cache={"CUDA0": context * 196_608 / (1 << 20)},
            compute={"CUDA0": 307.0, "CUDA_Host": 30.01},
            context=context,
            batch=512,
        )
        log.load(model, "qwen2.5-coder:14b", 9_000)
        log.ask(asked(tokens, 350, prefill_tok_s=1500, decode_tok_s=38), "/api/chat")
        log.wait(40_000)
    return {"ollama.log": log.text}


def _truncated() -> dict[str, str]:
    machine = Machine(gpus=(Gpu("NVIDIA GeForce RTX 4090", 24_080),))
    model = Model(
        path=blob("6150cb38"),
        name="DeepSeek R1 Distill Qwen 32B",
        file_type="Q4_K - Medium",
        size="18.48 GiB (4.85 BPW)",
        params="32.76 B",
        arch="qwen2",
        kind="32B",
        layers=64,
        heads=40,
        embedding=5120,
        offloaded=(65, 65),
        weights={"CPU_Mapped": 417.66, "CUDA0": 18_508.35},
        cache={"CUDA0": 2048.0},
        compute={"CUDA0": 696.0, "CUDA_Host": 26.01},
        context=8192,
        slots=4,
        batch=512,
    )
    log = ServerLog("0.5.7")
    log.gpus(machine)
    for _ in range(6):
        offload(log, model, machine, kv="2.0 GiB", weights="19.5 GiB", graph="676.0 MiB")
        go_runner(log, model, machine, 14_030)
        cut = '"truncating input prompt" limit=2048 prompt=14570 keep=5 new=2048'
        log.slog("runner.go:129", cut, level="WARN")
        answered(log, 1_400 + 299 * 27, "/api/chat", load_ms=14_030)
        log.wait(20_000)
        offload(log, model, machine, kv="2.0 GiB", weights="19.5 GiB", graph="676.0 MiB")
        go_runner(log, model, machine, 14_030, flags="--mlock ")
        answered(log, 600 + 99 * 26, "/v1/chat/completions", load_ms=14_030)
        log.wait(20_000)
    return {"ollama.log": log.text}


def _embeddings() -> dict[str, str]:
    machine = Machine(cpu="Intel Xeon", memory_mib=24_000, threads=4, hardware_threads=8)
    chat = Model(
        path=blob("dde5aa3f"),
        name="Llama 3.2 3B Instruct",
        file_type="Q4_K - Medium",
        size="1.87 GiB (5.01 BPW)",
        params="3.21 B",
        kind="3B",
        layers=28,
        heads=24,
        embedding=3072,
        offloaded=None,
        weights={"CPU_Mapped": 1918.35},
        cache={"CPU": 14_000.0},
        compute={"CPU": 6_256.0},
        context=128_000,
        slots=4,
        batch=512,
    )
    short = replace(chat, context=8192, cache={"CPU": 896.0}, compute={"CPU": 424.01})
    log = ServerLog("0.4.1")
    log.slog(
        "types.go:123",
        '"inference compute" id=0 library=cpu variant=avx2 compute="" driver=0.0 name="" total="23.4 GiB" '
        'available="22.6 GiB"',
    )
    for _ in range(8):
        offload(log, chat, machine, kv="13.7 GiB", weights="15.2 GiB", graph="6.1 GiB")
        go_runner(log, chat, machine, 6_000, flags="--no-mmap ")
        answered(log, 9_000 + 14_900, "/api/generate", load_ms=6_000)
        log.wait(5_000)
        offload(log, short, machine, kv="896.0 MiB", weights="2.4 GiB", graph="424.0 MiB")
        go_runner(log, short, machine, 6_000, flags="--no-mmap ")
        embedding(log, 2_000, load_ms=6_000)
        log.wait(5_000)
    return {"ollama.log": log.text}


CASES = (
    Case(
        id="D06",
        title="num_ctx changes with each request",
        files=_changing_context,
        source="aider#4687, aider#3594, aider#4764; ollama#8903",
        confirmed="the project",
        expect=("reload-each-request",),
        fix=("num_ctx",),
        saving_ms=11 * 9_000,
        must_not=("reload-after-idle",),
        note="Printed: how num_ctx is computed. The rest is made up.",
    ),
    Case(
        id="D07",
        title="the prompt is cut, and clients reload the model",
        files=_truncated,
        source="ollama#8903",
        confirmed="the project",
        expect=("prompt-truncated", "reload-each-request"),
        fix=("num_ctx",),
        note="Ollama 0.5's Go runner, which logs no timings: the access lines are all there is.",
    ),
    Case(
        id="D08",
        title="embeddings and chat ask for different contexts",
        files=_embeddings,
        source="ollama#6148",
        confirmed="measured by the reporter",
        expect=("reload-each-request",),
        fix=("num_ctx",),
        note="Ollama 0.4.1, CPU only: no timings. Four slots of 32,000 tokens are the 13.7 GiB of KV cache.",
    ),
)
