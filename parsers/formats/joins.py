"""Three ways in which the lines of a log belong to one request.

- `Single`: one line is a request.
- `Adjacent`: a head line, and the lines after it up to the one that ends it.
- `Keyed`: lines anywhere, tied by what they name, such as slot and request id.

A join is given `Piece`s and hands back what is whole. It holds the requests still open, and no more than
`MOST_OPEN` of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parsers.formats.base import At

V = TypeVar("V")
MOST_OPEN = 4096
_MOST_BETWEEN = 8
"""Lines of others that may stand between two lines of one request that are printed together."""


@dataclass(frozen=True, slots=True)
class Piece(Generic[V]):
    """What one line says of a request."""

    name: str
    values: Mapping[str, V]
    at: At


@dataclass(slots=True)
class Gathered(Generic[V]):
    """What the lines of one request have said; the first line to say something is believed."""

    first: At
    last: At
    values: dict[str, V] = field(default_factory=dict)

    def add(self, piece: Piece[V]) -> None:
        """Take in another line of the request."""
        self.last = piece.at
        self.values = {**piece.values, **self.values}


class Join(ABC, Generic[V]):
    """Puts pieces together.

    Attributes:
        incomplete: how many requests began and never ended.
    """

    def __init__(self) -> None:
        self.incomplete = 0

    @abstractmethod
    def take(self, piece: Piece[V]) -> Gathered[V] | None:
        """Add a line; the request, if that was its last."""

    def drop(self, piece: Piece[V]) -> None:
        """This line says that its request was aborted or failed: it will give no row."""

    def close(self) -> None:
        """The log or the process ends: what is open stays incomplete."""


class Single(Join[V]):
    """One line is a request."""

    def take(self, piece: Piece[V]) -> Gathered[V]:
        """The request that this line is."""
        return Gathered(piece.at, piece.at, dict(piece.values))


class Adjacent(Join[V]):
    """A head line and those after it.

    Args:
        begin: the name of the line that opens a request.
        end: the name of the line that ends it.
    """

    def __init__(self, begin: str, end: str) -> None:
        super().__init__()
        self._begin, self._end = begin, end
        self._open: Gathered[V] | None = None

    def take(self, piece: Piece[V]) -> Gathered[V] | None:
        """Lines without a head before them are nobody's."""
        if self._open and piece.at.own_number - self._open.last.own_number > 1 + _MOST_BETWEEN:
            self.close()
        if piece.name == self._begin:
            self.close()
            self._open = Gathered(piece.at, piece.at)
        if self._open is None:
            return None
        self._open.add(piece)
        if piece.name != self._end:
            return None
        whole, self._open = self._open, None
        return whole

    def drop(self, piece: Piece[V]) -> None:
        """The request that is being printed is no more."""
        self._open = None

    def close(self) -> None:
        """What is open stays incomplete."""
        self.incomplete += self._open is not None
        self._open = None


class Keyed(Join[V]):
    """Lines anywhere, tied by a key.

    Args:
        key: the values that name a request.
        begin: the name of the line that opens a request; ``None``: any line may.
        end: the name of the line that ends it.
    """

    def __init__(self, key: tuple[str, ...], begin: str | None, end: str) -> None:
        super().__init__()
        self._key, self._begin, self._end = key, begin, end
        self._open: dict[tuple[V | None, ...], Gathered[V]] = {}

    def take(self, piece: Piece[V]) -> Gathered[V] | None:
        """Lines that name no request, or one that never began, are nobody's."""
        key = self._key_of(piece)
        if None in key:
            return None
        if piece.name == self._begin:
            self.incomplete += self._open.pop(key, None) is not None
        if key not in self._open:
            if self._begin not in (None, piece.name):
                return None
            self._make_room()
            self._open[key] = Gathered(piece.at, piece.at)
        self._open[key].add(piece)
        return self._open.pop(key) if piece.name == self._end else None

    def drop(self, piece: Piece[V]) -> None:
        """The request of that name is no more."""
        self._open.pop(self._key_of(piece), None)

    def close(self) -> None:
        """What is open stays incomplete."""
        self.incomplete += len(self._open)
        self._open.clear()

    def _key_of(self, piece: Piece[V]) -> tuple[V | None, ...]:
        return tuple(piece.values.get(name) for name in self._key)

    def _make_room(self) -> None:
        if len(self._open) >= MOST_OPEN:
            self._open.pop(next(iter(self._open)))
            self.incomplete += 1
