"""A situation with a known right answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rules.hardware import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

ADVICE = ("at-bandwidth-ceiling", "output-long", "spec-try")
"""What may be said of a healthy log."""


@dataclass(frozen=True, slots=True)
class Case:
    """One log and what should be said of it.

    Attributes:
        id: the number in the reference; parts of one case have the same first three letters.
        title: what is wrong.
        files: the log files by name.
        expect: rules; the first is the diagnosis, the others belong to it.
        fix: one of these strings should stand in the first two fixes.
        source: the thread it comes from.
        confirmed: who confirmed the cause: the project, the reporter's own measurement, published numbers.
        saving_ms: what the first finding should say it saves.
        must_not: rules that would be wrong anywhere.
        not_first: rules that would be wrong as the first.
        only: where nothing is wrong, the rules that may say something.
        healthy: what the verdict should say, where the case is about that.
        machine: what no log prints and the user gives as flags.
        note: what is made up, and what the engine of the report could not have printed.
    """

    id: str
    title: str
    files: Callable[[], dict[str, str]]
    source: str
    confirmed: str
    expect: tuple[str, ...] = ()
    fix: tuple[str, ...] = ()
    saving_ms: float | None = None
    must_not: tuple[str, ...] = ()
    not_first: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    healthy: bool | None = None
    machine: Machine = field(default_factory=Machine)
    note: str = ""
