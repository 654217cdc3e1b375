"""Who reads the sources: this process, several beside it, or other machines. What they find is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from advisor.parts import Part, Task


class Crew(Protocol):
    """Reads sources, a task for each."""

    def parts(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Part]]:
        """Read all of them.

        Yields:
            Each part with the number of its task: all of the first task, then all of the second, and so on.

        Raises:
            InputError: a user's pattern takes too long.
        """
