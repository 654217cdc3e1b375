"""Runs a format file's samples in a process of its own, so that a pattern that never ends can be named.

Python's `re` can't be given a time limit, and holds the interpreter while it tries.
"""

from __future__ import annotations

from multiprocessing import get_context
from typing import TYPE_CHECKING

from parsers.formats.user.samples import problems, read_by
from parsers.formats.user.spec import Problem

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from parsers.formats.user.spec import Spec

_LIMIT_S = 5.0
_START_S = 60.0


def problems_in_time(spec: Spec, limit_s: float = _LIMIT_S) -> list[Problem]:
    """What the samples show to be wrong; a pattern that takes longer than the limit is.

    Args:
        spec: the format file.
        limit_s: seconds for each pattern on all lines of the samples, and for the rest together.
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_run, args=(spec, theirs), daemon=True)
    child.start()
    theirs.close()
    try:
        return _heard(ours, spec, limit_s)
    finally:
        child.kill()
        child.join()
        ours.close()


def _heard(told: Connection, spec: Spec, limit_s: float) -> list[Problem]:
    """The child's answer, or the pattern that it was at when its time was over."""
    at: int | None = None
    while told.poll(_START_S if at is None else limit_s):
        try:
            said = told.recv()
        except EOFError:
            return [Problem(("sample",), "the samples could not be run", key=True)]
        if isinstance(said, list):
            return said
        at = said
    if at is None or at == len(spec.line):
        return [Problem(("sample",), f"the samples take longer than {limit_s:g} s", key=True)]
    says = f"{spec.line[at].name!r} takes longer than {limit_s:g} s on the samples"
    return [Problem(("line", at, "pattern"), says, "let no two repeats match the same text, as (a+)+ does")]


def _run(spec: Spec, told: Connection) -> None:
    """Tell which pattern is tried before it is; then what is wrong."""
    for number, line in enumerate(spec.line):
        told.send(number)
        read_by(spec, line)
    told.send(len(spec.line))
    told.send(problems(spec))
