"""Errors that are sentences: the command prints them and nothing else."""

from __future__ import annotations


class InputError(Exception):
    """An input can't be read or used; the message is one clear sentence."""


class MissingError(InputError):
    """There is nothing of this name.

    Args:
        name: as the user gave it.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"{name}: no such file or folder.")
        self.name = name


class UnrecognisedError(InputError):
    """The input can be read, but holds no log; the reader completes the sentence with what it tried."""
