"""llama-server's log at ``-lv 4``, b9829 and newer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.diagnosis.writers.header import Y2026, device_info, model_header
from tests.diagnosis.writers.slots import LISTENING_MS, slots_of, tasks
from tests.diagnosis.writers.text import acceptance, clock, rate, total

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.diagnosis.facts import Asked, Machine, Model
    from tests.diagnosis.writers.slots import Slots


def prefixed(
    model: Model,
    machine: Machine,
    requests: Sequence[Asked],
    *,
    build: int = 11434,
    draft: Model | None = None,
    spec: str = "",
    state_mib_per_token: float | None = None,
) -> str:
    """A log at ``-lv 4``: each line has a clock, and the header is there."""
    head = [
        "srv  llama_server: initializing ...",
        f"cmn  common_param: common_params_print_info: build {build} (5d3c8a1f2) with {machine.compiler}",
        "cmn  common_param: common_params_print_info: verbosity = 4 (adjust with the `-lv N` CLI arg)",
        *device_info(machine),
        "srv          init: using 15 threads for HTTP server",
        f"srv    load_model: loading model '{model.path}'",
        *model_header(model, Y2026),
        *(_draft(draft) if draft else []),
        f"cmn          init: llama threadpool init, n_threads = {machine.threads}",
        *listening(model, spec),
    ]
    timed = [(1.0 + i * LISTENING_MS / len(head), text) for i, text in enumerate(head)]
    slots = slots_of(model, state_mib_per_token, "f_sim", "f_sim_best")
    timed += tasks(requests, lambda *args: begin(slots, model, *args), end)
    return "".join(f"{clock(ms)} I {text}\n" for ms, text in timed)


def _draft(draft: Model) -> list[str]:
    return [
        f"common_speculative_init_result: loading draft model '{draft.path}'",
        *model_header(draft, Y2026),
    ]


def listening(model: Model, spec: str = "") -> list[str]:
    """From the loaded model to the first request, since b9829."""
    context = model.context_per_slot
    speculation = spec or "spec common_specu: no implementations specified for speculative decoding"
    return [
        (
            f"srv    load_model: initializing, n_slots = {model.slots}, n_ctx_slot = {context}, kv_unified = "
            "'false'"
        ),
        *speculation.splitlines(),
        *(
            f"slot   load_model: id {i:2d} | task -1 | new slot, n_ctx = {context}"
            for i in range(model.slots)
        ),
        "srv    load_model: prompt cache is enabled, size limit: 8192 MiB",
        "srv    load_model: context checkpoints enabled, max = 32, min spacing = 8192",
        "srv          init: init: chat template, thinking = 0",
        "srv  llama_server: model loaded",
        "srv  llama_server: listening on http://127.0.0.1:8080",
        "srv  update_slots: all slots are idle",
    ]


def begin(slots: Slots, model: Model, request: Asked, task: int, now_ms: float) -> list[str]:
    """A request is taken, at verbosity 4."""
    who = f"id {request.slot:2d} | task {task} |"
    new = f"new prompt, n_ctx_slot = {model.context_per_slot}, n_keep = 0, task.n_tokens = {request.prompt}"
    return [
        *slots.pick(request, now_ms),
        f"slot launch_slot_: {who} processing task, is_child = 0",
        f"slot   operator(): {who} {new}",
        *(f"slot   operator(): {who} {said}" for said in request.said),
        *(
            f"slot   operator(): {who} cached n_tokens = {n}, memory_seq_rm [{n}, end)"
            for n in range(request.cached, request.prompt, model.batch)
        ),
    ]


def end(request: Asked, task: int, _now_ms: float = 0.0) -> list[str]:
    """A request's timings, since b10406: the first token is not among those that were timed."""
    who = f"id {request.slot:2d} | task {task} |"
    lines = [
        rate("prompt eval time", request.prefill_ms, request.evaluated),
        rate("       eval time", request.decode_ms, request.output, request.output - 1),
        total(request),
        f"   graphs reused = {request.output - 1:10d}",
        *acceptance(request, "draft acceptance"),
    ]
    return [
        *(f"slot print_timing: {who} {text}" for text in lines),
        f"slot      release: {who} stop processing: n_tokens = {request.held}, truncated = 0",
        "srv  update_slots: all slots are idle",
    ]
