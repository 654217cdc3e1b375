"""How far a run is: a bar with the time left on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from advisor.runner.arm import Arm
    from advisor.runner.workload import Ask

DECODE_WEIGHT = 8
"""A generated token takes about so many times as long as one of a prompt."""
_MADE_TEXT_TOKENS = 256


def work(arm: Arm) -> int:
    """About how much one turn of an arm is to do."""
    return sum(work_of(ask) for ask in arm.workload.asks)


def work_of(ask: Ask) -> int:
    """About how much a request is to do."""
    prompt = sum(segment.size or _MADE_TEXT_TOKENS for segment in ask.segments)
    return prompt + DECODE_WEIGHT * ask.output_tokens


class Bar:
    """What the run tells of itself.

    Args:
        tell: takes what is being done, what has been done of the whole, and the whole.
    """

    def __init__(self, tell: Callable[[str, int, int], None]) -> None:
        self._tell = tell
        self._done = 0
        self._words = ""
        self.whole = 1

    def begin(self, words: str) -> None:
        """Another thing is being done."""
        self._words = words
        self._tell(words, self._done, self.whole)

    def advance(self, done: int) -> None:
        """So much more is done."""
        self._done += done
        self._tell(self._words, self._done, self.whole)


@contextmanager
def bar() -> Iterator[Bar]:
    """A bar on standard error while the block runs, and nothing left of it after."""
    if not sys.stderr.isatty():
        yield Bar(lambda words, done, whole: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    words = TextColumn("{task.description}", markup=False)
    columns = (words, BarColumn(), TimeRemainingColumn(), TextColumn("left"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("starting", total=1)
        yield Bar(
            lambda words, done, whole: shown.update(task, description=words, completed=done, total=whole)
        )
