"""Line numbers of each container in a file of several: their lines alternate, and a record's stand together.

Each container's lines are counted apart, so that what is printed together is next to itself again. Counting
begins at the first line of a container that may be read: only differences of these numbers mean something.
"""

from __future__ import annotations

from collections import Counter

from parsers.carriers import OUTERMOST


class OwnLines:
    """Counts the lines of each outermost label, block after block.

    Attributes:
        start: where the line starts that is being read.
    """

    def __init__(self) -> None:
        self._counts: Counter[bytes] = Counter()
        self._begun = False
        self._block = b""
        self._at = self.start = 0

    def begin(self, block: bytes) -> None:
        """The next whole lines of the source come."""
        self._block, self._at = block, 0

    def end(self) -> None:
        """They are over."""
        if self._begun:
            self._count(len(self._block))
        self._block = b""

    def number(self) -> int | None:
        """The line's number among those of its container; ``None`` where it names none."""
        if self._begun:
            self._count(self.start)
        self._begun, self._at = True, self.start
        head = OUTERMOST.match(self._block, self.start)
        return self._counts[head[head.lastindex]] + 1 if head and head.lastindex else None

    def _count(self, end: int) -> None:
        for head in OUTERMOST.finditer(self._block, self._at, end):
            if head.lastindex:
                self._counts[head[head.lastindex]] += 1
        self._at = end
