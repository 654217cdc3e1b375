"""Joins llama-server's lines to requests.

Three things to know. Prompt-eval tokens exclude what came from the cache. The order of `release` and the
timing lines changed between builds, so a task is a request only when both have been seen, or when
something after them shows that no more will come. Nothing is logged on arrival: the clock starts when a
slot takes the task, so time spent queueing is invisible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from parsers.formats.base import At, Process, Reader
from parsers.formats.llama_cpp import clock_ms
from parsers.records import Request

if TYPE_CHECKING:
    import re
    from datetime import datetime

_ENGINE = "llama-server"
_SAME_RUN_CLOCK_SLACK_MS = 1_000.0


@dataclass(slots=True)
class _Task:
    """What is known of one task so far. Times in ms, counts in tokens."""

    slot: int | None
    task: int | None
    at: At
    clock_ms: float | None = None
    started_at: datetime | None = None
    prompt: int | None = None
    cached: int | None = None
    prefill: tuple[float, int] | None = None
    decode: tuple[float, int] | None = None
    total_ms: float | None = None
    timed_line: int = 0
    end_clock_ms: float | None = None
    finished_at: datetime | None = None
    drafted: int | None = None
    accepted: int | None = None
    context: int | None = None
    truncated: bool | None = None
    shifted: bool = False
    cancelled_clock_ms: float | None = None
    cancelled: bool = False
    failed: bool = False
    launched: bool = False

    @property
    def timed(self) -> bool:
        return self.prefill is not None and self.decode is not None

    @property
    def released(self) -> bool:
        return self.truncated is not None


class ServerReader(Reader):
    """Slots, tasks, and the one block of bare timing lines that may be open."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._open: dict[tuple[int, int], _Task] = {}
        self._block: _Task | None = None
        self._ready: _Task | None = None
        self._loose: _Task | None = None
        self._totals_seen = False
        self._slots_seen = False
        self._first_task: int | None = None
        self._clock_ms: float | None = None

    # --- the process

    def started(self, m: re.Match[bytes], at: At) -> None:
        """A new server begins; build 0 is one made without git and says nothing."""
        self._restart(at)
        build = m.groupdict().get("build")
        if build and int(build):
            self.process.learn(at, engine_version=f"b{int(build)}")

    def load_failed(self, m: re.Match[bytes], at: At) -> None:
        """``exiting due to model loading error``."""
        self.process.setup.engine = self.process.host or _ENGINE
        self.process.event(_ENGINE, at, "error", "the model could not be loaded")

    def out_of_memory(self, m: re.Match[bytes], at: At) -> None:
        """An allocation failed."""
        self.process.event(_ENGINE, at, "out_of_memory", f"could not allocate {m['size'].decode()}")

    def _restart(self, at: At) -> None:
        self.process.restart(at)
        self._first_task = self._clock_ms = None

    def _see_clock(self, m: re.Match[bytes], at: At) -> float | None:
        now = clock_ms(m["clock"])
        if now is not None:
            if self._clock_ms is not None and now < self._clock_ms - _SAME_RUN_CLOCK_SLACK_MS:
                self._restart(at)
            self._clock_ms = now
        return now

    # --- the life of a task

    def _task(self, m: re.Match[bytes], at: At) -> _Task:
        """The open task this line is about; one whose launch was cut off is opened here."""
        self._settle(m)
        now = self._see_clock(m, at)
        key = int(m["slot"]), int(m["task"])
        task = self._open.get(key)
        if task is None:
            self._slots_seen = True
            task = self._open[key] = _Task(*key, at=at)
        if now is not None:
            task.end_clock_ms = now
        return task

    def launch(self, m: re.Match[bytes], at: At) -> None:
        """A slot takes the task: the clock of the request starts."""
        self._settle(m)
        slot, number_ = int(m["slot"]), int(m["task"])
        now = self._see_clock(m, at)
        if self._first_task is not None and number_ <= self._first_task:
            self._restart(at)
        if self._first_task is None:
            self._first_task = number_
        for key in [k for k in self._open if k[0] == slot]:
            self._finish(self._open.pop(key))
        self._slots_seen = True
        self._open[slot, number_] = _Task(
            slot, number_, at, clock_ms=now, end_clock_ms=now, started_at=at.time, launched=True
        )

    def new_prompt(self, m: re.Match[bytes], at: At) -> None:
        """The whole prompt's length."""
        task = self._task(m, at)
        task.prompt, task.cached = int(m["tokens"]), None

    def input_truncated(self, m: re.Match[bytes], at: At) -> None:
        """The prompt was cut to fit the context; its length is what was left."""
        task = self._task(m, at)
        was, task.prompt = task.prompt, int(m["tokens"])
        cut = (
            f"prompt cut from {was} to {task.prompt} tokens" if was else f"prompt cut to {task.prompt} tokens"
        )
        lost = None if was is None else float(was - task.prompt)
        self._event(
            task, at, "prompt_truncated", f"{cut} to fit a context of {int(m['context'])}", value=lost
        )

    def cached(self, m: re.Match[bytes], at: At) -> None:
        """The first after `new prompt` is the cached prefix; it repeats once for each batch."""
        task = self._task(m, at)
        if task.cached is None:
            task.cached = int(m["tokens"])

    def reprocess(self, m: re.Match[bytes], at: At) -> None:
        """The cached prefix had to be thrown away (sliding window or recurrent state)."""
        self._event(self._task(m, at), at, "full_reprocess", "the cached prefix could not be used")

    def shift(self, m: re.Match[bytes], at: At) -> None:
        """The context was full and its older half dropped."""
        task = self._task(m, at)
        task.shifted = True
        self._event(
            task, at, "context_shift", f"{int(m['discarded'])} tokens dropped", value=float(m["discarded"])
        )

    def cancelled(self, m: re.Match[bytes], at: At) -> None:
        """The client went away; after an error the same line only cleans up."""
        now = self._see_clock(m, at)
        for task in self._open.values():
            if task.task == int(m["task"]) and not task.failed:
                task.cancelled, task.cancelled_clock_ms = True, now

    def failed(self, m: re.Match[bytes], at: At) -> None:
        """The server refused or gave up the task."""
        task = next((t for t in self._open.values() if t.task == int(m["task"])), None)
        if task is not None:
            task.failed = True
        else:
            self.process.counts.failed_requests += 1
        where = {"slot": None if task is None else task.slot, "request_id": m["task"].decode()}
        if m["prompt"]:
            detail = f"prompt of {int(m['prompt'])} tokens exceeds the context of {int(m['context'])}"
            over = float(m["prompt"]) - float(m["context"])
            self.process.event(_ENGINE, at, "context_exceeded", detail, value=over, **where)
        else:
            self.process.event(_ENGINE, at, "error", "the server reported an error for this task", **where)

    def released(self, m: re.Match[bytes], at: At) -> None:
        """The slot is free again; says how full its context is."""
        task = self._task(m, at)
        task.context, task.truncated = int(m["tokens"]), m["truncated"] == b"1"
        task.finished_at = task.finished_at or at.time
        if task.cancelled:
            self._abort(task, at)
        elif task.failed:
            self.process.counts.failed_requests += 1
        elif task.timed:
            self._emit(task)
        else:
            return
        self._open.pop((int(m["slot"]), int(m["task"])), None)

    def route(self, m: re.Match[bytes], at: At) -> None:
        """An HTTP request ended; its path tells a rerank from an embedding."""
        if b"rerank" in m["path"]:
            for task in self._open.values():
                if task.released and not task.timed:
                    self._emit_untimed(task, "rerank")
            self._open = {k: t for k, t in self._open.items() if not (t.released and not t.timed)}

    # --- timing lines

    def slot_prefill(self, m: re.Match[bytes], at: At) -> None:
        """``slot print_timing: id 0 | task 2 | prompt eval time = 2402.53 ms / 630 tokens (...``."""
        task = self._task(m, at)
        task.prefill = float(m["ms"]), int(m["tokens"])
        task.timed_line = at.number

    def slot_decode(self, m: re.Match[bytes], at: At) -> None:
        """The same for the generated tokens."""
        task = self._task(m, at)
        task.decode = float(m["ms"]), int(m["tokens"])
        task.timed_line, task.finished_at = at.number, at.time
        self._if_whole(task)

    def slot_total(self, m: re.Match[bytes], at: At) -> None:
        """The sum of both."""
        task = self._task(m, at)
        self._totals_seen = True
        task.total_ms, task.timed_line, task.finished_at = float(m["ms"]), at.number, at.time
        self._if_whole(task)

    def slot_draft(self, m: re.Match[bytes], at: At) -> None:
        """``draft acceptance = 0.88889 ( 40 accepted / 45 generated)``."""
        self._draft(self._ready_or_open(m, at), m)

    def header(self, m: re.Match[bytes], at: At) -> None:
        """``slot print_timing: id 0 | task 2 |`` alone: the next lines are this task's."""
        ready = self._ready
        task = (
            ready
            if ready and (ready.slot, ready.task) == (int(m["slot"]), int(m["task"]))
            else self._task(m, at)
        )
        self._block = task

    def prefill(self, m: re.Match[bytes], at: At) -> None:
        """A bare `prompt eval time` line."""
        if self._block is None and not self._slots_seen:
            self._settle(None)
            self._block = self._loose = _Task(None, None, at)
        if (task := self._block) and task.prefill is None:
            task.prefill, task.timed_line = (float(m["ms"]), int(m["tokens"])), at.number

    def decode(self, m: re.Match[bytes], at: At) -> None:
        """A bare `eval time` line."""
        if (task := self._block) and task.prefill and task.decode is None:
            task.decode, task.timed_line, task.finished_at = (
                (float(m["ms"]), int(m["tokens"])),
                at.number,
                at.time,
            )

    def total(self, m: re.Match[bytes], at: At) -> None:
        """A bare `total time` line ends the block."""
        task = self._block
        if task is None or not task.timed:
            return
        self._totals_seen = True
        task.total_ms, task.timed_line, task.finished_at = float(m["ms"]), at.number, at.time
        self._block = None
        if task is self._loose:
            self._loose, self._ready = None, task
        else:
            self._if_whole(task)

    def draft(self, m: re.Match[bytes], at: At) -> None:
        """A bare `draft acceptance rate` line follows the block it belongs to."""
        task = self._ready or self._block
        if task is not None:
            self._draft(task, m)

    def _draft(self, task: _Task, m: re.Match[bytes]) -> None:
        task.accepted, task.drafted = int(m["accepted"]), int(m["drafted"])

    def _ready_or_open(self, m: re.Match[bytes], at: At) -> _Task:
        ready = self._ready
        if ready and (ready.slot, ready.task) == (int(m["slot"]), int(m["task"])):
            return ready
        return self._task(m, at)

    # --- from task to row

    def _if_whole(self, task: _Task) -> None:
        """Timings after the release (mid-2025): only a draft line may follow."""
        if task.timed and task.released and task.total_ms is not None and task.slot is not None:
            self._open.pop((task.slot, task.task or 0), None)
            self._ready = task

    def _settle(self, m: re.Match[bytes] | None) -> None:
        """Emit the request that only waited for a draft line, once a line about something else comes."""
        ready = self._ready
        if ready is None:
            return
        if m is not None and (ready.slot, ready.task) == (int(m["slot"]), int(m["task"])):
            return
        self._ready = None
        self._emit(ready)

    def _finish(self, task: _Task) -> None:
        """No more will come for this task: emit it, or count what is missing."""
        if task.timed and (task.total_ms is not None or not self._totals_seen):
            self._emit(task)
        elif task.cancelled:
            self.process.counts.aborted_requests += 1
        elif task.failed:
            self.process.counts.failed_requests += 1
        elif task.launched and task.released and task.prefill is None:
            self._emit_untimed(task, "embedding")
        else:
            self.process.counts.incomplete_requests += 1

    def flush(self) -> None:
        """Emit the request that only waited for a draft line."""
        self._settle(None)

    def close(self) -> None:
        """The source or the process ends."""
        self._settle(None)
        if self._loose is not None:
            self._finish(self._loose)
        for task in self._open.values():
            self._finish(task)
        self._open.clear()
        self._block = self._loose = None

    def _event(self, task: _Task, at: At, kind: str, detail: str, value: float | None = None) -> None:
        self.process.event(_ENGINE, at, kind, detail, slot=task.slot, request_id=str(task.task), value=value)

    def _abort(self, task: _Task, at: At) -> None:
        self.process.counts.aborted_requests += 1
        held_ms = None
        if task.end_clock_ms is not None and task.cancelled_clock_ms is not None:
            held_ms = round(task.end_clock_ms - task.cancelled_clock_ms, 3)
        after = "" if held_ms is None else f"; its slot was free {held_ms / 1000:.1f} s later"
        self._event(task, at, "aborted", f"the client went away{after}", value=held_ms)

    def _emit_untimed(self, task: _Task, kind: str) -> None:
        """Embedding and rerank tasks have a launch and a release, and no timing."""
        row = self._row(task)
        row.line = row.first_line
        row.kind = kind
        row.prompt_tokens = task.prompt if task.prompt is not None else task.context
        row.cached_tokens = task.cached
        self.process.emit(row)

    def _emit(self, task: _Task) -> None:
        if task.prefill is None or task.decode is None:
            return
        row = self._row(task)
        row.prefill_ms, row.prefill_tokens = task.prefill
        row.decode_ms, row.output_tokens = task.decode
        row.decode_steps = max(row.output_tokens - 1, 0)
        row.cached_tokens = self._cached(task, row.prefill_tokens, row.output_tokens)
        if row.cached_tokens is not None:
            row.prompt_tokens = row.cached_tokens + row.prefill_tokens
        else:
            row.prompt_tokens = task.prompt
        row.ttft_ms, row.ttft_from = row.prefill_ms, "slot"
        row.total_ms = (
            task.total_ms if task.total_ms is not None else round(row.prefill_ms + row.decode_ms, 2)
        )
        row.draft_tokens, row.accepted_tokens = task.drafted, task.accepted
        self.process.emit(row)

    def _cached(self, task: _Task, prefill: int, output: int) -> int | None:
        """Cached tokens: stated, or from the release line: context + 1 - evaluated - generated."""
        if task.cached is not None:
            return task.cached
        if task.prompt is not None and not task.shifted and task.prompt >= prefill:
            return task.prompt - prefill
        if task.context is None or task.truncated or task.shifted:
            return None
        cached = task.context + 1 - prefill - output
        return cached if cached >= 0 else None

    def _row(self, task: _Task) -> Request:
        return Request(
            line=task.timed_line or task.at.number,
            engine=_ENGINE,
            request_id=None if task.task is None else str(task.task),
            slot=task.slot,
            started_at=task.started_at,
            finished_at=task.finished_at,
            context_tokens=task.context,
            truncated=task.truncated,
            first_line=task.at.number,
            offset=task.at.offset,
            clock_start_ms=task.clock_ms,
            clock_end_ms=task.end_clock_ms,
        )
