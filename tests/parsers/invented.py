"""Invented llama-server logs with known rows: several slots at once, in each layout it has had."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.parsers.reading import join

if TYPE_CHECKING:
    from parsers.records import Request

LAYOUTS = ("carriage returns", "release first", "release last", "prefixed")
CHATTER = (
    "srv  update_slots: all slots are idle",
    "srv  params_from_: Chat format: Content-only",
    'data stream, to_send: data: {"content":"slot print_timing: id  0 | task 1 | \\nprompt eval time = 1"}',
    'request: {"prompt": "prompt eval time =     1.00 ms /     1 tokens (  1.00 ms per token, 1.00 tokens"}',
    "",
)


@dataclass
class Log:
    """A log and what is true of it."""

    lines: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    aborted: int = 0
    failed: int = 0

    @property
    def data(self) -> bytes:
        return join(self.lines)


FIELDS = (
    "slot",
    "request_id",
    "kind",
    "prefill_ms",
    "prefill_tokens",
    "decode_ms",
    "output_tokens",
    "total_ms",
    "context_tokens",
    "cached_tokens",
    "draft_tokens",
    "accepted_tokens",
)


def told(rows: list[Request]) -> list[dict[str, Any]]:
    """The fields that an invented log knows, in the order of tasks."""
    return in_order([{name: getattr(row, name) for name in FIELDS} for row in rows])


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (int(row["request_id"]), row["slot"]))


@dataclass(frozen=True)
class _Numbers:
    prefill_ms: float
    prefill: int
    decode_ms: float
    output: int
    cached: int
    drafted: int
    accepted: int

    @property
    def context(self) -> int:
        return self.cached + self.prefill + self.output - 1


def _rates(ms: float, tokens: int) -> str:
    """What stands in the brackets, overflowing its width as it may."""
    rate = f"{1000 / ms * tokens:8.2f}" if ms else "     inf"
    return f"{ms / tokens:8.2f} ms per token, {rate} tokens per second"


def _block(layout: str, head: str, n: _Numbers) -> list[str]:
    total_ms = round(n.prefill_ms + n.decode_ms, 2)
    read, wrote = _rates(n.prefill_ms, n.prefill), _rates(n.decode_ms, n.output)
    timing = [
        f"prompt eval time = {n.prefill_ms:10.2f} ms / {n.prefill:5d} tokens ({read})",
        f"       eval time = {n.decode_ms:10.2f} ms / {n.output:5d} tokens ({wrote})",
        f"      total time = {total_ms:10.2f} ms / {n.prefill + n.output:5d} tokens",
    ]
    draft = f"draft acceptance{'' if layout == 'prefixed' else ' rate'} = 0.50000 "
    draft += f"({n.accepted:5d} accepted / {n.drafted:5d} generated)"
    if layout == "prefixed":
        timing += ["   graphs reused =         12", *([draft + ", mean len =  1.50"] if n.drafted else [])]
        return [head + line for line in timing]
    if layout == "release last":
        return [head, *timing, *([draft] if n.drafted else [])]
    own_header = [head, draft] if n.drafted else []
    feed = "\r" if layout == "carriage returns" else ""
    return [head, *(feed + line for line in timing), *own_header]


def _task(
    layout: str, log: Log, slot: int, task: int, kind: str, n: _Numbers, *, says_prompt: bool
) -> list[list[str]]:
    """The lines of one task, grouped where the engine writes several at once; its truth goes to the log."""
    head = f"slot {{:>12}}: id {slot:2d} | task {task} | "
    unit = "n_tokens" if layout in ("release last", "prefixed") else "n_past"
    context = n.cached + n.prefill if kind == "embedding" else n.context
    release = head.format("release") + f"stop processing: {unit} = {context}, truncated = 0"
    steps = [[head.format("launch_slot_") + "processing task"]]
    if says_prompt:
        update = head.format("update_slots")
        steps += [
            [update + f"new prompt, n_ctx_slot = 4096, n_keep = 0, n_prompt_tokens = {n.cached + n.prefill}"]
        ]
        steps += [[update + f"kv cache rm [{n.cached + batch}, end)"] for batch in (0, 2048)]
    row = dict.fromkeys(FIELDS) | {"slot": slot, "request_id": str(task), "context_tokens": context}
    if kind == "cancelled":
        log.aborted += 1
        return [*steps, [f"srv          stop: cancel task, id_task = {task}"], [release]]
    if kind == "failed":
        log.failed += 1
        return [*steps, [f"srv    send_error: task id = {task}, error: Compute error."], [release]]
    if kind == "embedding":
        cached = n.cached if says_prompt else None
        log.rows.append(row | {"kind": "embedding", "cached_tokens": cached})
        return [*steps, [release, "srv  log_server_r: request: POST /v1/embeddings 127.0.0.1 200"]]
    timing = _block(layout, head.format("print_timing"), n)
    log.rows.append(
        row
        | {
            "kind": "generation",
            "prefill_ms": n.prefill_ms,
            "prefill_tokens": n.prefill,
            "decode_ms": n.decode_ms,
            "output_tokens": n.output,
            "total_ms": round(n.prefill_ms + n.decode_ms, 2),
            "cached_tokens": n.cached if says_prompt or not n.drafted or unit == "n_past" else None,
            "draft_tokens": n.drafted or None,
            "accepted_tokens": n.accepted if n.drafted else None,
        }
    )
    last = [timing, [release]] if layout in ("release last", "prefixed") else [[release, *timing]]
    return [*steps, *last]


_MS = st.integers(0, 9_999_999).map(lambda hundredths: hundredths / 100)


@st.composite
def logs(
    draw: st.DrawFn, layouts: tuple[str, ...] = LAYOUTS, most: int = 6, *, from_zero: bool = False
) -> Log:
    """A log of one process: tasks on up to four slots, interleaved as a server may write them.

    Every process counts its tasks from 0; `from_zero` says that the log begins where the process does.
    """
    layout = draw(st.sampled_from(layouts))
    log = Log()
    queues: list[list[list[str]]] = [[] for _ in range(draw(st.integers(1, 4)))]
    numbers = draw(st.lists(st.integers(0, 200), min_size=1, max_size=most, unique=True).map(sorted))
    numbers = [0, *(number for number in numbers if number)] if from_zero else numbers
    slots = {number: draw(st.integers(0, len(queues) - 1)) for number in numbers}
    drafted = draw(st.sampled_from((0, 0, 20)))
    for number, slot in slots.items():
        truth = _Numbers(
            draw(_MS),
            draw(st.integers(1, 99_999)),
            draw(_MS),
            draw(st.integers(1, 9_999)),
            draw(st.integers(0, 9_999)),
            drafted,
            draw(st.integers(0, drafted)),
        )
        kind = draw(st.sampled_from(("done", "done", "done", "cancelled", "failed", "embedding")))
        queues[slot] += _task(
            layout, log, slot, number, kind, truth, says_prompt=kind == "embedding" or draw(st.booleans())
        )
    ticks = 0
    while any(queues):
        queue = draw(st.sampled_from([queue for queue in queues if queue]))
        queue = queues[slots[0]] if from_zero and ticks == 0 else queue
        for line in queue.pop(0):
            ticks += 1
            bare = layout == "prefixed" and line
            log.lines.append(f"0.{ticks // 60:02d}.{ticks % 60:03d}.000 I {line}" if bare else line)
        if draw(st.booleans()):
            log.lines.append(draw(st.sampled_from(CHATTER)))
    return log
