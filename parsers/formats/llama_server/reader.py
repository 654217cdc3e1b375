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

from parsers.formats.llama_cpp import clock_ms
from parsers.formats.llama_server.body import Bodies
from parsers.formats.llama_server.cache import CacheLines
from parsers.formats.llama_server.keyvalue import timed
from parsers.formats.llama_server.lanes import Lanes
from parsers.formats.llama_server.models import ModelLines
from parsers.formats.llama_server.task import ENGINE, Task

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from parsers.formats.base import At
    from parsers.formats.llama_server.tasks import Tasks
    from parsers.formats.process import Process


def _of_task(
    method: Callable[[ServerReader, Task, re.Match[bytes], At], None],
) -> Callable[[ServerReader, re.Match[bytes], At], None]:
    """For lines about a task: finds it, and drops a line that can't be the engine's own."""
    line = method.__name__

    @wraps(method)
    def found(self: ServerReader, m: re.Match[bytes], at: At) -> None:
        if (task := self._task(m, at, line)) is not None:
            method(self, task, m, at if task.last_clock else timed(m, at))

    return found


class ServerReader(CacheLines, ModelLines):
    """One method for each line; the tasks they are about; the one block of bare lines that may be open."""

    def __init__(self, process: Process) -> None:
        self._bodies = Bodies(process)
        super().__init__(process)

    def _forget(self) -> None:
        super()._forget()
        self._lanes = Lanes(self.process)
        self._tasks = self._lanes.all[0]
        self._block: Task | None = None

    # --- the life of a task

    def _task(self, m: re.Match[bytes], at: At, line: str) -> Task | None:
        """The open task this line is about; one whose launch the log doesn't hold is opened here."""
        clock = m["clock"]
        told = clock is not None and self.process.clocked and self._dump_line is None
        if not (told or self._own(m, at)):
            return None
        slot, number = int(m["slot"]), int(m["task"])
        tasks = self._tasks = self._lanes.having(slot, number, line, m)
        tasks.settle(slot, number)
        self._block = None
        self._full = False
        task = tasks.find(slot, number)
        if task is None:
            self._see_clock(m, at)
            task = self._tasks.adopt(slot, number, at)
        if task is None and line == "slot_total":
            self.process.missed += 1
        if task is not None:
            task.last_clock = clock
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
        self._full = False
        self._tell_wake(m["clock"])
        self.tell_miss(slot, number)
        self._tasks = self._lanes.free(slot)
        clock, began = m["clock"], at if now_ms is not None else timed(m, at)
        self._tasks.launch(Task(slot, number, at, True, now_ms, clock, began.time))

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

    def media(self, m: re.Match[bytes], at: At) -> None:
        """``image slice encoded in 312 ms``: of the one task whose prompt is being read, if there is one."""
        if self._own(m, at):
            task, what = self._lanes.reading(), (m["what"] or b"image").decode()
            number, slot = (task.task, task.slot) if task else (None, None)
            self._tasks.tell(at, "media", f"{what} encoded", number, slot, float(m["ms"]))

    @_of_task
    def stopped(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """``stopped by EOS``, ``stopped by limit, n_gen = 12, n_predict = 12`` (with `-v`)."""
        task.finish_reason = "stop" if m["why"] == b"EOS" else "length"

    @_of_task
    def released(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """The slot is free again; says how full its context is. `n_past` is the word until b6889."""
        task.context, task.truncated = int(m["tokens"]), m["truncated"] == b"1"
        task.counts_drafts = m["unit"] == b"past"
        self._tasks.release(task, at, timing_may_follow=task.counts_drafts)
        if self.process.host and not task.counts_drafts:
            self._end_untimed("embedding")

    @_of_task
    def let_go(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """``slot released`` until b3760: an untimed task was an embedding, or its client left."""
        task.context, task.truncated = int(m["tokens"]), m["truncated"] == b"true"
        if task.timed:
            self._tasks.release(task, at, timing_may_follow=False)

    def cancelled(self, m: re.Match[bytes], at: At) -> None:
        """``cancel task, id_task = 5``: its client went away."""
        if self._own(m, at):
            number = int(m["task"])
            self._lanes.numbered(number).cancel(number, clock_ms(m["clock"]), at)

    def failed(self, m: re.Match[bytes], at: At) -> None:
        """The server refused or gave up the task."""
        number = int(m["task"])
        if not self._own(m, at) or not (task := self._lanes.numbered(number).fail(number)):
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
            self._end_untimed(kind)

    def _end_untimed(self, kind: str) -> None:
        for task in self._tasks.without_timing():
            self.process.emit(task.untimed_request(kind))

    # --- timing lines

    @_of_task
    def slot_prefill(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """``slot print_timing: id 0 | task 2 | prompt eval time = 2402.53 ms / 630 tokens (...``."""
        self._tasks.blocks_seen = True
        task.prefill, task.timed_line = self._phase(m), at.number

    @_of_task
    def told_prefill(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """The same until b3760: of a prompt that was cached whole it prints 0, but one is evaluated."""
        ms, tokens = self._phase(m)
        if tokens == 0 and ms is not None:
            tokens = None if ms > 0 and task.cached is None else int(bool(ms and task.cached))
        task.prefill, task.timed_line = (ms, tokens), at.number

    @_of_task
    def slot_decode(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """The same for the generated tokens."""
        task.decode, task.timed_line, task.finished_at = self._phase(m, 1), at.number, at.time

    @_of_task
    def slot_total(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """The sum of both."""
        self._tasks.total(task, float(m["ms"]), at)

    @_of_task
    def slot_draft(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """``draft acceptance = 0.88889 ( 40 accepted / 45 generated)``."""
        self._tasks.drafts_seen = True
        task.accepted, task.drafted = int(m["accepted"]), int(m["drafted"])

    @_of_task
    def header(self, task: Task, m: re.Match[bytes], at: At) -> None:
        """``slot print_timing: id 0 | task 2 |`` alone: the next lines are this task's."""
        self._tasks.blocks_seen = True
        self._block = task

    def prefill(self, m: re.Match[bytes], at: At) -> None:
        """A bare `prompt eval time` line."""
        self._tasks.blocks_seen = True
        if not (self._tasks.seen or self.process.clocked or self._in_dump(at)):
            self._block = self._tasks.loose(at)
        if (task := self._block) and task.prefill is None:
            task.prefill, task.timed_line = self._phase(m), at.number

    def decode(self, m: re.Match[bytes], at: At) -> None:
        """A bare `eval time` line."""
        self._tasks.blocks_seen = True
        if (task := self._block) and task.prefill and task.decode is None:
            task.decode, task.timed_line, task.finished_at = self._phase(m, 1), at.number, at.time

    def total(self, m: re.Match[bytes], at: At) -> None:
        """A bare `total time` line; only a draft line may follow."""
        if (task := self._block) and task.timed and task.total_ms is None:
            self._tasks.total(task, float(m["ms"]), at)

    def draft(self, m: re.Match[bytes], at: At) -> None:
        """A bare `draft acceptance rate` line follows the block it belongs to."""
        if (task := self._block) and task.timed and task.drafted is None:
            self._tasks.drafts_seen = True
            task.accepted, task.drafted = int(m["accepted"]), int(m["drafted"])

    def body(self, m: re.Match[bytes], at: At) -> bool | None:
        """An answer as a client logs it; where slot lines tell of the same request, it adds nothing."""
        return None if self._tasks.seen or self._in_dump(at) else self._bodies.take(m, at)

    def timings(self, m: re.Match[bytes], at: At) -> bool | None:
        """``"timings": {`` of an answer printed over many lines; browsers log such blocks too."""
        told = self._tasks.seen or self._in_dump(at)
        if not told:
            self._bodies.pretty.open(at)
        return None if told else False

    def timing(self, m: re.Match[bytes], at: At) -> None:
        """One of its fields."""
        self._bodies.pretty.add(m, at)

    # --- many at a time

    @property
    def tasks(self) -> Tasks:
        """What the slots do."""
        return self._tasks

    @property
    def is_steady(self) -> bool:
        """Whether usual lines do no more than to launch, time and release tasks."""
        process = self.process
        return (
            process.clocked
            and not process.quotes.may_hold(process.label)
            and process.is_settled_as(ENGINE)
            and self._dump_line is None
            and self._woken is None
            and self._block is None
            and not self._full
            and self.clock_ms is not None
            and len(self._lanes.all) == 1
            and self._tasks.is_steady
        )

    # --- the end

    def any_told(self) -> bool:
        """Whether a task has all its timings and was not seen to give its slot back."""
        return self._lanes.any_told()

    def flush(self) -> None:
        """Emit the requests that only waited for a draft line."""
        self._lanes.settle()
        self._bodies.pretty.flush()

    def joined(self) -> None:
        """Another server starts beside this one; what is open here goes on."""

    def close(self) -> None:
        """The source or the process ends."""
        setup = self.process.setup
        if (self._started or self._tasks.seen) and setup.engine is None:
            setup.engine = self.process.name_of(ENGINE)
        self._bodies.close()
        self._lanes.close()
        self._tell_loads()
        self._forget()

    def _event(self, task: Task, at: At, kind: str, detail: str, value: float | None = None) -> None:
        self._tasks.tell(at, kind, detail, task.task, task.slot, value)


_UNTIMED_KINDS = {b"rerank": "rerank", b"embed": "embedding"}
