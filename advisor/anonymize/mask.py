"""A line with everything taken out that no format reads by.

What stays: words of the formats, numbers, times, signs, the names that rows carry (as they are redacted) and
ids of requests. Every other word is ``x``. Words with digits, keys and texts in quotes are numbered instead
(``x7``), so that those which differ still do. A text in quotes is kept word by word only if most of it is
known: an engine's message is, a prompt is not.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from advisor.anonymize.heads import Heads
from advisor.anonymize.vocabulary import PIECE, PROSE, WORD

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

_TOKEN = re.compile(
    r"(?P<quoted>\"(?:[^\"\\]|\\.)*\"|(?<!\w)'(?:[^'\\]|\\.)*'(?!\w))"
    r"|(?P<open>\"(?:[^\"\\]|\\.)*\\?$)"
    r"|(?P<label>\[[a-z]+-\d+\])"
    r"|(?P<time>\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?)(?!\w)"
    r"|(?P<uuid>[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})(?!\w)"
    r"|(?P<number>\d[\d.]*[eE][+-]?\d+)(?!\w)"
    r"|(?P<chunk>\w(?:[\w.:@-]*\w)?)"
    r"|(?P<space>\s+)"
    r"|(?P<sign>[^\w\s])"
)
_PART = re.compile(
    r"(?P<number>(?:\d+(?:[.,]\d+)*(?:[eE][+-]?\d+)?(?:h|m|s|ms|us|µs|ns|[kKMGT]i?B?|B)?)+(?!\w)|[bv]\d+(?!\w))"
    r"|(?P<word>\w+)|(?P<sign>[^\w])"
)
_HEX = re.compile(r"[0-9a-f]{8,}")
_TIME_WORDS = {
    *("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    *("mon", "tue", "wed", "thu", "fri", "sat", "sun", "am", "pm", "utc", "gmt", "cet", "cest"),
}
_INTS = re.compile(r"\[\s*-?\d+(?:\s*,\s*-?\d+){7,}\s*,?\s*\]?")
"""Eight numbers and more: the ids of a prompt's tokens."""
_CARRIED = {"log", "MESSAGE", "message", "msg", "content"}
"""Keys under which carriers keep a whole line."""
_LABELS = {"CONTAINER_NAME", "SYSLOG_IDENTIFIER", "_SYSTEMD_UNIT"}
_ENDED = re.compile(r"(?<!\\)(?:\\\\)*[\"']$")
_KNOWN_SHARE = 0.6
_RUN = re.compile(r"\b[xX](?: [xX]\b){2,}")
_BESIDE = re.compile(r"(\b[xX]\d* )-?\d[\d.,-]*(?: \d[\d.,-]*)*")
"""Numbers after a word that nobody knows: a telephone's, a house's."""
_SHORTEST_HEX = 8


class _Masked(NamedTuple):
    """A masked text, and how many of its words were known and were not."""

    text: str
    known: int
    unknown: int


class Masker:
    """Masks texts; what is the same stays the same.

    Args:
        words: what formats read by, in lower case.
        names: what rows say, as the log spells it, and what it is called instead.
        ids: the ids of requests, which are kept.
        network: masks addresses and names of machines.

    Attributes:
        heads: masks what carriers put before a line.
    """

    def __init__(
        self,
        words: Collection[str],
        names: Mapping[str, str],
        ids: Collection[str],
        network: Callable[[str], str],
    ) -> None:
        self._words = words
        self._names = names
        self._ids = ids
        self._network = network
        self.heads = Heads(self._name)
        self._read: Collection[str] = ()
        self._numbers: dict[int, int] = {}
        spelled = sorted(names, key=len, reverse=True)
        self._named = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in spelled) or r"(?!)")

    def text(self, text: str, read: Collection[str] = ()) -> str:
        """The text without anything of its own.

        Args:
            text: a line, or a part of it.
            read: what formats read of it; a text in quotes that holds one is an engine's.
        """
        self._read = read
        masked = self._mask(_INTS.sub("[0]", text)).text
        return _BESIDE.sub(r"\g<1>0", _RUN.sub("x", masked))

    def key(self, key: str) -> str:
        """The key of an object, or a number for one that no format knows."""
        words = re.findall(r"\w+", key)
        return key if all(self._is_known(word) for word in words) else f"x{self.number(key)}"

    def number(self, text: str) -> int:
        """A number for a text, the same for the same; the text itself is not kept."""
        return self._numbers.setdefault(hash(text), len(self._numbers) + 1)

    def _mask(self, text: str, *, numbered: bool = False) -> _Masked:
        text = self._network(self._named.sub(lambda m: self._names[m[0]], text))
        parts: list[str] = []
        known = unknown = 0
        key = ""
        for token in _TOKEN.finditer(text):
            kind, said = token.lastgroup, token[0]
            if kind in ("quoted", "open"):
                if text[token.end() : token.end() + 2].lstrip().startswith(":"):
                    key = said[1:-1]
                    parts.append(said[0] + self.key(key) + said[-1])
                    continue
                masked = self._quoted(said, key)
            elif kind == "chunk":
                masked = self._chunk(said, numbered=numbered or text[token.end() : token.end() + 1] == "=")
            elif kind == "uuid":
                masked = _Masked(
                    said if said in self._ids else f"00000000-0000-0000-0000-{self.number(said):012x}", 0, 0
                )
            else:
                masked = _Masked(said, 0, 0)
            parts.append(masked.text)
            known, unknown = known + masked.known, unknown + masked.unknown
        return _Masked("".join(parts), known, unknown)

    def _quoted(self, quoted: str, key: str) -> _Masked:
        """A text in quotes, with them; one without an end goes on to the end of the line."""
        mark = quoted[0]
        ended = _ENDED.search(quoted[1:]) is not None
        said = quoted[1:-1] if ended else quoted[1:]
        end = mark if ended else ""
        if not said or said in self._ids:
            return _Masked(quoted, 0, 0)
        inner = _unescaped(said) if mark == '"' else None
        plain = said if inner is None else inner
        if key in _LABELS:
            masked = _Masked(self.heads.label(plain), 1, 0)
        else:
            head, body = self.heads.parted(plain) if key in _CARRIED else ("", plain)
            masked = self._mask(body, numbered=not any(c.isspace() for c in body))
            was_read = key in _CARRIED and self._is_read(body)
            if masked.unknown and not was_read and not _is_engines(body, masked):
                masked = _Masked(f"x{self.number(said)}", 0, 1)
            masked = masked._replace(text=head + masked.text)
        return masked._replace(text=mark + (masked.text if inner is None else _escaped(masked.text)) + end)

    def _is_read(self, text: str) -> bool:
        return any(said in text or said.endswith(text.strip()) for said in self._read)

    def _name(self, name: str) -> str:
        """The name of a container or a machine: its words without digits, if they are known, and numbers."""
        return WORD.sub(
            lambda m: m[0] if m[0].isdigit() or self._is_plain(m[0]) else f"x{self.number(m[0])}", name
        )

    def _is_plain(self, word: str) -> bool:
        return not any(c.isdigit() for c in word) and self._is_known(word)

    def _chunk(self, chunk: str, *, numbered: bool) -> _Masked:
        """Words and numbers without a space between them."""
        if chunk in self._ids:
            return _Masked(chunk, 1, 0)
        parts: list[str] = []
        known = unknown = 0
        for part in _PART.finditer(chunk):
            said = part[0]
            if part.lastgroup != "word":
                parts.append(said)
            elif self._is_known(said):
                known += said.lower() not in PROSE
                parts.append(said)
            else:
                unknown += 1
                parts.append(self._word(said, numbered=numbered))
        return _Masked("".join(parts), known, unknown)

    def _word(self, word: str, *, numbered: bool) -> str:
        """A word that is not known; of an identifier, what is."""
        if _HEX.fullmatch(word):
            return f"{self.number(word):0{len(word)}x}"
        pieces = PIECE.findall(word)
        if len(pieces) > 1 and any(map(self._is_piece, pieces)):
            return "".join(p if p == "_" or self._is_piece(p) else f"x{self.number(p)}" for p in pieces)
        if numbered or any(c.isdigit() for c in word):
            return f"x{self.number(word)}"
        return "X" if word[0].isupper() else "x"

    def _is_known(self, word: str) -> bool:
        """Whether formats read by a word, or by its parts; Python's coroutines have an ``a`` before it."""
        lower = word.lower()
        if lower in self._words or lower in _TIME_WORDS or lower.removeprefix("a") in self._words:
            return True
        if _HEX.fullmatch(word):  # rows may hold the beginning of a digest
            return any(lower[:end] in self._words for end in range(_SHORTEST_HEX, len(lower)))
        pieces = PIECE.findall(word)
        if any(_is_machine(before, after) for before, after in pairwise(pieces)):
            return False
        return len(pieces) > 1 and all(piece == "_" or self._is_piece(piece) for piece in pieces)

    def _is_piece(self, piece: str) -> bool:
        return piece.isdigit() or piece.lower() in self._words


def _is_engines(text: str, masked: _Masked) -> bool:
    """Whether a text in quotes is an engine's: a name that is known in part, or mostly known words."""
    if not any(c.isspace() for c in text):
        return masked.known > 0
    return masked.known >= _KNOWN_SHARE * (masked.known + masked.unknown)


def _is_machine(word: str, number: str) -> bool:
    """Whether these may be a machine's name, as ``gpu01`` is; ``CUDA0`` and ``tg128`` are none."""
    return number.isdigit() and len(word) > 2 and not word.isupper()


def _unescaped(text: str) -> str | None:
    """What a JSON string says; ``None`` where it has no escapes, or is none."""
    if "\\" not in text:
        return None
    try:
        said = json.loads(f'"{text}"')
    except ValueError:
        return None
    return said if isinstance(said, str) else None


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
