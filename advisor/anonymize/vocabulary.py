"""The words that formats read by: whatever else stands in a log may be somebody's text.

A format says in its patterns, and in the code that takes a line apart, which words it looks for. All of them
are constants of `parsers`, so they are taken from there: a new format needs no list of its own.
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import fields, is_dataclass
from functools import lru_cache, partial
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from parsers.formats.base import Format

WORD = re.compile(r"\w+")
PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|_|\w")
"""What an identifier is made of."""

_ESCAPE = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|[a-zA-Z])|\(\?P?<?[=!\w]*>?")
_OPTIONAL = re.compile(r"\(\?:|\)\?|[ ]?\?|\[ ?_-?\]\??")
_BEFORE = re.compile(r"\(\?:(\w+)\|(\w+)\)(\w+)")
_AFTER = re.compile(r"\b(\w+)\(\?:(\w+)\|(\w+)\)")
_DEEPEST = 5
_OF_PYTHON = {"__doc__", "__module__", "__qualname__", "__annotations__"}
"""What Python says of a class: no format reads by it."""


def texts_of(formats: Iterable[Format]) -> frozenset[str]:
    """The texts and patterns of the formats' lines, and of the code that reads them."""
    return frozenset(text for fmt in formats for text in _of_lines(fmt)) | _of_code()


def words_of(texts: Iterable[str]) -> Iterator[str]:
    """The words of texts and patterns, in lower case, with what is optional in them and without."""
    for text in texts:
        for spelled in spellings(text):
            for word in WORD.findall(spelled):
                if not word.isdigit():
                    yield word.lower()
                    yield from (piece.lower() for piece in PIECE.findall(word) if len(piece) > 1)


def spellings(pattern: str) -> Iterator[str]:
    """A text, or a pattern without its signs, with what is optional in it and without."""
    plain = _ESCAPE.sub(" ", pattern)
    yield plain
    if "(" in pattern or "?" in pattern:
        either = _AFTER.sub(r"\1\2 \1\3", _BEFORE.sub(r"\1\3 \2\3", pattern))
        for text in (either, _OPTIONAL.sub("", pattern), _OPTIONAL.sub("_", pattern)):
            yield re.sub(r"\\[a-zA-Z]", " ", text)


def _of_lines(fmt: Format) -> Iterator[str]:
    yield fmt.engine
    for literal in fmt.identify:
        yield literal.decode("utf-8", "replace")
    for line in fmt.lines:
        for part in (line.needle, line.word, line.source):
            yield part.decode("utf-8", "replace")


@lru_cache(maxsize=1)
def _of_code() -> frozenset[str]:
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] == "parsers"]
    return frozenset(text for module in modules for text in _of_module(module))


def _of_module(module: ModuleType) -> Iterator[str]:
    for name, value in vars(module).items():
        if name.startswith("__"):
            continue
        if isinstance(value, type) and value.__module__ == module.__name__:
            for called, member in vars(value).items():
                if called not in _OF_PYTHON:
                    yield from _texts(member)
        yield from _texts(value)


def _of_function(function: FunctionType) -> Iterator[str]:
    """The constants of a function of ours, which a decorator may hide."""
    inner = inspect.unwrap(function)
    if inner.__module__.split(".")[0] == "parsers":
        yield from (text for text in _texts(inner.__code__) if text != inner.__doc__)


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    """The texts in a constant."""
    value = getattr(value, "__func__", getattr(value, "fget", value))
    if depth > _DEEPEST:
        return
    if isinstance(value, bytes):
        yield value.decode("utf-8", "replace")
    elif isinstance(value, str):
        yield value
    elif isinstance(value, re.Pattern):
        yield from _texts(value.pattern)
    elif isinstance(value, dict):
        for pair in value.items():
            yield from _texts(pair, depth + 1)
    elif isinstance(value, tuple | list | set | frozenset):
        for item in value:
            yield from _texts(item, depth + 1)
    elif isinstance(value, CodeType):
        yield from _texts(value.co_consts, depth)
    elif isinstance(value, FunctionType):
        yield from _of_function(value)
    elif isinstance(value, partial):
        yield from _texts((value.func, value.args, value.keywords), depth + 1)
    elif is_dataclass(value) and not isinstance(value, type):
        for part in fields(value):
            yield from _texts(getattr(value, part.name), depth + 1)
