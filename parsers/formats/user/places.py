"""Where in a TOML file each key and value stands, so that a message can point at it.

`tomllib` gives values without their places. This walks a text that `tomllib` has accepted, so it checks
nothing and only keeps count.
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""Keys and list indices from the top of the file, such as ``("line", 0, "pattern")``."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*("(?:[^"\\]|\\.)*"|'[^']*'|[\w-]+)[ \t]*(\.)?""")
_SCALAR = re.compile(r"[^,\]}#\n]*")
_QUOTES = ('"""', "'''", '"', "'")
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[ \t]*\r?\n\s*|.)", re.DOTALL)


class Place(NamedTuple):
    """Offsets in the text: where a key starts, and its value."""

    key: int
    value: int


def places(text: str) -> dict[Path, Place]:
    """The place of every key, table and list item of a valid TOML text."""
    return _Walk(text).places


def inside(text: str, start: int, index: int) -> int:
    """The offset of a character of the string whose opening quote is at ``start``."""
    quote = next((q for q in _QUOTES if text.startswith(q, start)), "")
    at = start + len(quote)
    if len(quote) == 3:
        at += 2 if text.startswith("\r\n", at) else 1 if text.startswith("\n", at) else 0
    for _ in range(index):
        escape = _ESCAPE.match(text, at) if quote in ('"', '"""') else None
        at = escape.end() if escape else at + 1
    return min(at, len(text))


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Both count from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


class _Walk:
    def __init__(self, text: str) -> None:
        self.places: dict[Path, Place] = {}
        self._text = text
        self._tables: dict[Path, int] = {}
        at = self._blank(0)
        table: Path = ()
        while at < len(text):
            if text[at] == "[":
                at, table = self._header(at)
            else:
                at = self._pair(at, table)
            at = self._blank(at)

    def _blank(self, at: int) -> int:
        match = _BLANK.match(self._text, at)
        return match.end() if match else at

    def _key(self, at: int) -> tuple[int, list[str]]:
        parts = []
        while match := _KEY.match(self._text, at):
            parts.append(match[1].strip("\"'"))
            at = match.end()
            if not match[2]:
                break
        return at, parts

    def _header(self, start: int) -> tuple[int, Path]:
        """``[table]`` or ``[[table]]``, the latter one more of a list."""
        many = self._text.startswith("[[", start)
        at, parts = self._key(start + 1 + many)
        path: Path = ()
        for part in parts[:-1]:
            path = (*path, part)
            if path in self._tables:
                path = (*path, self._tables[path])
        path = (*path, parts[-1])
        if many:
            self._tables[path] = self._tables.get(path, -1) + 1
            self.places.setdefault(path, Place(start, start))
            path = (*path, self._tables[path])
        self.places.setdefault(path, Place(start, start))
        return at + 1 + many, path

    def _pair(self, start: int, table: Path) -> int:
        at, parts = self._key(start)
        at = self._blank(at + 1)
        path: Path = (*table, *parts)
        for depth in range(len(table) + 1, len(path)):
            self.places.setdefault(path[:depth], Place(start, start))
        self.places[path] = Place(start, at)
        return self._value(at, path)

    def _value(self, at: int, path: Path) -> int:
        text = self._text
        for quote in _QUOTES:
            if text.startswith(quote, at):
                return self._string(at + len(quote), quote)
        if text[at] == "[":
            return self._list(at, path)
        if text[at] == "{":
            return self._inline(at, path)
        match = _SCALAR.match(text, at)
        return match.end() if match else at

    def _string(self, at: int, quote: str) -> int:
        while not self._text.startswith(quote, at):
            at += 2 if quote[0] == '"' and self._text[at] == "\\" else 1
        at += len(quote)
        while len(quote) == 3 and self._text.startswith(quote[0], at):  # up to two more quotes belong to it
            at += 1
        return at

    def _list(self, at: int, path: Path) -> int:
        at, index = self._blank(at + 1), 0
        while self._text[at] != "]":
            self.places[(*path, index)] = Place(at, at)
            at = self._blank(self._value(at, (*path, index)))
            if self._text[at] == ",":
                at, index = self._blank(at + 1), index + 1
        return at + 1

    def _inline(self, at: int, path: Path) -> int:
        at = self._blank(at + 1)
        while self._text[at] != "}":
            at = self._blank(self._pair(at, path))
            if self._text[at] == ",":
                at = self._blank(at + 1)
        return at + 1
