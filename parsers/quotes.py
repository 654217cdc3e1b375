"""Whose text is being printed: an engine that prints a prompt or an answer may print another's log in it.

Only the engine that prints a text knows where it begins and ends. While it lasts, lines of other engines are
part of the text and tell of nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parsers.formats.base import At

LONGEST_TEXT = 5_000
"""Lines after which a text is over at the latest: its end may be lost, and another program's log follow."""


@dataclass(frozen=True, slots=True)
class _Text:
    """A text that is being printed: who is still heard, its last line at the latest, how far it goes."""

    engines: frozenset[str]
    last: int
    inside: bool


class Quotes(dict["bytes | None", _Text]):
    """The texts that are being printed in one source, by the label of the container that prints them.

    A text of a container holds all lines with its label, and with labels inside it; one that has no label
    holds every line, since a text may quote containers too. It is true while any text is being printed.
    """

    def begin(self, label: bytes | None, at: At, engines: frozenset[str], *, inside: bool = True) -> None:
        """From the next line on a text is printed, in which only these engines may still be heard.

        Args:
            label: the container that prints it.
            at: the line that announces it.
            engines: who prints it.
            inside: lines with more labels are part of it too.
        """
        self[label] = _Text(engines, _number(label, at) + LONGEST_TEXT, inside)

    def end(self, label: bytes | None) -> None:
        """The text is over."""
        self.pop(label, None)

    def may_hold(self, label: bytes | None) -> bool:
        """Whether lines with this label may be part of a text."""
        return any(place in self for place in _places(label))

    def hold(self, label: bytes | None, at: At, engine: str) -> bool:
        """Whether this line, which looks like one of this engine, is part of a text.

        Those that may be heard are heard where the text is printed: with more labels they are quoted.
        """
        for place in _places(label):
            text = self.get(place)
            if text is None or not (text.inside or place == label):
                continue
            if _number(place, at) > text.last:
                del self[place]
            elif place != label or engine not in text.engines:
                return True
        return False


def _number(place: bytes | None, at: At) -> int:
    return at.number if place is None else at.own_number


def _places(label: bytes | None) -> list[bytes | None]:
    """The label, those it is inside of, and none."""
    if label is None:
        return [None]
    parts = label.split(b"/")
    return [None, *(b"/".join(parts[:count]) for count in range(1, len(parts) + 1))]
