"""One source after the other, in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.parts import parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from advisor.parts import Part, Task
    from parsers.unparsed import Shapes


class Here:
    """Reads where it is called.

    Args:
        shapes: counts the lines that look like timings and are not read.
        took: told of bytes as they are taken from a source, packed as they lie there.
    """

    def __init__(self, shapes: Shapes | None = None, took: Callable[[int], None] | None = None) -> None:
        self._shapes = shapes
        self._took = took

    def parts(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Part]]:
        """Read them, each in its turn."""
        for at, task in enumerate(tasks):
            for part in parts(task, shapes=self._shapes, took=self._took):
                yield at, part
