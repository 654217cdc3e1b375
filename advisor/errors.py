"""Errors that are sentences: the command prints them and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class InputError(Exception):
    """An input can't be read or used; the message is one clear sentence."""


class NotInstalledError(InputError):
    """Something has to be installed first.

    Args:
        missing: what, as a sentence.
        lines: how, each a line of its own.
    """

    def __init__(self, missing: str, lines: Sequence[str]) -> None:
        super().__init__(missing)
        self.lines = lines

    def __reduce__(self) -> tuple[type[NotInstalledError], tuple[str, Sequence[str]]]:
        return type(self), (str(self), self.lines)


class MissingError(InputError):
    """There is nothing of this name.

    Args:
        name: as the user gave it.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"{name}: no such file or folder.")
        self.name = name

    def __reduce__(self) -> tuple[type[MissingError], tuple[str]]:
        return type(self), (self.name,)


class ChangedError(InputError):
    """A file that was read in part is another one now."""


class UnrecognisedError(InputError):
    """The input can be read, but holds no log; the reader completes the sentence with what it tried."""


class EmptyError(UnrecognisedError):
    """The input holds nothing at all, so nothing was tried."""
