"""A document of JSON, masked: its keys that a format reads, numbers under them, and its layout stay."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from advisor.anonymize.mask import Masker

_TOKEN = re.compile(
    r"(?P<string>\"(?:[^\"\\]|\\.)*\"?)|(?P<open>[{\[])|(?P<close>[}\]])|[,:]|\s+|[^\s{}\[\],:\"]+"
)
_TEXTS = {
    *(
        "prompt",
        "prompts",
        "text",
        "texts",
        "tokens",
        "token_ids",
        "prompt_token_ids",
        "input_ids",
        "output_ids",
    ),
    *("input", "output", "content", "messages", "embedding", "embeddings", "generated_texts", "logprobs"),
}
"""Keys under which numbers are text too: ids of tokens, embeddings."""


_SIGN = re.compile(r"[,:]|\s+")
_CONSTANT = re.compile(r"true|false|null|NaN|-?Infinity")
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?")


@dataclass(slots=True)
class _Inside:
    """An object or an array that is open, and whether numbers in it are kept."""

    is_object: bool
    keeps: bool


class DocumentMasker:
    """Masks a document line by line; it remembers only which objects and arrays are open.

    Args:
        masker: masks texts.
    """

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._open: list[_Inside] = []
        self._keeps = True
        self._wants_key = False

    def line(self, line: str) -> str:
        """The next line, with its break."""
        return "".join(self._tokens(line))

    def _tokens(self, line: str) -> Iterator[str]:
        for token in _TOKEN.finditer(line):
            said, kind = token[0], token.lastgroup
            if kind == "open":
                self._open.append(_Inside(said == "{", self._keeps))
                self._wants_key = said == "{"
            elif kind == "close":
                self._keeps = self._open.pop().keeps if self._open else True
                self._wants_key = False
            elif said == ",":
                inside = self._open[-1] if self._open else None
                self._wants_key = inside is not None and inside.is_object
                self._keeps = inside.keeps if inside is not None else True
            elif kind == "string" and self._wants_key:
                self._wants_key = False
                key = said.strip('"')
                masked = self._masker.key(key)
                self._keeps = self._keeps and masked == key and key not in _TEXTS
                said = f'"{masked}"'
            elif kind == "string":
                said = self._masker.text(said)
            elif not _SIGN.fullmatch(said):
                said = self._plain(said)
            yield said

    def _plain(self, said: str) -> str:
        """What stands without quotes: a number, a constant, or no JSON."""
        if _CONSTANT.fullmatch(said):
            return said
        kept = self._open and (self._keeps or self._open[-1].is_object)
        return said if kept and _NUMBER.fullmatch(said) else "0"
