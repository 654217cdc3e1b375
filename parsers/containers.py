"""Which container each line of a block is of, and its number among that one's lines.

In a file of several containers their lines alternate, and a record's stand together. Each container's lines
are counted apart, so that what is printed together is next to itself again. Counting begins with the first
block that is asked about: only differences of these numbers mean something.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from parsers.carriers import SAME_CONTAINER, label_of
from parsers.gathered import sender_of

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator


class _Run(NamedTuple):
    """Lines of one container, one after the other."""

    end: int
    label: bytes | None


class Containers:
    """Tells the outermost labels of lines, block after block; places must be asked for in their order."""

    def __init__(self) -> None:
        self._counts: Counter[bytes | None] = Counter()
        self._begun = False
        self._block = b""
        self._runs: list[_Run] = []
        self._at = self._run = 0

    def begin(self, block: bytes) -> None:
        """The next whole lines of the source come."""
        self._end()
        self._block, self._runs = block, _runs(block) if self._begun else []
        self._at = self._run = 0

    def __getstate__(self) -> dict[str, Any]:
        self.begin(b"")
        return self.__dict__

    def labels(self) -> set[bytes | None]:
        """The labels that the block's lines have; ``None`` for lines whose start names none."""
        self._ask()
        return {run.label for run in self._runs}

    def spans(self, labels: set[bytes | None]) -> Iterator[tuple[int, int]]:
        """Where in the block lines with these labels start and end."""
        start = 0
        for run in self._runs:
            if run.label in labels:
                yield start, run.end
            start = run.end

    def label(self, start: int) -> bytes | None:
        """The label of the line that starts here."""
        self._ask()
        return self._come_to(start)

    def number(self, start: int) -> int | None:
        """The number of the line that starts here among those of its container; ``None`` without a label."""
        self._ask()
        label = self._come_to(start)
        return None if label is None else self._counts[label] + 1

    def _ask(self) -> None:
        if not self._begun:
            self._begun, self._runs = True, _runs(self._block)

    def _come_to(self, start: int) -> bytes | None:
        """Count the lines before this place; its line's label."""
        while (run := self._runs[self._run]).end <= start:
            self._counts[run.label] += self._block.count(b"\n", self._at, run.end)
            self._at, self._run = run.end, self._run + 1
        if self._at < start:
            self._counts[run.label] += self._block.count(b"\n", self._at, start)
            self._at = start
        return run.label

    def _end(self) -> None:
        """Count the lines that are left of the block."""
        for run in self._runs[self._run :]:
            self._counts[run.label] += self._block.count(b"\n", self._at, run.end)
            self._at = run.end


def _runs(block: bytes) -> list[_Run]:
    heads = SAME_CONTAINER.finditer(block)
    return [_Run(head.end(), _outermost(head)) for head in heads if head.end() > head.start()]


def _outermost(lines: re.Match[bytes]) -> bytes | None:
    """The outermost label of what `SAME_CONTAINER` matched: at its start, or in a record."""
    label = label_of(lines)
    return sender_of(lines[0]) if label is None and lines[0][:1] == b"{" else label
