"""Joins the usual lines of llama-server to requests, many at a time.

It does what `ServerReader` does with them while nothing unusual happens, and stops before the first line at
which something might: a task whose launch was not seen, a slot that was not given back, numbers that
contradict each other, a clock that goes back. Whether a line is such a one depends on those before it alone,
so that what is read up to the stop is what the reader would have read. All that is known then is in the
reader, and what it knew before is put in front as the lines that told it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from parsers.formats.llama_server.cache import WHOLE
from parsers.formats.llama_server.own import SAME_RUN_CLOCK_SLACK_MS
from parsers.formats.llama_server.task import ENGINE, Task
from parsers.formats.llama_server.usual import KINDS, LINES, ServerLines
from parsers.formats.possible import LONGEST_MS, are_parts, is_possible
from parsers.formats.rates import fit
from parsers.framing import datetime_of, moment_of
from parsers.records import Columns, Request
from parsers.usual import Layouts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from parsers.formats.llama_server.reader import ServerReader
    from parsers.framing import Moments
    from parsers.printed import Bools, Ints

HELD, LRU, LAUNCH, PROMPT, CACHED, PREFILL, DECODE, TOTAL, RELEASED = range(2, len(KINDS))
_PRECEDES = {DECODE: PREFILL, TOTAL: DECODE, RELEASED: TOTAL}

_NOBODY = -2
"""The id of a task of which an unusual line has told: of it the reader reads all."""


def join(reader: ServerReader, lines: ServerLines, first: int, last: int) -> tuple[int, int]:
    """Read usual lines.

    Args:
        reader: has read all before, and goes on; it `is_steady`.
        lines: those of a block.
        first: the first line of the stretch.
        last: the line after it.

    Returns:
        The line at which the reader must go on, and how many were read.
    """
    at = first + np.flatnonzero(lines.kinds[first:last] >= HELD)
    stretch = _Stretch(reader, lines, at)
    read = stretch.usual()
    stretch.read(read)
    return (last if read == len(at) else int(at[read])), read


LAYOUTS = Layouts(("", *(kind for kind, _ in LINES)), ServerLines, join)


class _Told(NamedTuple):
    """A line that told of a task before."""

    kind: int
    slot: int
    task: int
    number: int = 0
    offset: int = 0
    tokens: int = 0
    ms: float = 0.0
    clock_ms: float = 0.0
    time: Any = None


class _Stretch:
    """Lines one after the other: those that told of the open tasks, then usual ones.

    Tasks are known by the order of their launches, lines by their places here. ``task`` says which one a line
    is about; ``first`` is the place of each task's first line of a kind, after all lines where it has none.
    """

    def __init__(self, reader: ServerReader, lines: ServerLines, at: Ints) -> None:
        self._reader, self._lines, self._at = reader, lines, at
        self._open = reader.tasks.open
        self._told = [told for task in self._open for told in _told(task)]
        self._before = len(self._told)
        kinds, values = lines.kinds[at], lines.values
        self.kinds = self._with("kind", kinds)
        self.slots = self._with("slot", values["slot"][at])
        self.ids = self._with("task", values["task"][at])
        self.numbers = self._with("number", lines.framed.numbers(at))
        self.offsets = self._with("offset", lines.framed.offsets(at))
        self.tokens = self._with("tokens", values["tokens"][at])
        self.ms = self._with("ms", values["ms"][at])
        clocked = (kinds == LAUNCH) | (kinds == RELEASED)
        clocks_ms = np.zeros(len(at))
        clocks_ms[clocked] = lines.clocks_ms(at[clocked])
        self.clocks_ms = self._with("clock_ms", clocks_ms)
        self.times: Moments = self._with("time", lines.framed.times(at, (kinds == LAUNCH) | (kinds == TOTAL)))
        self.launch: Ints = np.flatnonzero(self.kinds == LAUNCH)
        self.task, self.is_open = self._tasks()
        self.places = {kind: np.flatnonzero(self.kinds == kind) for kind in range(PROMPT, RELEASED + 1)}
        self.first = {kind: self._first(kind) for kind in self.places}

    def _with(self, name: str, values: Any) -> Any:
        """A column of the lines, behind what those before say there."""
        return np.append(np.array([getattr(told, name) for told in self._told], values.dtype), values)

    def _only_here(self, name: str) -> Any:
        """A column that is not asked of the lines before: 0 there."""
        return np.append(np.zeros(self._before), self._lines.values[name][self._at])

    def _tasks(self) -> tuple[Ints, Bools]:
        """The task of each line, and whether it is one that was launched on this slot."""
        if not self.launch.size:
            return np.zeros(len(self.ids), np.int64), np.zeros(len(self.ids), np.bool_)
        launched = self.ids[self.launch]
        order = np.argsort(launched, kind="stable")
        task = order[np.searchsorted(launched[order], self.ids).clip(max=len(order) - 1)]
        return task, (launched[task] == self.ids) & (self.slots[self.launch][task] == self.slots)

    def _first(self, kind: int) -> Ints:
        first = np.full(len(self.launch), len(self.kinds))
        places = self.places[kind][self.is_open[self.places[kind]]][::-1]
        first[self.task[places]] = places
        return first

    # --- how far

    def usual(self) -> int:
        """How many lines there are before the first one that is not as usual."""
        odd = np.zeros(len(self.kinds), np.bool_)
        if self.launch.size:
            self._odd_launches(odd)
            self._odd_lines(odd)
            self._odd_ends(odd)
        else:
            odd |= self.kinds >= PROMPT
        places = np.flatnonzero(odd[self._before :])
        return int(places[0]) if places.size else len(self._at)

    def _odd_launches(self, odd: Bools) -> None:
        """A task's second one, one on a slot that has a task, and what shows that another process runs."""
        odd[self.launch[self.task[self.launch] != np.arange(len(self.launch))]] = True
        new = self.launch[self.launch >= self._before]
        odd[new[~self._reader.tasks.may_launch(self.ids[new])]] = True
        clock_ms = np.append(self._reader.clock_ms or 0.0, self.clocks_ms[new])
        odd[new[clock_ms[1:] < clock_ms[:-1] - SAME_RUN_CLOCK_SLACK_MS]] = True
        order = np.lexsort((self.launch, self.slots[self.launch]))
        slots, after = self.slots[self.launch][order], self.launch[order][1:]
        odd[after[(slots[1:] == slots[:-1]) & (self.first[RELEASED][order][:-1] > after)]] = True

    def _odd_lines(self, odd: Bools) -> None:
        """Lines of a task that is not open, which it has had, or whose numbers contradict each other."""
        task, place = self.task, np.arange(len(self.kinds))
        closed = ~self.is_open | (place < self.launch[task]) | (place > self.first[RELEASED][task])
        odd |= (self.kinds >= PROMPT) & closed
        for kind, places in self.places.items():
            if kind != CACHED:
                odd[places[self.first[kind][task[places]] != places]] = True
            if (before := _PRECEDES.get(kind)) is not None:
                odd[places[self.first[before][task[places]] > places]] = True
        prompts = self.places[PROMPT]
        odd[prompts[self.first[CACHED][task[prompts]] < prompts]] = True
        rate = self._only_here("rate")
        for kind, less in ((PREFILL, 0), (DECODE, 1)):  # since b10406 without its first token
            places = self.places[kind]
            tokens, ms, rates = self.tokens[places], self.ms[places], rate[places]
            odd[places[~(fit(tokens, ms, rates) | fit(tokens - less, ms, rates))]] = True

    def _odd_ends(self, odd: Bools) -> None:
        """Where a task's parts are not those of its whole, or where something is missing."""
        task = np.flatnonzero(self.first[RELEASED] < len(self.kinds))
        ends = self.first[RELEASED][task]
        strange = self._only_here("truncated")[ends] != 0
        whole = np.logical_and.reduce([self.first[kind][task] < ends for kind in (PREFILL, DECODE, TOTAL)])
        odd[ends[~whole]] = True
        task, ends, strange = task[whole], ends[whole], strange[whole]
        prefill, output = (self.tokens[self.first[kind][task]] for kind in (PREFILL, DECODE))
        held = self.tokens[ends] + 1 - prefill - output
        strange |= (held < 0) | (prefill == 0) | (output == 0)
        for kind, less in ((PROMPT, prefill), (CACHED, np.zeros_like(prefill))):
            said = self.first[kind][task] < ends
            strange |= said & (self.tokens[np.where(said, self.first[kind][task], 0)] - less != held)
        prefill_ms, decode_ms, total_ms = (
            self.ms[self.first[kind][task]] for kind in (PREFILL, DECODE, TOTAL)
        )
        strange |= ~are_parts(prefill_ms + decode_ms, total_ms)
        strange |= np.maximum.reduce([prefill_ms, decode_ms, total_ms]) > LONGEST_MS
        if self._lines.framed.clocked:
            started, finished = self.times[self.launch[task]], self.times[self.first[TOTAL][task]]
            strange |= (started > finished) | np.isnat(finished)
        odd[ends[strange]] = True

    # --- what it comes to

    def read(self, count: int) -> None:
        """Read so many lines: all of them are as usual."""
        stop = self._before + count
        if count:
            self._reader.process.at = self._lines.framed.at(int(self._at[count - 1]))
        self._choices(stop)
        begun = np.flatnonzero(self.launch < stop)
        is_over = self.first[RELEASED][begun] < stop
        over = begun[is_over]
        if over.size:
            self._emit(over[np.argsort(self.first[RELEASED][over])])
        about = np.flatnonzero(self.kinds[:stop] >= LAUNCH)
        last = np.zeros(len(self.launch), np.int64)
        last[self.task[about]] = about
        tasks = [self._task_at(task, stop, int(last[task])) for task in begun[~is_over].tolist()]
        new = self.launch[begun[begun >= len(self._open)]]
        self._reader.tasks.went_on(tasks, self.slots[new].tolist(), self.ids[new].tolist())
        if new.size:
            self._reader.clock_ms = float(self.clocks_ms[new[-1]])

    def _emit(self, task: Ints) -> None:
        """Requests of these tasks, which have ended in this order."""
        launch, ends = self.launch[task], self.first[RELEASED][task]
        prefill, decode, total = (self.first[kind][task] for kind in (PREFILL, DECODE, TOTAL))
        cached = self.tokens[ends] + 1 - self.tokens[prefill] - self.tokens[decode]
        values = {
            "line": self.numbers[total],
            "engine": ENGINE,
            "request_id": self.ids[launch],
            "slot": self.slots[launch],
            "started_at": self.times[launch],
            "finished_at": self.times[total],
            "prompt_tokens": cached + self.tokens[prefill],
            "cached_tokens": cached,
            "prefill_tokens": self.tokens[prefill],
            "prefill_ms": self.ms[prefill],
            "output_tokens": self.tokens[decode],
            "decode_ms": self.ms[decode],
            "decode_steps": self.tokens[decode] - 1,
            "ttft_ms": self.ms[prefill],
            "ttft_from": "slot",
            "total_ms": self.ms[total],
            "context_tokens": self.tokens[ends],
            "truncated": False,
            "first_line": self.numbers[launch],
            "offset": self.offsets[launch],
            "clock_start_ms": self.clocks_ms[launch],
            "clock_end_ms": self.clocks_ms[ends],
        }
        self._reader.process.emit_all(Columns(Request, len(task), values))

    def _task_at(self, number: int, stop: int, last: int) -> Task:
        """What is known of a task that is open here, of which a line has told last."""
        launch = int(self.launch[number])
        if number < len(self._open):
            task = self._open[number]
        else:
            at = self._lines.framed.at(int(self._at[launch - self._before]))
            task = Task(
                int(self.slots[launch]), int(self.ids[launch]), at, True, float(self.clocks_ms[launch])
            )
            task.started_at = at.time
        if last < self._before:
            return task
        task.last_clock = self._lines.clock(int(self._at[last - self._before]))
        told = {kind: int(places[number]) for kind, places in self.first.items() if places[number] < stop}
        if PROMPT in told:
            task.prompt = int(self.tokens[told[PROMPT]])
        if CACHED in told:
            task.cached = int(self.tokens[told[CACHED]])
        if PREFILL in told:
            task.prefill = float(self.ms[told[PREFILL]]), int(self.tokens[told[PREFILL]])
        if DECODE in told:
            task.decode = float(self.ms[told[DECODE]]), int(self.tokens[told[DECODE]])
        if TOTAL in told:
            task.total_ms = float(self.ms[told[TOTAL]])
        if timed := [told[kind] for kind in (PREFILL, DECODE, TOTAL) if kind in told]:
            task.timed_line = int(self.numbers[timed[-1]])
            task.finished_at = self._finished_at(timed[-1])
        return task

    def _finished_at(self, place: int) -> datetime | None:
        """What the wrapping's clock says on a task's last timing line."""
        if self.kinds[place] == DECODE and place >= self._before:
            return self._lines.framed.time(int(self._at[place - self._before]))
        return datetime_of(self.times[place])

    def _choices(self, stop: int) -> None:
        """Slots that held nothing of a prompt, or all of it: told once its task is launched there."""
        sims = self._only_here("sim")
        lasts = self._only_here("last")
        chosen = np.flatnonzero((self.kinds == LRU) | ((self.kinds == HELD) & (sims >= WHOLE)))
        chosen = chosen[chosen < stop]
        launches = self.launch[(self.launch >= self._before) & (self.launch < stop)].tolist()
        waiting = 0 if self._reader.has_chosen else None
        for place, following in zip(chosen.tolist(), np.searchsorted(launches, chosen).tolist(), strict=True):
            if waiting is not None and following != waiting:
                self._launched(launches[waiting])
            at, slot = self._lines.framed.at(int(self._at[place - self._before])), int(self.slots[place])
            if self.kinds[place] == LRU:
                self._reader.chose_least_used(at, slot, int(lasts[place]))
            else:
                self._reader.chose_same(at, slot, float(sims[place]))
            waiting = following
        if waiting is not None and waiting < len(launches):
            self._launched(launches[waiting])

    def _launched(self, place: int) -> None:
        self._reader.tell_miss(int(self.slots[place]), int(self.ids[place]))


def _told(task: Task) -> Iterator[_Told]:
    """The lines that told of an open task."""
    slot = _NOBODY if task.slot is None or not is_possible(task.slot) else task.slot
    said = task.slot, task.task, task.prompt, task.cached, task.clock_ms, task.total_ms
    can_be = all(map(is_possible, (*said, *(task.prefill or ()), *(task.decode or ()))))
    if task.task is None or task.clock_ms is None or not (task.is_plain and can_be):
        yield _Told(LAUNCH, slot, _NOBODY, time=moment_of(None))
        return
    at, began, ended = task.at, moment_of(task.started_at), moment_of(task.finished_at)
    told = _Told(LAUNCH, slot, task.task, at.number, at.offset, clock_ms=task.clock_ms, time=began)
    yield told
    told = told._replace(number=task.timed_line, time=ended)
    for kind, tokens in ((PROMPT, task.prompt), (CACHED, task.cached)):
        if tokens is not None:
            yield told._replace(kind=kind, tokens=tokens)
    for kind, phase in ((PREFILL, task.prefill), (DECODE, task.decode), (TOTAL, (task.total_ms, 0))):
        if phase is not None and phase[0] is not None and phase[1] is not None:
            yield told._replace(kind=kind, ms=phase[0], tokens=phase[1])
