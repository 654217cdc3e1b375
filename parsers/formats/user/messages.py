"""A problem as a compiler prints it: where, what, the line with a caret, what is expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.user.places import inside, line_and_column, places

if TYPE_CHECKING:
    from parsers.formats.user.places import Place
    from parsers.formats.user.spec import Problem

_WIDTH = 100
_BEFORE = 60


def message(text: str, name: str, problem: Problem) -> str:
    """A problem with its place in the file called ``name``."""
    line, column = problem.at or _place(text, problem)
    rows = text.split("\n")
    row = rows[line - 1].rstrip("\r") if line <= len(rows) else ""
    cut = max(column - 1 - _BEFORE, 0)
    shown = row[cut : cut + _WIDTH].replace("\t", " ")
    gutter = " " * len(str(line))
    lines = [
        f"{name}:{line}:{column}: {problem.says}",
        f"{line} | {shown}",
        f"{gutter} | {' ' * (column - 1 - cut)}^",
    ]
    if problem.help:
        lines.append(f"{gutter} = {problem.help}")
    return "\n".join(lines)


def _place(text: str, problem: Problem) -> tuple[int, int]:
    """Line and column; of a path that is not in the file, those of the part that is."""
    known = places(text)
    path = problem.path
    while path and path not in known:
        path = path[:-1]
    if not path:
        return 1, 1
    found = known[path]
    if path != problem.path:
        return line_and_column(text, found.key)
    return line_and_column(text, _offset(text, found, problem))


def _offset(text: str, found: Place, problem: Problem) -> int:
    if problem.index is not None:
        return inside(text, found.value, problem.index)
    return found.key if problem.key else found.value
