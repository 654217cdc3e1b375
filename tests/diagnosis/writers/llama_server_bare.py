"""llama-server's log of b4463 to b9150: no clocks, and a header at any verbosity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.diagnosis.writers.header import Y2025, gpus, model_header
from tests.diagnosis.writers.slots import slots_of, tasks
from tests.diagnosis.writers.text import acceptance, rate, total

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.diagnosis.facts import Asked, Machine, Model
    from tests.diagnosis.writers.slots import Slots


def header(model: Model, machine: Machine, build: int) -> list[str]:
    """The header of b4463 to b9150, which needs no verbosity."""
    threads = f"n_threads = {machine.threads}, n_threads_batch = {machine.threads}"
    slots = "initializing slots, n_slots"
    return [
        *gpus(machine, memory=build > 7900),
        f"build: {build} (8e672efe6) with {machine.compiler}",
        f"system info: {threads}, total_threads = {machine.hardware_threads}",
        "",
        "main: loading model",
        f"srv    load_model: loading model '{model.path}'",
        *_using(machine),
        *model_header(model, Y2025, build=build),
        f"srv    load_model: {slots} = {model.slots}"
        if build > 6900
        else f"srv          init: {slots} = {model.slots}",
        *(
            f"slot   load_model: id {i:2d} | task -1 | new slot, n_ctx = {model.context_per_slot}"
            if build > 6900
            else f"slot         init: id {i:2d} | task -1 | new slot n_ctx_slot = {model.context_per_slot}"
            for i in range(model.slots)
        ),
        *(["srv    load_model: prompt cache is enabled, size limit: 8192 MiB"] if build > 6722 else []),
        "main: model loaded",
        "srv  update_slots: all slots are idle",
    ]


def _using(machine: Machine) -> list[str]:
    return [
        f"llama_model_load_from_file_impl: using device {gpu.backend}{i} ({gpu.name}) - {gpu.mib - 1100} "
        "MiB free"
        for i, gpu in enumerate(machine.gpus)
    ]


def log(
    model: Model,
    machine: Machine,
    requests: Sequence[Asked],
    *,
    build: int,
    state_mib_per_token: float | None = None,
) -> str:
    """A log without clocks; its timing lines follow a line that names the task."""
    slots = slots_of(model, state_mib_per_token, "sim", "sim_best")
    timed = tasks(
        requests,
        lambda *args: begin(slots, model, build, *args),
        lambda request, task, _: end(build, request, task),
    )
    lines = [*header(model, machine, build), *(text for _, text in timed)]
    return "".join(f"{text}\n" for text in lines)


def begin(slots: Slots, model: Model, build: int, request: Asked, task: int, now_ms: float) -> list[str]:
    """A request is taken."""
    modern = build >= 6890
    who = f"id {request.slot:2d} | task {task} |"
    word = "task.n_tokens" if modern else "n_prompt_tokens"
    removed = "n_tokens = {0}, memory_seq_rm [{0}, end)" if modern else "kv cache rm [{0}, end)"
    return [
        *(slots.pick(request, now_ms) if build >= 6723 else []),
        f"slot launch_slot_: {who} processing task{', is_child = 0' if build >= 7690 else ''}",
        (
            f"slot update_slots: {who} new prompt, n_ctx_slot = {model.context_per_slot}, n_keep = 0, "
            f"{word} = {request.prompt}"
        ),
        *(f"slot update_slots: {who} {said}" for said in request.said),
        *(
            f"slot update_slots: {who} {removed.format(n)}"
            for n in range(request.cached, request.prompt, model.batch)
        ),
    ]


def end(build: int, request: Asked, task: int) -> list[str]:
    """A request's timings; until September 2025 they came after its release."""
    who = f"id {request.slot:2d} | task {task} |"
    timings = [
        f"slot print_timing: {who} ",
        rate("prompt eval time", request.prefill_ms, request.evaluated),
        rate("       eval time", request.decode_ms, request.output),
        total(request),
        *acceptance(request, "draft acceptance rate"),
    ]
    word = "n_tokens" if build >= 6890 else "n_past"
    release = [f"slot      release: {who} stop processing: {word} = {request.held}, truncated = 0"]
    whole = [*timings, *release] if build >= 6890 else [*release, *timings]
    done = "done request" if build >= 7808 else "request"
    route = f"srv  log_server_r: {done}: POST /v1/chat/completions 127.0.0.1 200"
    return [*whole, "srv  update_slots: all slots are idle", route]
