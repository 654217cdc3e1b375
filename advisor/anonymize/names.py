"""Finds the names that rows carry in a text, however many there are."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_WORD = re.compile(r"\w+")


class Names:
    """Texts and what they are called instead.

    Each is looked up by the rarest of its words, so many names cost no more than few.

    Args:
        called: what stands in the log, and what it becomes.
    """

    def __init__(self, called: Mapping[str, str]) -> None:
        self._called = called
        words = {name: [(m[0], m.start()) for m in _WORD.finditer(name)] for name in called}
        often = Counter(word for said in words.values() for word, _ in said)
        self._by_word: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for name, said in words.items():
            if said:
                word, at = min(said, key=lambda one: often[one[0]])
                self._by_word[word].append((at, name))

    def replaced(self, text: str) -> str:
        """The text with every name called otherwise; of names that overlap, the first and longest."""
        if not self._by_word:
            return text
        parts, done = list[str](), 0
        for start, name in sorted(self._found(text), key=lambda found: (found[0], -len(found[1]))):
            if start >= done:
                parts += text[done:start], self._called[name]
                done = start + len(name)
        return "".join((*parts, text[done:])) if parts else text

    def _found(self, text: str) -> Iterator[tuple[int, str]]:
        for word in _WORD.finditer(text):
            for at, name in self._by_word.get(word[0], ()):
                start = word.start() - at
                if start >= 0 and text.startswith(name, start) and _stands_alone(text, start, name):
                    yield start, name


def _stands_alone(text: str, start: int, name: str) -> bool:
    end = start + len(name)
    return not (start and _is_word(text[start - 1])) and not (end < len(text) and _is_word(text[end]))


def _is_word(sign: str) -> bool:
    return sign.isalnum() or sign == "_"
