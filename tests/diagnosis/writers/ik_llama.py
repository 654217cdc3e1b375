"""ik_llama.cpp's server as it was in May 2025: key=value lines, and its own words for the header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.diagnosis.writers.header import Y2024, gpus, model_header
from tests.diagnosis.writers.text import rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.diagnosis.facts import Asked, Machine, Model

THREAD = "137281198051328"
STARTED_S = 1_748_127_054


def log(model: Model, machine: Machine, requests: Sequence[Asked], *, build: int) -> str:
    """A log of the server; its clock counts whole seconds since 1970."""
    kv = (
        f"KV self size  = {model.cache_mib:7.2f} MiB, c^KV ({model.kv_types[0]}): {model.cache_mib:7.2f} "
        f"MiB, kv^T: not used"
    )
    lines = [
        *gpus(machine, memory=False),
        _line("main", "build info", STARTED_S - 40, f'build={build} commit="f8a13d6a"'),
        _line(
            "main",
            "system info",
            STARTED_S - 40,
            f"n_threads={machine.threads} n_threads_batch=-1 total_threads={machine.hardware_threads}",
        ),
        *(
            f"llama_new_context_with_model: {kv}" if "KV self size" in text else text
            for text in model_header(model, Y2024)
        ),
        _line("init", "initializing slots", STARTED_S, f"n_slots={model.slots}"),
        _line("init", "new slot", STARTED_S, f"id_slot=0 n_ctx_slot={model.context}"),
        _line("main", "model loaded", STARTED_S),
        _line(
            "main", "HTTP server listening", STARTED_S, 'n_threads_http="63" port="10002" hostname="0.0.0.0"'
        ),
        _line("update_slots", "all slots are idle", STARTED_S),
    ]
    now_ms, task = 1000.0 * STARTED_S, 0
    for request in requests:
        now_ms += request.pause_ms
        lines += _begin(request, task, int(now_ms / 1000), model.batch)
        now_ms += request.busy_ms
        lines += _end(request, task, int(now_ms / 1000), model.context)
        task += request.output + 1
    return "".join(f"{text}\n" for text in lines)


def _line(function: str, message: str, epoch_s: int, values: str = "") -> str:
    return f'INFO [{function:>24}] {message} | tid="{THREAD}" timestamp={epoch_s} {values}'.rstrip()


def _begin(request: Asked, task: int, epoch_s: int, batch: int) -> Iterable[str]:
    who = f"id_slot={request.slot} id_task={task}"
    yield _line("launch_slot_with_task", "slot is processing task", epoch_s, who)
    for n in range(request.cached, request.prompt, batch):
        yield _line("update_slots", "kv cache rm [p0, end)", epoch_s, f"{who} p0={n}")


def _end(request: Asked, task: int, epoch_s: int, context: int) -> Iterable[str]:
    who = f"id_slot={request.slot} id_task={task}"
    prefill, decode = request.prefill_ms, request.decode_ms
    yield _line(
        "print_timings",
        rate("prompt eval time    ", prefill, request.evaluated),
        epoch_s,
        f"{who} t_prompt_processing={prefill:.3f} n_prompt_tokens_processed={request.evaluated} "
        f"t_token={prefill / request.evaluated} n_tokens_second={1000 * request.evaluated / prefill}",
    )
    yield _line(
        "print_timings",
        rate("generation eval time", decode, request.output).replace(" tokens (", " runs   (", 1),
        epoch_s,
        f"{who} t_token_generation={decode:.3f} n_decoded={request.output} "
        f"t_token={decode / request.output} n_tokens_second={1000 * request.output / decode}",
    )
    yield _line(
        "print_timings",
        f"          total time = {request.busy_ms:10.2f} ms",
        epoch_s,
        f"{who} t_prompt_processing={prefill:.3f} t_token_generation={decode:.3f} "
        f"t_total={request.busy_ms:.3f}",
    )
    yield _line(
        "update_slots",
        "slot released",
        epoch_s,
        f"{who} n_ctx={context} n_past={request.held} n_system_tokens=0 n_cache_tokens={request.held} "
        "truncated=false",
    )
    yield _line("update_slots", "all slots are idle", epoch_s)
    yield _line(
        "log_server_request",
        "request",
        epoch_s,
        'remote_addr="127.0.0.1" remote_port=50112 status=200 method="POST" path="/v1/chat/completions" '
        "params={}",
    )
