"""What a log that still grows looks like to who reads it: a file, a pipe, or a program that was started."""

from __future__ import annotations

from typing import Protocol


class Growing(Protocol):
    """Bytes that come as they are written.

    Attributes:
        name: what rows call their source.
    """

    name: str

    @property
    def has_caught_up(self) -> bool:
        """Whether all that stood there had been read once: what `read` gives since has just been written.

        May be asked before `read` or after it.
        """

    def read(self, wait_s: float) -> bytes | None:
        """What has come, at most 1 MiB of it.

        Waits up to ``wait_s`` for the first byte; ``b""`` if nothing came, ``None`` once it has ended.
        """

    def notes(self) -> list[str]:
        """Sentences for the user since last asked."""

    def close(self) -> None:
        """Let go of it; what is read afterwards is ``None``."""
