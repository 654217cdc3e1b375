"""Tells sentences that somebody wrote from what engines print."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SAID = {
    *("prompt", "prompts", "text", "texts", "input", "inputs", "output", "outputs", "content", "contents"),
    *("messages", "completion", "completions", "generated_texts", "generated_text", "system", "instructions"),
    *("instruction", "query", "question", "answer", "thinking", "reasoning", "reasoning_content", "suffix"),
    *("response", "documents", "document", "chat_template", "template", "stop", "negative_prompt", "delta"),
    *("arguments", "image_url", "images", "tool_calls", "tools", "description", "note", "comment", "title"),
    *("prompt_text", "input_text", "output_text", "original_prompt", "memory", "choices"),
}
"""Keys under which people's and models' own texts stand."""

_WORD = r"[^\W\d_]+(?:['’][^\W\d_]+)?"
_NO_KEY = r"(?![\w=-]|:\S)"
_RUN = re.compile(rf"(?<![\w./\\-]){_WORD}(?:\s+{_WORD})+{_NO_KEY}")
_SENTENCE = re.compile(rf"(?<![\w./\\-]){_WORD}(?:[,.;:!?…)\"'`*]{{0,3}}\s+[(\"'`*]{{0,2}}{_WORD})+{_NO_KEY}")
_EACH = re.compile(_WORD)
_OF_PATTERNS = re.compile(r"\\s|[+*?()|]|\\(?=\W)")
_OF_THE_FIELD = ("ms per token", "inf tokens per second", "tokens per second")
"""What stands beside numbers that are read, also where no pattern goes that far."""
LONG = 4
"""Words in a row that are a sentence, also where nothing says that a text begins."""


class Prose:
    """Knows the phrases that formats and rows hold, by their pairs of words.

    Args:
        texts: constants of formats, and what rows show.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        plain = (_OF_PATTERNS.sub(" ", text) for text in (*_OF_THE_FIELD, *texts))
        self._pairs = {pair for text in plain for run in _RUN.findall(text) for pair in _pairs(run)}

    def is_in(self, text: str) -> bool:
        """Whether two words follow each other that do so in no phrase."""
        return any(not self._is_known(run[0]) for run in _RUN.finditer(text))

    def without(self, text: str, least: int = LONG) -> str:
        """The text with ``x`` from where so many words in a row are no phrase to the sentence's end."""
        return _SENTENCE.sub(lambda m: self._cut(m[0], least), text)

    def _cut(self, sentence: str, least: int) -> str:
        for run in _RUN.finditer(sentence):
            if len(_EACH.findall(run[0])) >= least and not self._is_known(run[0]):
                return f"{sentence[: run.start() + self._phrase(run[0], least)]}x"
        return sentence

    def _phrase(self, run: str, least: int) -> int:
        """How far a run goes that begins as a line of an engine's: ``GB``, and then somebody's text."""
        words = list(_EACH.finditer(run))
        if least < LONG:
            return 0
        for before, after in pairwise(words):
            if (before[0].lower(), after[0].lower()) not in self._pairs:
                return after.start()
        return 0

    def _is_known(self, run: str) -> bool:
        """Whether no more than a third of its pairs of words are new."""
        pairs = _pairs(run)
        return 3 * sum(pair not in self._pairs for pair in pairs) <= len(pairs)


def _pairs(run: str) -> list[tuple[str, str]]:
    return list(pairwise(word.lower() for word in _EACH.findall(run)))
