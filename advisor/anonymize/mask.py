"""A text with everything taken out that no format reads by.

Of a line that a pattern matches, what stays outside of its groups is the pattern's own words; nothing stays
after its end. Of what its groups took, words of the formats stay, numbers, times, signs, the names that rows
carry (as they are redacted) and ids of requests. Every other word is ``x``. Words with digits, keys and texts
in quotes are numbered instead (``x7``), so that those which differ still do. Sentences go as a whole, however
common their words, and so does what stands under a key such as ``prompt``.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from advisor.anonymize.heads import ANSI, Heads
from advisor.anonymize.matched import Matched
from advisor.anonymize.prose import LONG, SAID
from advisor.anonymize.vocabulary import PIECE, WORD

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from advisor.anonymize.names import Names
    from advisor.anonymize.prose import Prose
    from parsers.stream import Taken

_QUOTED = r"\"(?:[^\"\\]|\\.)*\"|(?<![\w\\])'(?:[^'\\]|\\.)*'(?!\w)"
_OPEN = r"\"(?:[^\"\\]|\\.)*\\?$"
_TOKEN = re.compile(
    rf"(?P<quoted>{_QUOTED})|(?P<open>{_OPEN})"
    r"|(?P<label>\[[a-z]+-\d+\])"
    r"|(?P<time>\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?)(?!\w)"
    r"|(?P<uuid>[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})(?!\w)"
    r"|(?P<number>\d[\d.]*[eE][+-]?\d+)(?!\w)"
    r"|(?P<chunk>\w(?:[\w.:@-]*\w)?)"
    r"|(?P<space>\s+)"
    r"|(?P<sign>[^\w\s])"
)
_PART = re.compile(
    r"(?P<number>(?:\d++(?:[.,]\d++)*+(?:[eE][+-]?\d++)?+(?:ms|us|µs|ns|h|m|s|[kKMGT]i?B?|B)?+)++(?!\w)|[bv]\d++(?!\w))"
    r"|(?P<word>\w+)|(?P<sign>[^\w])"
)
_HEX = re.compile(r"[0-9a-f]{8,}")
_VALUES = {
    *("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    *("inf", "nan", "infinity", "true", "false", "null", "none"),
    *("mon", "tue", "wed", "thu", "fri", "sat", "sun", "am", "pm", "utc", "gmt", "cet", "cest"),
}
_INTS = re.compile(r"\[\s*-?\d+(?:\s*,\s*-?\d+){7,}\s*,?\s*\]?")
"""Eight numbers and more: the ids of a prompt's tokens."""
_CARRIED = {"log", "MESSAGE", "message", "msg"}
"""Keys under which carriers keep a whole line."""
_LABELS = {"CONTAINER_NAME", "SYSLOG_IDENTIFIER", "_SYSTEMD_UNIT"}
_NAMED = re.compile(r"\b(\w+)\s*[=:]\s*[bru]?$")
"""What stands before a text in quotes and names it, without quotes of its own."""
_SECRET = re.compile(r"(?i).*(?:api_?key|password|passwd|secret|authorization|cookie)s?")
_ASKED = re.compile(r"([?&][\w-]+=)[^&\s\"'#]+")
_GIVEN = re.compile(r"(?i)((?:api[_-]?key|password|passwd|secret|authorization)s?\s*[=:]\s*)[^\s\"',;)\]}]+")
_ENDED = re.compile(r"(?<!\\)(?:\\\\)*[\"']$")
_RUN = re.compile(r"\b[xX](?: [xX]\b){2,}")
_BESIDE = re.compile(r"(\b[xX]\d* )-?\d[\d.,-]*(?: \d[\d.,-]*)*")
"""Numbers after a word that nobody knows: a telephone's, a house's."""
_BREAKS = re.compile(r"([\r\n]+)")
_LIKE_LETTERS = re.compile(
    r"[\u0300-\u036f\u2100-\u214f\u2460-\u24ff\u2776-\u2793\u2800-\u28ff\u3200-\u33ff\U0001f100-\U0001f1ff]"
)
"""Letters in circles, of Braille, and others that are signs to Unicode."""
_QUOTE, _DOUBLED = '"', '""'
_CELL = re.compile(r'"((?:[^"]|"")*+)"|[^"]+|"')
_PAIR = 2
_LONG_NUMBER = 8
_SHORTEST_HEX = 8
_REMEMBERED = 100_000
"""How many texts keep their numbers; one not met for so many others gets a new one."""


class Masker:
    """Masks texts; what is the same stays the same.

    Args:
        words: what formats read by, in lower case.
        prose: tells sentences from what engines print.
        names: what rows say, as the log spells it, and what it is called instead.
        ids: the ids of requests, which are kept.
        private: masks keys, addresses and names of machines.
        kept: the texts of rows, also where a prompt may stand.
        strict: nothing stays of what stands outside of a pattern's groups but the pattern's own words.

    Attributes:
        heads: masks what carriers put before a line.
    """

    def __init__(
        self,
        words: Collection[str],
        prose: Prose,
        names: Names,
        ids: Collection[str],
        private: Callable[[str], str],
        *,
        kept: Collection[str] = (),
        strict: bool = True,
    ) -> None:
        self._words = words
        self._prose = prose
        self._names = names
        self._ids = ids
        self._private = private
        self._kept = kept
        self.heads = Heads(self._name)
        self._matched = Matched(self._captured, self.number, self._shown, strict=strict)
        self._read: dict[str, Taken] = {}
        self._numbers: OrderedDict[int, int] = OrderedDict()
        self._given = 0
        self._is_known = lru_cache(maxsize=50_000)(self._knows)

    def line(self, line: str, read: Sequence[Taken]) -> str:
        """A line without anything of its own.

        Args:
            line: as it stands in the log.
            read: what was read of it.
        """
        plain = ANSI.sub("", line)
        if len(read) == 1:
            body = decoded(read[0].match.string)
            head, found, rest = plain.rpartition(body)
            if found and not rest and "{" not in head:
                return self.heads.read(head) + self._matched.masked(read[0])
        self._read = {self._shown(decoded(taken.match.string)): taken for taken in read}
        head, body = self.heads.parted(plain)
        self.heads.read(head)
        return head + "\r".join(self._said(part) for part in body.split("\r"))

    def text(self, text: str, key: str = "") -> str:
        """A text without anything of its own, with its quotes where it has any; the key names it."""
        self._read = {}
        return self._captured(text, key)

    def key(self, key: str) -> str:
        """The key of an object, or a number for one that no format knows."""
        words = re.findall(r"\w+", key)
        if self._is_sentence(key):
            return f"x{self.number(key)}"
        return key if all(self._is_known(word) for word in words) else f"x{self.number(key)}"

    def number(self, text: str) -> int:
        """A number for a text, the same for the same; the text itself is not kept."""
        key = hash(text)
        if key in self._numbers:
            self._numbers.move_to_end(key)
            return self._numbers[key]
        if len(self._numbers) >= _REMEMBERED:
            self._numbers.popitem(last=False)
        self._given += 1
        self._numbers[key] = self._given
        return self._given

    def _shown(self, text: str) -> str:
        """The text with what rows are called by, and no key or machine's name."""
        return self._private(self._names.replaced(text))

    def _captured(self, text: str, key: str = "") -> str:
        """What a pattern's group took, or no pattern at all."""
        plain = _GIVEN.sub(r"\1x", _ASKED.sub(r"\1x", _INTS.sub("[0]", text)))
        shown = self._shown(plain)
        masked = _CELL.sub(self._cell, shown) if _DOUBLED in shown else self._mask(shown, key)
        return _BESIDE.sub(r"\g<1>0", _RUN.sub("x", masked))

    def _said(self, text: str) -> str:
        """A part of a line, which may be what was read of it."""
        taken = self._read.get(self._shown(text))
        return self._matched.masked(taken) if taken else self._captured(text)

    def _cell(self, found: re.Match[str]) -> str:
        """A cell of CSV in quotes, whose own are doubled; or what stands between such cells."""
        cell = found[1]
        if cell is None:
            return self._mask(found[0])
        return f'"{self._mask(cell.replace(_DOUBLED, _QUOTE)).replace(_QUOTE, _DOUBLED)}"'

    def _mask(self, text: str, key: str = "", *, numbered: bool = False) -> str:
        parts: list[str] = []
        done = 0
        for found in _IN_QUOTES.finditer(text):
            between = text[done : found.start()]
            parts.append(self._plain(between, numbered=numbered))
            done = found.end()
            said = found[0]
            if text[done : done + 2].lstrip().startswith(":"):
                key = said[1:-1]
                parts.append(said[0] + self.key(key) + said[-1])
                continue
            if named := _NAMED.search(between):
                key = named[1]
            parts.append(self._quoted(said, key))
        parts.append(self._plain(text[done:], numbered=numbered))
        return "".join(parts)

    def _plain(self, text: str, *, numbered: bool = False) -> str:
        """What stands outside of quotes."""
        text = self._prose.without(text)
        parts: list[str] = []
        for token in _TOKEN.finditer(text):
            kind, said = token.lastgroup, token[0]
            if kind == "chunk":
                said = self._chunk(said, numbered=numbered or text[token.end() : token.end() + 1] == "=")
            elif kind == "sign" and _LIKE_LETTERS.match(said):
                said = "x"
            elif kind == "uuid" and said not in self._ids:
                said = f"00000000-0000-0000-0000-{self.number(said):012x}"
            parts.append(said)
        return "".join(parts)

    def _quoted(self, quoted: str, key: str) -> str:
        """A text in quotes, with them; one without an end goes on to the end of the line."""
        mark = quoted[0]
        ended = len(quoted) > 1 and _ENDED.search(quoted[1:]) is not None
        said = quoted[1:-1] if ended else quoted[1:]
        end = mark if ended else ""
        if not said or said in self._ids:
            return quoted
        inner = _unescaped(said) if mark == '"' else None
        masked = self._inside(said if inner is None else inner, key)
        return mark + (masked if inner is None else _escaped(masked)) + end

    def _inside(self, text: str, key: str) -> str:
        """A text that stands in quotes."""
        if key in _LABELS:
            return self.heads.label(text)
        if (lines := self._lines(text)) is not None:
            return lines
        if text not in self._kept and (key.lower() in SAID or _SECRET.fullmatch(key)):
            return f"x{self.number(text)}"
        text = self._prose.without(text, LONG if key in _CARRIED else _PAIR)
        return self._mask(text, key, numbered=not any(c.isspace() for c in text))

    def _lines(self, text: str) -> str | None:
        """Lines of a text that were read, and the breaks between them; ``None`` where none was."""
        if not self._read:
            return None
        parts, found = [], False
        for part in _BREAKS.split(text):
            head, body = self.heads.parted(part)
            indented = len(body) - len(body.lstrip(" \t"))
            taken = self._read.get(body) or self._read.get(body[indented:])
            said = self._matched.masked(taken) if taken else ""
            if taken and self._shown(decoded(taken.match.string)) != body:
                said = body[:indented] + said
            found = found or taken is not None
            parts.append(head + said if taken or part.strip() else part)
        return "".join(parts) if found else None

    def _is_sentence(self, text: str) -> bool:
        return any(c.isspace() for c in text) and self._prose.is_in(text)

    def _name(self, name: str) -> str:
        """The name of a container or a machine: its words without digits, if they are known, and numbers."""
        return WORD.sub(
            lambda m: m[0] if _is_short(m[0]) or self._is_plain(m[0]) else f"x{self.number(m[0])}", name
        )

    def _is_plain(self, word: str) -> bool:
        return not any(c.isdigit() for c in word) and self._is_known(word)

    def _chunk(self, chunk: str, *, numbered: bool) -> str:
        """Words and numbers without a space between them."""
        if chunk in self._ids:
            return chunk
        return "".join(
            part[0]
            if part.lastgroup != "word" or self._is_known(part[0])
            else self._word(part[0], numbered=numbered)
            for part in _PART.finditer(chunk)
        )

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

    def _knows(self, word: str) -> bool:
        """Whether formats read by a word, or by its parts; Python's coroutines have an ``a`` before it."""
        lower = word.lower()
        if lower in self._words or lower in _VALUES or lower.removeprefix("a") in self._words:
            return True
        if _HEX.fullmatch(word):  # rows may hold the beginning of a digest
            return any(lower[:end] in self._words for end in range(_SHORTEST_HEX, len(lower)))
        pieces = PIECE.findall(word)
        if any(_is_machine(before, after) for before, after in pairwise(pieces)):
            return False
        return len(pieces) > 1 and all(piece == "_" or self._is_piece(piece) for piece in pieces)

    def _is_piece(self, piece: str) -> bool:
        return _is_short(piece) or piece.lower() in self._words


_IN_QUOTES = re.compile(rf"{_QUOTED}|{_OPEN}")


def decoded(text: bytes) -> str:
    """Bytes of a log as text."""
    return text.decode("utf-8", "replace")


def _is_short(number: str) -> bool:
    return number.isdigit() and len(number) < _LONG_NUMBER


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
