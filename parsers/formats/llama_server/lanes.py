"""Which of the servers in one log a line is about: Ollama runs several, and their lines don't say.

Each counts its slots and tasks from 0. What tells them apart: a slot takes a task only when it is free, so
one that takes a second one is another server's. A line then belongs to the server that has its task open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.llama_server.tasks import Tasks

if TYPE_CHECKING:
    import re

    from parsers.formats.llama_server.task import Task
    from parsers.formats.process import Process

_MAX_LANES = 8


class Lanes:
    """As many servers as were seen at work at the same time; always one where no host runs them."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.all = [Tasks(process)]

    def free(self, slot: int) -> Tasks:
        """The server that takes a new task on this slot."""
        for tasks in self.all:
            if not tasks.is_busy(slot):
                return tasks
        if not self._process.host:
            return self.all[0]
        if len(self.all) < _MAX_LANES:
            self.all.append(Tasks(self._process))
        return self.all[-1]

    def having(self, slot: int, number: int, line: str, m: re.Match[bytes]) -> Tasks:
        """The server that has this task open; of two with the same, the one whose task awaits the line."""
        if len(self.all) == 1:
            return self.all[0]
        known = [(tasks, task) for tasks in self.all if (task := tasks.find(slot, number)) is not None]
        if len(known) > 1:
            said = m.groupdict().get("tokens")
            tokens = None if said is None else int(said)
            known = [(tasks, task) for tasks, task in known if task.awaits(line, tokens)] or known
        return known[0][0] if known else self.all[0]

    def numbered(self, number: int) -> Tasks:
        """The server that has a task of this number open."""
        return next((tasks for tasks in self.all if tasks.numbered(number) is not None), self.all[0])

    def reading(self) -> Task | None:
        """The task whose prompt is being read; ``None`` where it may be one of several."""
        reading = [task for tasks in self.all for task in tasks.reading()]
        return reading[0] if len(reading) == 1 else None

    def any_told(self) -> bool:
        """Whether a task has all its timings and was not seen to give its slot back."""
        return any(tasks.any_told() for tasks in self.all)

    def settle(self) -> None:
        """Nothing was said for a while: what only waited for lines of its own is over."""
        for tasks in self.all:
            tasks.settle()

    def close(self) -> None:
        """The source or the process ends."""
        for tasks in self.all:
            tasks.close()
