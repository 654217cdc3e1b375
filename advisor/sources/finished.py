"""A file that is complete: its bytes once, from the first to the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.redact import printable
from advisor.sources.files import blocks

if TYPE_CHECKING:
    from advisor.sources.files import Input


class Finished:
    """Gives a file's bytes, decompressed, as `advisor.sources.growing.Growing` does.

    Args:
        source: the file.

    Attributes:
        has_caught_up: never: nobody writes it any more.
    """

    has_caught_up = False

    def __init__(self, source: Input) -> None:
        self.name = printable(source.name)
        self._blocks = blocks(source)

    def read(self, wait_s: float) -> bytes | None:
        """The next bytes; ``None`` at the end.

        Raises:
            InputError: it can't be read any further.
        """
        return next(self._blocks, None)

    def notes(self) -> list[str]:
        """Nothing happens to a file that is complete."""
        return []

    def close(self) -> None:
        """Let go of the file."""
        self._blocks.close()
