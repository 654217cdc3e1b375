"""Ollama before 0.30, whose own runners serve the models: in C++ until 0.3, then in Go, without timings."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from tests.diagnosis.writers.header import Y2024, gpus, model_header
from tests.diagnosis.writers.ollama import OVERHEAD_MS, ServerLog
from tests.diagnosis.writers.slots import tasks
from tests.diagnosis.writers.text import rate

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from tests.diagnosis.facts import Asked, Machine, Model


def offload(log: ServerLog, model: Model, machine: Machine, *, kv: str, weights: str, graph: str) -> None:
    """Ollama's estimate of what fits; ``memory.weights.total`` counts the KV cache in, until 0.6."""
    library = "cuda" if machine.gpus else "cpu"
    free = " ".join(f"{gpu.mib / 1024 - 0.4:.1f} GiB" for gpu in machine.gpus) or "22.6 GiB"
    done, layers = model.offloaded or (0, model.layers + 1)
    log.slog(
        "memory.go:356",
        f'"offload to {library}" layers.requested=-1 layers.model={layers} layers.offload={done} '
        'layers.split="" '
        f'memory.available="[{free}]" memory.gpu_overhead="0 B" memory.required.kv="{kv}" '
        f'memory.weights.total="{weights}" memory.graph.full="{graph}" memory.graph.partial="{graph}"',
    )


def go_runner(log: ServerLog, model: Model, machine: Machine, load_ms: float, flags: str = "") -> None:
    """Load a model in the Go runner of 0.4 to 0.12 that wraps llama.cpp."""
    done = model.offloaded[0] if model.offloaded else 0
    layers = f"--n-gpu-layers {done} " if done else ""
    command = (
        f"/usr/bin/ollama runner --model {model.path} --ctx-size {model.context} --batch-size {model.batch} "
        f"{layers}--threads {machine.threads} {flags}--parallel {model.slots} --port 39083"
    )
    log.slog("server.go:380", f'"starting llama server" cmd="{command}"')
    log.slog("sched.go:450", '"loaded runners" count=1')
    log.slog("server.go:557", '"waiting for llama runner to start responding"')
    log.slog("runner.go:936", '"starting go runner"')
    log.lines += [*gpus(machine, memory=False), *model_header(model, Y2024)]
    log.wait(load_ms)
    log.slog("server.go:596", f'"llama runner started in {load_ms / 1000:.2f} seconds"')


def go_engine(log: ServerLog, model: Model, machine: Machine, load_ms: float) -> None:
    """Load a model in Ollama's own engine as it was in 2026 (until 0.24)."""
    done, layers = model.offloaded or (0, model.layers + 1)
    output = "GPU" if done == layers else "CPU"
    log.slog(
        "server.go:431",
        f'"starting runner" cmd="/usr/bin/ollama runner --ollama-engine --model {model.path} --port 36491"',
    )
    log.slog("runner.go:1411", '"starting ollama engine"')
    log.slog(
        "runner.go:1284",
        f'load request="{{Operation:commit LoraPath:[] Parallel:{model.slots} BatchSize:{model.batch} '
        f"FlashAttention:Enabled KvSize:{model.context} KvCacheType: NumThreads:{machine.threads} "
        f"GPULayers:{done}[ID:GPU-0aa928c0-ece6-7698-4db1-ac130bfe47b7 Layers:{done}(0..{done - 1})] "
        'MultiUserCache:false ProjectorPath: MainGPU:0 UseMmap:false}"',
    )
    log.slog(
        "ggml.go:136",
        f'"" architecture={model.arch} file_type={model.file_type} name="" description="" num_tensors=2131 '
        "num_key_values=54",
    )
    log.lines += gpus(machine, memory=False)
    log.slog("ggml.go:482", f'"offloading {min(done, model.layers)} repeating layers to GPU"')
    log.slog("ggml.go:486", f'"offloading output layer to {output}"')
    log.slog("ggml.go:494", f'"offloaded {done}/{layers} layers to GPU"')
    for words, buffers, source in (
        ("model weights", model.weights, 240),
        ("kv cache", model.cache, 251),
        ("compute graph", model.compute, 262),
    ):
        for where, mib in buffers.items():
            size = f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.1f} MiB"
            log.slog(f"device.go:{source}", f'"{words}" device={where} size="{size}"')
    everything = sum(sum(b.values()) for b in (model.weights, model.cache, model.compute))
    log.slog("device.go:272", f'"total memory" size="{everything / 1024:.1f} GiB"')
    log.slog("sched.go:561", '"loaded runners" count=1')
    log.slog("server.go:1350", '"waiting for llama runner to start responding"')
    log.wait(load_ms)
    log.slog("server.go:1388", f'"llama runner started in {load_ms / 1000:.2f} seconds"')


def answered(log: ServerLog, busy_ms: float, route: str, load_ms: float = 0.0) -> None:
    """A request ends that may have waited for a load; Go runners leave its access line and no more."""
    log.wait(busy_ms)
    log.lines.append(log.access(busy_ms + load_ms + OVERHEAD_MS, route))


def embedding(log: ServerLog, busy_ms: float, load_ms: float = 0.0) -> None:
    """The same for an embedding."""
    answered(log, busy_ms, "/api/embed", load_ms)


def verbose(model: str, requests: Sequence[Asked]) -> str:
    """What ``ollama run --verbose`` prints below its answers; the prompt's count is of the whole prompt."""
    blocks = [f"$ ollama run --verbose {model}"]
    for request in requests:
        whole = request.busy_ms + 30.0
        blocks.append(
            f"\ntotal duration:       {whole / 1000:.6f}s\n"
            "load duration:        29.412ms\n"
            f"prompt eval count:    {request.prompt} token(s)\n"
            f"prompt eval duration: {request.prefill_ms / 1000:.6f}s\n"
            f"prompt eval rate:     {1000 * request.prompt / request.prefill_ms:.2f} tokens/s\n"
            f"eval count:           {request.output} token(s)\n"
            f"eval duration:        {request.decode_ms / 1000:.6f}s\n"
            f"eval rate:            {1000 * request.output / request.decode_ms:.2f} tokens/s"
        )
    return "\n".join(blocks) + "\n"


def cpp_runner(
    log: ServerLog, model: Model, machine: Machine, requests: Sequence[Asked], load_ms: float
) -> None:
    """Load a model in the C++ runner of 0.2 and serve it, as OLLAMA_DEBUG=1 shows it."""
    done = model.offloaded[0] if model.offloaded else 0
    command = (
        f"/tmp/ollama3286014226/runners/cuda_v11/ollama_llama_server --model {model.path} --ctx-size "
        f"{model.context} "
        f"--batch-size {model.batch} --embedding --log-disable --n-gpu-layers {done} --verbose "
        f"--parallel {model.slots} --port 35149"
    )
    log.slog("server.go:383", f'"starting llama server" cmd="{command}"')
    log.slog("sched.go:437", '"loaded runners" count=1')
    log.lines.append(_debug(log, "main", "build info", 'build=1 commit="a8db2a9c"').replace("DEBUG", "INFO"))
    log.lines += [*gpus(machine, memory=False), *model_header(model, Y2024)]
    log.wait(load_ms)
    log.slog("server.go:617", f'"llama runner started in {load_ms / 1000:.2f} seconds"')
    ready = log.now
    timed = tasks(
        requests,
        lambda *args: _cpp_begin(log, ready, *args),
        lambda *args: _cpp_end(log, ready, load_ms, model.context, *args),
        start_ms=0.0,
    )
    log.lines += [text for _, text in timed]


def _cpp_begin(log: ServerLog, ready: datetime, request: Asked, task: int, now_ms: float) -> list[str]:
    log.now = ready + timedelta(milliseconds=now_ms)
    who = f"slot_id={request.slot} task_id={task}"
    return [
        _debug(log, "launch_slot_with_data", "slot is processing task", who),
        _debug(log, "update_slots", "kv cache rm [p0, end)", f"p0={request.cached} {who}"),
    ]


def _cpp_end(
    log: ServerLog, ready: datetime, load_ms: float, context: int, request: Asked, task: int, now_ms: float
) -> list[str]:
    log.now = ready + timedelta(milliseconds=now_ms)
    waited_ms = load_ms if task == 0 else 0.0
    access = log.access(request.busy_ms + waited_ms + OVERHEAD_MS, "/api/chat")
    return [*_cpp_timings(log, request, f"slot_id={request.slot} task_id={task}", context), access]


def _cpp_timings(log: ServerLog, request: Asked, who: str, context: int) -> list[str]:
    prefill, decode = request.prefill_ms, request.decode_ms
    generated = rate("generation eval time", decode, request.output).replace(" tokens (", " runs   (", 1)
    return [
        _debug(
            log,
            "print_timings",
            rate("prompt eval time    ", prefill, request.evaluated),
            f"n_prompt_tokens_processed={request.evaluated} "
            f"n_tokens_second={1000 * request.evaluated / prefill} "
            f"{who} t_prompt_processing={prefill:.3f} t_token={prefill / request.evaluated}",
        ),
        _debug(
            log,
            "print_timings",
            generated,
            f"n_decoded={request.output} n_tokens_second={1000 * request.output / decode} {who} "
            f"t_token={decode / request.output} t_token_generation={decode:.3f}",
        ),
        _debug(
            log,
            "print_timings",
            f"          total time = {request.busy_ms:10.2f} ms",
            f"{who} t_prompt_processing={prefill:.3f} t_token_generation={decode:.3f} "
            f"t_total={request.busy_ms:.3f}",
        ),
        _debug(
            log,
            "update_slots",
            "slot released",
            f"n_cache_tokens={request.held} n_ctx={context} n_past={request.held} n_system_tokens=0 {who} "
            "truncated=false",
        ),
    ]


def _debug(log: ServerLog, function: str, message: str, values: str) -> str:
    epoch_s = int(log.now.timestamp())
    return f'DEBUG [{function}] {message} | {values} tid="139796430168064" timestamp={epoch_s}'
