"""The open tasks of one llama-server process: which lines can be theirs, and when one becomes a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.llama_server.task import ENGINE, Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from parsers.formats.base import At
    from parsers.formats.process import Process
    from parsers.printed import Bools, Ints

_FIRST_TASKS = 64
"""How many of a run's first task ids are remembered: one that comes again is another process's."""
_REORDERED_TASKS = 256
"""By how much a later launch may go back before the first ones: requests that came at the same time."""

_LOOSE = None, None


class Tasks:
    """What slots do, as far as the log shows it.

    Attributes:
        seen: the log has lines about slots, so timing lines without a slot are quotes.
        blocks_seen: it has timing lines, of builds that print the length of each prompt: a task without
            any may have lost its own, or the line that its client left.
        drafts_seen: tokens were drafted.
    """

    def __init__(self, process: Process) -> None:
        self.seen = self.blocks_seen = self.drafts_seen = False
        self._process = process
        self._open: dict[tuple[int | None, int | None], Task] = {}
        self._slots: dict[int, int] = {}
        self._first: set[int] = set()
        self._lowest = self._newest = -1
        self._refused: int | None = None
        self._ready: Task | None = None
        self._pending: Task | None = None
        self._totals_seen = False

    # --- finding and opening

    def is_busy(self, slot: int) -> bool:
        """Whether the slot has a task that it was not seen to end."""
        for task in self._open.values():
            if task.slot == slot and not (task.released or task.cancelled or task.failed):
                return True
        return False

    def restarted(self, number: int) -> bool:
        """Whether a launch of this task shows that another process is running; told only between tasks.

        A host tells itself, and may run several at once.
        """
        if self._process.host:
            return False
        again = number in self._first or number < self._lowest - _REORDERED_TASKS
        return again and all(task.released for task in self._open.values())

    def _may_be_another_process(self, number: int) -> bool:
        """Whether ids go back while nothing runs; then what was seen so far may not hold any more."""
        return number < self._lowest and all(task.released for task in self._open.values())

    def launch(self, task: Task) -> None:
        """A slot takes a task; whatever it did before is over."""
        slot, number = task.slot, task.task
        if slot is None or number is None:
            return
        self.settle(slot, number)
        for key in [key for key in self._open if key[0] == slot]:
            self._finish(self._open.pop(key))
        if self._may_be_another_process(number):
            self.blocks_seen = self.drafts_seen = False
        self._remember([slot], [number])
        self._open[slot, number] = task
        self.seen = True

    def find(self, slot: int, number: int) -> Task | None:
        """The open task of that slot and number."""
        return self._open.get((slot, number))

    def adopt(self, slot: int, number: int, at: At) -> Task | None:
        """Open a task whose launch the log doesn't hold.

        Where the slot has been seen to take other tasks no launch can be missing: ``None``, it is a quote.
        """
        if slot in self._slots:
            self._launch_lost(slot, number)
            return None
        self.seen = True
        task = self._open[slot, number] = Task(slot, number, at)
        return task

    def _launch_lost(self, slot: int, number: int) -> None:
        """Nothing that is said from now on can be of what the slot did before."""
        for task in self._open.values():
            if task.slot == slot and task.task != number and task.released:
                task.launched = False

    def loose(self, at: At) -> Task:
        """Open the task of a timing block that names no slot."""
        self.settle()
        if (earlier := self._open.pop(_LOOSE, None)) is not None:
            self._finish(earlier)
        task = self._open[_LOOSE] = Task(*_LOOSE, at)
        return task

    def numbered(self, number: int) -> Task | None:
        """The open task of that number, whatever its slot."""
        return next((task for task in self._open.values() if task.task == number), None)

    def any_told(self) -> bool:
        """Whether a task has all its timings and was not seen to give its slot back."""
        return any(task.total_ms is not None and not task.released for task in self._open.values())

    def reading(self) -> list[Task]:
        """The open tasks that have no timing yet: their prompts may be being read."""
        return [
            task
            for task in self._open.values()
            if not (task.timed or task.released or task.cancelled or task.failed)
        ]

    # --- many at a time

    @property
    def open(self) -> list[Task]:
        """The open ones, in the order of their launches."""
        return [*self._open.values()]

    @property
    def is_steady(self) -> bool:
        """Tasks have come and gone, each slot has no more than one, and nothing waits for a certain line."""
        slots = {slot for slot, _ in self._open}
        return (
            bool(self._first)
            and len(slots) == len(self._open)
            and self._ready is None
            and self._pending is None
            and self._totals_seen
            and self.blocks_seen
            and not self.drafts_seen
        )

    def may_launch(self, numbers: Ints) -> Bools:
        """Which of these can be launched without a doubt that it is the same process that runs."""
        import numpy as np

        return (numbers >= self._lowest) & ~np.isin(numbers, [*self._first])

    def went_on(self, tasks: Iterable[Task], slots: list[int], numbers: list[int]) -> None:
        """Slots took tasks, one after the other; now these are open."""
        self._remember(slots, numbers)
        self._open = {task.key: task for task in tasks}

    def _remember(self, slots: list[int], numbers: list[int]) -> None:
        if new := numbers[: _FIRST_TASKS - len(self._first)]:
            self._first.update(new)
            self._lowest = min(self._first)
        self._newest = max((self._newest, *numbers))
        self._slots.update(zip(slots, numbers, strict=True))

    # --- endings

    def total(self, task: Task, total_ms: float, at: At) -> None:
        """Its last timing line; of its own lines only a draft line may follow if its slot is free."""
        self._totals_seen = True
        task.total_ms, task.timed_line, task.finished_at = total_ms, at.number, at.time
        if task.timed and (task.released or task.slot is None):
            self._ready = task

    def release(self, task: Task, at: At, *, timing_may_follow: bool) -> None:
        """Its slot is free again."""
        task.finished_at = task.finished_at or at.time
        if task.timed or task.cancelled or task.failed:
            self._open.pop(task.key, None)
            if task.cancelled and not task.timed:
                self._aborted(task, at)
            self._finish(task)
        elif timing_may_follow:
            self._pending = task
        elif self._process.host and task.generates:
            self._open.pop(task.key, None)
            self._finish(task)
        else:
            task.untimed = True

    def cancel(self, number: int, clock_ms: float | None, at: At) -> None:
        """The client went away; after an error, or when the task has just ended, this only cleans up."""
        if (task := self.numbered(number)) is not None:
            task.cancelled, task.cancelled_clock_ms = not task.failed, clock_ms
        elif number > self._newest and self._slots and number != self._refused:
            self._process.counts.aborted_requests += 1
            self.tell(at, "aborted", "the client went away before a slot was free", number)

    def fail(self, number: int) -> Task | bool:
        """The server gave up the task, or refused it: then true. False for the last task of an idle slot.

        When decoding failed, builds until b6890 named each slot's last task, idle ones included.
        """
        if (task := self.numbered(number)) is not None:
            task.failed = True
            return task
        if number in self._slots.values():
            return False
        self._refused = number
        self._process.counts.failed_requests += 1
        return True

    def without_timing(self) -> Iterator[Task]:
        """Take the tasks that ended and print no timing."""
        for task in [t for t in self._open.values() if t.launched and t.released and not t.generates]:
            if task.only_read or not (self.blocks_seen or self._process.host):
                del self._open[task.key]
                yield task
        self._pending = None

    def settle(self, slot: int | None = None, number: int | None = None) -> None:
        """A line about another task, or none for a while: what waited for lines of its own is over."""
        if (ready := self._ready) is not None and ready.key != (slot, number):
            self._ready = None
            self._open.pop(ready.key, None)
            self._finish(ready)
        if (pending := self._pending) is not None and pending.key != (slot, number):
            self._pending = None
            pending.untimed = True

    def close(self) -> None:
        """The source or the process ends."""
        for task in self._open.values():
            self._finish(task)
        self._open.clear()

    def _finish(self, task: Task) -> None:
        """No more will come for this task: emit it, or count what is missing."""
        counts = self._process.counts
        self._ready = None if self._ready is task else self._ready
        whole = task.total_ms is not None or not self._totals_seen
        task.drafts = self.drafts_seen
        if whole and (row := task.request()) is not None:
            self._process.emit(row)
        elif task.cancelled:
            counts.aborted_requests += 1
        elif task.failed:
            counts.failed_requests += 1
        elif task.untimed and task.launched and not task.generates and self._may_embed(task):
            self._process.emit(task.untimed_request("embedding"))
        else:
            counts.incomplete_requests += 1
            self._process.missed += task.released

    def _may_embed(self, task: Task) -> bool:
        """A task without any timing; a host runs models of both kinds."""
        return not self.blocks_seen and (task.only_read or not self._process.host)

    # --- events

    def _aborted(self, task: Task, at: At) -> None:
        held_ms = task.held_ms()
        after = "" if held_ms is None else f"; its slot was free {held_ms / 1000:.1f} s later"
        self.tell(at, "aborted", f"the client went away{after}", task.task, task.slot, held_ms)

    def tell(
        self,
        at: At,
        kind: str,
        detail: str,
        number: int | None,
        slot: int | None = None,
        value: float | None = None,
    ) -> None:
        """Emit an event about a task."""
        request_id = None if number is None else str(number)
        self._process.event(ENGINE, at, kind, detail, slot=slot, request_id=request_id, value=value)
