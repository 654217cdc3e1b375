"""No line takes long: a pattern's time grows as its line does, whatever stands on it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

import advisor.anonymize
import advisor.redact
import advisor.sources
import parsers
from parsers import FORMATS
from tests.fuzz.worst import lines, slowness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

_MOST = 1.8
"""A quadratic pattern gives 4, a linear one 1; what is shared with other programs gives less than this."""
_GUARDED = {
    (
        "parsers.formats.sglang.requests",
        "_STRING",
    ): "its texts were looked through by _WHOLE: all strings end",
    ("advisor.redact.patterns", "_VERSION"): "it is looked for in 24 characters",
}
"""Patterns that are searched for only in what another one has let through."""
SLOW = (
    (rb"a(?P<rest>.*) *$", False),
    (rb' +"(?P<name>\w+)": (?P<value>.+?),?\s*$', False),
    (rb"print_info: (?P<key>[\w. ]+?) *= (?P<value>.*)", False),
    (rb"loaded meta data .* from (?P<path>.+?) \(version", False),
    (rb"(?:\([\w.-]+ pid=\d+\) *)?(?: *INFO )?done", False),
    (rb"(\w+)=(\d+)", True),
    (rb"'(?:[^'\\]+|\\.)*+'", True),
    (rb"metrics: .*length: ", True),
)
"""Patterns as they were before this test, and whether they were searched for."""


def test_patterns_of_lines() -> None:
    patterns = {(p.pattern, p.flags): p for fmt in FORMATS for p in _of(fmt)}
    slow = [source for (source, flags), p in patterns.items() if _worst(p, p.match) > _MOST]
    assert not slow


def _of(fmt: parsers.formats.Format) -> Iterator[re.Pattern[bytes]]:
    yield from (line.pattern for line in fmt.lines)
    if fmt.banner is not None:
        yield re.compile(fmt.banner)


@cache
def _modules() -> tuple[str, ...]:
    packages: tuple[ModuleType, ...] = (parsers, advisor.redact, advisor.anonymize, advisor.sources)
    inner = [
        one.name
        for package in packages
        for one in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    ]
    return (*(package.__name__ for package in packages), *inner)


def test_patterns_of_modules() -> None:
    held = {
        (pattern, anywhere, run.__name__): (f"{module}.{name}: {pattern.pattern!r}", run)
        for module in _modules()
        for name, pattern, uses in _held(module)
        if (module, name) not in _GUARDED
        for run, anywhere in uses
    }
    slow = [
        called
        for (pattern, anywhere, _), (called, run) in held.items()
        if _worst(pattern, run, anywhere=anywhere) > _MOST
    ]
    assert not slow


_Use = tuple[Any, bool]


def _held(name: str) -> Iterator[tuple[str, re.Pattern[Any], list[_Use]]]:
    """The patterns that a module holds, and how it uses them: where nothing tells, it may search for them."""
    module = importlib.import_module(name)
    text = inspect.getsource(module)
    for called, value in vars(module).items():
        for pattern in _patterns(value):
            used = set(re.findall(rf"\b{called}\b(?:\[\w+\])?\.(\w+)\b", text))
            searches = not used & {"match", "fullmatch"} or used & {
                "search",
                "sub",
                "findall",
                "finditer",
                "split",
            }
            uses: list[_Use] = [(_searched(pattern), True)] if searches else []
            uses += [(getattr(pattern, how), False) for how in sorted(used & {"match", "fullmatch"})]
            yield called, pattern, uses


def _searched(pattern: re.Pattern[Any]) -> Callable[[Any], object]:
    return lambda line: sum(1 for _ in pattern.finditer(line))


def _patterns(value: object, deep: int = 3) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif deep and isinstance(value, (tuple, list, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _patterns(one, deep - 1)


def _worst(pattern: re.Pattern[Any], run: Callable[[Any], object], *, anywhere: bool = False) -> float:
    """How much longer than four times as long four times the line takes, on the pattern's worst lines."""
    is_text = isinstance(pattern.pattern, str)
    worst = 0.0
    for before, word in lines(pattern.pattern, pattern.flags, anywhere=anywhere):
        if is_text:
            worst = max(worst, slowness(lambda line: run(line.decode("latin-1")), before, word))
        else:
            worst = max(worst, slowness(run, before, word))
        if worst > _MOST:
            break
    return worst


@pytest.mark.parametrize(("source", "anywhere"), SLOW)
def test_slow_patterns_are_found(source: bytes, anywhere: bool) -> None:
    pattern = re.compile(source)
    assert _worst(pattern, _searched(pattern) if anywhere else pattern.match, anywhere=anywhere) > _MOST
