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

_WORD = r"[^\W\d_]+(?:['’][^\W\d_]+)?"  # noqa: RUF001
_NO_KEY = r"(?![\w=-]|:\S)"
_RUN = re.compile(rf"(?<![\w./\\-]){_WORD}(?:\s+{_WORD})+{_NO_KEY}")
_SENTENCE = re.compile(rf"(?<![\w./\\-]){_WORD}(?:[,.;:!?…)\"'`*]{{0,3}}\s+[(\"'`*]{{0,2}}{_WORD})+{_NO_KEY}")
_EACH = re.compile(_WORD)
_OF_PATTERNS = re.compile(r"\\s|[+*?()|]|\\(?=\W)")
LONG = 4
"""Words in a row that are a sentence, also where nothing says that a text begins."""


class Prose:
    """Knows the phrases that formats and rows hold, by their pairs of words.

    Args:
        texts: constants of formats, and what rows show.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        plain = (_OF_PATTERNS.sub(" ", text) for text in texts)
        self._pairs = {pair for text in plain for run in _RUN.findall(text) for pair in _pairs(run)}

    def is_in(self, text: str) -> bool:
        """Whether two words follow each other that do so in no phrase."""
        return any(not self._is_known(run[0]) for run in _RUN.finditer(text))

    def without(self, text: str, least: int = LONG) -> str:
        """The text with ``x`` for each sentence in which so many words in a row are no phrase."""
        return _SENTENCE.sub(lambda m: "x" if self._is_said(m[0], least) else m[0], text)

    def _is_said(self, sentence: str, least: int) -> bool:
        runs = (run for run in _RUN.findall(sentence) if len(_EACH.findall(run)) >= least)
        return any(not self._is_known(run) for run in runs)

    def _is_known(self, run: str) -> bool:
        return all(pair in self._pairs for pair in _pairs(run))


def _pairs(run: str) -> Iterable[tuple[str, str]]:
    return pairwise(word.lower() for word in _EACH.findall(run))
