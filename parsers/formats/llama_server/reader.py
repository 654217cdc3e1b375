"""Joins llama-server's lines to requests.

Four things to know. Prompt-eval tokens exclude what came from the cache. Until b6722 the slot is released
before its timing is printed, since then after it, so a task is a request only when both have been seen, or
when something later shows that no more will come. Nothing is logged on arrival: the clock starts when a
slot takes the task, so time spent queueing is invisible. And the log may quote such lines, in prompts and
answers: a line is the engine's own only if it fits what its slot is doing.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

from parsers.formats.base import At, Process, Reader
from parsers.formats.llama_cpp import clock_ms
from parsers.formats.llama_server.body import Bodies
from parsers.formats.llama_server.task import ENGINE, Task
from parsers.formats.llama_server.tasks import Tasks

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

_SAME_RUN_CLOCK_SLACK_MS = 1_000.0
_LONGEST_DUMP_LINES = 1_000


def _of_task(
    method: Callable[[ServerReader, Task, re.Match[bytes], At], None],
) -> Callable[[ServerReader, re.Match[bytes], At], None]:
    """For lines about a task: finds it, and drops a line that can't be the engine's own."""

    @wraps(method)
    def found(self: ServerReader, m: re.Match[bytes], at: At) -> None:
        if (task := self._task(m, at)) is not None:
            method(self, task, m, at)

    return found


class ServerReader(Reader):
    """One method for each line; the tasks they are about; the one block of bare lines that may be open."""

    engine = ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._bodies = Bodies(process)
        self._forget()

    def _forget(self) -> None:
        """Start over, as each process does."""
        self._tasks = Tasks(self.process)
        self._block: Task | None = None
        self._started = self._clocked = False
        self._clock_ms: float | None = None
        self._dump_line: int | None = None

    # --- the process

    def started(self, m: re.Match[bytes], at: At) -> None:
        """A new server begins."""
        if self._own(m, at):
            self.process.start(at)
            self._see_clock(m, at)
            self._started = True

    def load_failed(self, m: re.Match[bytes], at: At) -> None:
        """``exiting due to model loading error``."""
        self.process.setup.engine = self.process.host or ENGINE
        self.process.event(ENGINE, at, "error", "the model could not be loaded")

    def out_of_memory(self, m: re.Match[bytes], at: At) -> None:
        """An allocation failed."""
        self.process.event(ENGINE, at, "out_of_memory", f"could not allocate {m['size'].decode()}")

    def dump(self, m: re.Match[bytes], at: At) -> None:
        """A chat template or an answer follows, raw, on as many lines as it has."""
        self._dump_line = at.number

    def dumped(self, m: re.Match[bytes], at: At) -> None:
        """The text is over."""
        self._dump_line = None

    def _own(self, m: re.Match[bytes], at: At) -> bool:
        """Whether the engine says this itself; text that it prints has no clock and may quote its lines."""
        if m["clock"] is not None:
            self._clocked = True
            return True
        return not self._clocked and not self._in_dump(at)

    def _in_dump(self, at: At) -> bool:
        return self._dump_line is not None and at.number <= self._dump_line + _LONGEST_DUMP_LINES

    def _see_clock(self, m: re.Match[bytes], at: At) -> float | None:
        """The process's clock in ms; one that goes back is another process's."""
        now = clock_ms(m["clock"])
        if now is not None:
            if self._clock_ms is not None and now < self._clock_ms - _SAME_RUN_CLOCK_SLACK_MS:
                self.process.restart(at)
            self._clocked, self._clock_ms = True, now
        return now

    # --- the life of a task

    def _task(self, m: re.Match[bytes], at: At) -> Task | None:
        """The open task this line is about; one whose launch the log doesn't hold is opened here."""
        if not self._own(m, at):
            return None
        slot, number = int(m["slot"]), int(m["task"])
        self._tasks.settle(slot, number)
        self._block = None
        task = self._tasks.find(slot, number)
        if task is None:
            self._see_clock(m, at)
            task = self._tasks.adopt(slot, number, at)
        if task is not None:
            task.last_clock = m["clock"]
        return task

    def launch(self, m: re.Match[bytes], at: At) -> None:
        """A slot takes the task: the clock of the request starts."""
        if not self._own(m, at):
            return
        slot, number = int(m["slot"]), int(m["task"])
        now_ms = self._see_clock(m, at)
        if self._tasks.restarted(number):
            self.process.restart(at)
            self._see_clock(m, at)
        self._block = None
        self._tasks.launch(
            Task(slot, number, at, True, clock_ms=now_ms, last_clock=m["clock"], started_at=at.time)
        )

    @_of_task
    def new_prompt(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """The whole prompt's length."""
        task.prompt, task.cached = int(m["tokens"]), None

    @_of_task
    def input_truncated(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """The prompt was cut to fit the context; its length is what was left."""
        was, task.prompt = task.prompt, int(m["tokens"])
        cut = f"cut to {task.prompt} tokens" if was is None else f"cut from {was} to {task.prompt} tokens"
        lost = None if was is None else float(was - task.prompt)
        detail = f"prompt {cut} to fit a context of {int(m['context'])}"
        self._event(task, at, "prompt_truncated", detail, lost)

    @_of_task
    def cached(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """The first of a task is the cached prefix; it repeats once for each batch."""
        if task.launched and task.cached is None:
            task.cached = int(m["tokens"])

    @_of_task
    def reprocess(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """The cached prefix had to be thrown away (sliding window or recurrent state)."""
        self._event(task, at, "full_reprocess", "the cached prefix could not be used")

    @_of_task
    def shift(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """The context was full and its older half dropped."""
        task.shifted = True
        dropped = int(m["discarded"])
        self._event(task, at, "context_shift", f"{dropped} tokens dropped", float(dropped))

    @_of_task
    def released(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """The slot is free again; says how full its context is. `n_past` is the word until b6889."""
        task.context, task.truncated = int(m["tokens"]), m["truncated"] == b"1"
        task.counts_drafts = m["unit"] == b"past"
        self._tasks.release(task, at, timing_may_follow=m["unit"] == b"past")

    def cancelled(self, m: re.Match[bytes], at: At) -> None:
        """``cancel task, id_task = 5``: its client went away."""
        if self._own(m, at):
            self._tasks.cancel(int(m["task"]), clock_ms(m["clock"]), at)

    def failed(self, m: re.Match[bytes], at: At) -> None:
        """The server refused or gave up the task."""
        number = int(m["task"])
        if not self._own(m, at) or not (task := self._tasks.fail(number)):
            return
        slot = task.slot if isinstance(task, Task) else None
        if m["too_long"] is None:
            self._tasks.tell(at, "error", "the server reported an error for this task", number, slot)
        elif m["prompt"] is None or m["context"] is None:
            self._tasks.tell(at, "context_exceeded", "the context is too small for this task", number, slot)
        else:
            prompt, context = int(m["prompt"]), int(m["context"])
            detail = f"prompt of {prompt} tokens exceeds the context of {context}"
            self._tasks.tell(at, "context_exceeded", detail, number, slot, float(prompt - context))

    def route(self, m: re.Match[bytes], at: At) -> None:
        """An HTTP request ended; its path tells a rerank from an embedding."""
        kind = next((k for word, k in _UNTIMED_KINDS.items() if word in m["path"]), None)
        if kind is not None and self._own(m, at):
            for task in self._tasks.without_timing():
                self.process.emit(task.untimed_request(kind))

    # --- timing lines

    @_of_task
    def slot_prefill(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """``slot print_timing: id 0 | task 2 | prompt eval time = 2402.53 ms / 630 tokens (...``."""
        task.prefill, task.timed_line = (float(m["ms"]), int(m["tokens"])), at.number

    @_of_task
    def slot_decode(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """The same for the generated tokens."""
        task.decode, task.timed_line, task.finished_at = (
            (float(m["ms"]), int(m["tokens"])),
            at.number,
            at.time,
        )

    @_of_task
    def slot_total(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """The sum of both."""
        self._tasks.total(task, float(m["ms"]), at)

    @_of_task
    def slot_draft(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """``draft acceptance = 0.88889 ( 40 accepted / 45 generated)``."""
        task.accepted, task.drafted = int(m["accepted"]), int(m["drafted"])

    @_of_task
    def header(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """``slot print_timing: id 0 | task 2 |`` alone: the next lines are this task's."""
        self._block = task

    def prefill(self, m: re.Match[bytes], at: At) -> None:
        """A bare `prompt eval time` line."""
        if not (self._tasks.seen or self._clocked or self._in_dump(at)):
            self._block = self._tasks.loose(at)
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
        """A bare `total time` line; only a draft line may follow."""
        if (task := self._block) and task.timed and task.total_ms is None:
            self._tasks.total(task, float(m["ms"]), at)

    def draft(self, m: re.Match[bytes], at: At) -> None:
        """A bare `draft acceptance rate` line follows the block it belongs to."""
        if (task := self._block) and task.timed and task.drafted is None:
            task.accepted, task.drafted = int(m["accepted"]), int(m["drafted"])

    def body(self, m: re.Match[bytes], at: At) -> None:
        """An answer as a client logs it; where slot lines tell of the same request, it adds nothing."""
        if not self._tasks.seen:
            self._bodies.take(m, at)

    # --- the end

    def flush(self) -> None:
        """Emit the request that only waited for a draft line."""
        self._tasks.settle()

    def close(self) -> None:
        """The source or the process ends."""
        setup = self.process.setup
        if (self._started or self._tasks.seen) and setup.engine is None:
            setup.engine = self.process.host or ENGINE
        self._bodies.close()
        self._tasks.close()
        self._forget()

    def _event(self, task: Task, at: At, kind: str, detail: str, value: float | None = None) -> None:
        self._tasks.tell(at, kind, detail, task.task, task.slot, value)


_UNTIMED_KINDS = {b"rerank": "rerank", b"embed": "embedding"}
