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
_AFTER = re.compile(r"(\w+)\(\?:(\w+)\|(\w+)\)")
_DEEPEST = 5
PROSE = {
    *("a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been"),
    *("but", "by", "can", "could", "did", "do", "does", "for", "from", "get", "go", "had", "has"),
    *("have", "he", "her", "his", "how", "i", "if", "in", "is", "it", "its", "just", "may", "me"),
    *("more", "most", "my", "new", "no", "of", "on", "one", "or", "our", "out", "she", "should"),
    *("so", "some", "than", "that", "the", "their", "them", "then", "there", "these", "they"),
    *("this", "to", "up", "us", "was", "we", "were", "what", "when", "which", "who", "whose"),
    *("why", "will", "with", "would", "you", "your"),
}
"""Words of any sentence: that they are known says nothing of a text."""


def vocabulary(formats: Iterable[Format]) -> frozenset[str]:
    """The words of the formats' lines and of the code that reads them, in lower case."""
    lines = {text for fmt in formats for text in _of_lines(fmt)}
    return frozenset(words_of(lines)) | _of_code()


def words_of(texts: Iterable[str]) -> Iterator[str]:
    """The words of texts and patterns, in lower case, with what is optional in them and without."""
    for text in texts:
        for spelled in _spellings(text):
            for word in WORD.findall(spelled):
                if not word.isdigit():
                    yield word.lower()
                    yield from (piece.lower() for piece in PIECE.findall(word) if len(piece) > 1)


def _spellings(pattern: str) -> Iterator[str]:
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
        for part in (line.needle, line.word, line.pattern.pattern):
            yield part.decode("utf-8", "replace")


@lru_cache(maxsize=1)
def _of_code() -> frozenset[str]:
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] == "parsers"]
    return frozenset(words_of({text for module in modules for text in _of_module(module)}))


def _of_module(module: ModuleType) -> Iterator[str]:
    for name, value in vars(module).items():
        if name.startswith("__"):
            continue
        if isinstance(value, type) and value.__module__ == module.__name__:
            for member in vars(value).values():
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
