"""LM Studio's developer log: llama.cpp's own lines below a stamp, the first of them moved in by a blank.

From May 2026 on its runtimes hide llama.cpp's header, so this is the layout of the months before.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tests.diagnosis.writers.header import Y2025, gpus, model_header
from tests.diagnosis.writers.llama_server_bare import begin, end
from tests.diagnosis.writers.slots import slots_of, tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.diagnosis.facts import Asked, Machine, Model

BUILD = 8680
STARTED = datetime(2026, 4, 24, 18, 4, 33, tzinfo=UTC)


def developer_log(model: Model, machine: Machine, requests: Sequence[Asked], *, name: str) -> str:
    """The log of one loaded model; ``name`` is LM Studio's own for it."""
    slots = slots_of(model, None, "sim", "sim_best")
    load = [
        f"LlamaV4::load called with model path: {model.path}",
        f"LlamaV4::load config: n_parallel={model.slots} n_ctx={model.context} kv_unified=false",
    ]
    header = [
        f"srv    load_model: loading model '{model.path}'",
        *model_header(model, Y2025, build=BUILD),
        f"srv    load_model: initializing slots, n_slots = {model.slots}",
        *(
            f"slot   load_model: id {i:2d} | task -1 | new slot, n_ctx = {model.context_per_slot}"
            for i in range(model.slots)
        ),
    ]
    blocks = [(0.0, load), (10.0, gpus(machine, memory=True)), (20.0, header)]
    for ms, text in tasks(
        requests,
        lambda *args: begin(slots, model, BUILD, *args),
        lambda request, task, _: end(BUILD, request, task)[:-1],
    ):
        if blocks[-1][0] == ms:
            blocks[-1][1].append(text)
        else:
            blocks.append((ms, [text]))
    said = [_stamped(ms, "DEBUG", lines) for ms, lines in blocks if lines]
    return "".join([*said, _stamped(blocks[-1][0], "INFO", [f"[{name}] Finished streaming response"])])


def _stamped(ms: float, level: str, lines: Sequence[str]) -> str:
    stamp = f"{STARTED + timedelta(milliseconds=ms):%Y-%m-%d %H:%M:%S}"
    return f"{stamp} [{level}]\n " + "\n".join(lines) + "\n"
