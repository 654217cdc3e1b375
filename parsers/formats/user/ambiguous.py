"""Patterns that never end: they can match one text in so many ways that trying them all takes for ever.

`re` tries every way in which a pattern may match before it says no. Where a repeat can come back to where it
was by two ways that take the same text, as in ``(a+)+``, each turn doubles the ways. That is so exactly if in
the square of the pattern's automaton a pair of one place twice and a pair of two places lie on one circle
(Weber and Seidl 1991). Look-arounds and what gives nothing back are judged by themselves.
"""

from __future__ import annotations

from collections import Counter
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ANY = (1 << 256) - 1
_MANY = 8
"""From so many times on a repeat counts as one without end."""
_LOOKS = {op.ASSERT, op.ASSERT_NOT}
_REPEATS = {op.MAX_REPEAT, op.MIN_REPEAT}
_CATEGORIES = {
    op.CATEGORY_DIGIT: b"0123456789",
    op.CATEGORY_SPACE: b" \t\n\r\f\v",
    op.CATEGORY_WORD: b"0123456789_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
}
_NOT = {
    op.CATEGORY_NOT_DIGIT: op.CATEGORY_DIGIT,
    op.CATEGORY_NOT_SPACE: op.CATEGORY_SPACE,
    op.CATEGORY_NOT_WORD: op.CATEGORY_WORD,
}


class _Part(NamedTuple):
    """A part of a pattern: in how many ways it may be empty, and the places it begins and ends with."""

    empty: int
    first: Counter[int]
    last: Counter[int]


_NOTHING = _Part(1, Counter(), Counter())


class _Automaton:
    """The places where a pattern takes a byte, which bytes, and in how many ways one follows another."""

    def __init__(self) -> None:
        self.bytes: list[int] = []
        self.follow: list[Counter[int]] = []
        self.inner: list[Any] = []

    def sequence(self, items: Iterable[tuple[Any, Any]]) -> _Part:
        """Parts one after the other."""
        whole = _NOTHING
        for code, value in items:
            whole = self._then(whole, self._part(code, value))
        return whole

    def _place(self, taken: int) -> _Part:
        self.bytes.append(taken)
        self.follow.append(Counter())
        at = Counter([len(self.bytes) - 1])
        return _Part(0, at, at)

    def _link(self, last: Counter[int], first: Counter[int]) -> None:
        for one, ways in last.items():
            for other, more in first.items():
                self.follow[one][other] += ways * more

    def _then(self, one: _Part, two: _Part) -> _Part:
        self._link(one.last, two.first)
        return _Part(
            min(one.empty * two.empty, 2),
            one.first + _times(two.first, one.empty),
            two.last + _times(one.last, two.empty),
        )

    def _part(self, code: Any, value: Any) -> _Part:
        if code is op.SUBPATTERN:
            return self.sequence(value[-1])
        if code is op.BRANCH:
            parts = [self.sequence(items) for items in value[1]]
            first, last = Counter[int](), Counter[int]()
            for part in parts:
                first, last = first + part.first, last + part.last
            return _Part(min(sum(part.empty for part in parts), 2), first, last)
        if code in _REPEATS:
            return self._repeat(*value)
        if code in _LOOKS or code is op.AT:
            self.inner += [value[1]] if code in _LOOKS else []
            return _NOTHING
        if code is op.ATOMIC_GROUP or code is op.POSSESSIVE_REPEAT:
            items = value if code is op.ATOMIC_GROUP else value[2]
            self.inner.append(items)
            may_be_empty = items.getwidth()[0] == 0 or (code is op.POSSESSIVE_REPEAT and value[0] == 0)
            return self._place(_all_bytes(items))._replace(empty=int(may_be_empty))
        if code is op.GROUPREF_EXISTS:
            return self._part(op.BRANCH, (None, [items or [] for items in value[1:]]))
        return self._place(_bytes_of(code, value))

    def _repeat(self, least: int, most: int, items: Any) -> _Part:
        whole = _NOTHING
        for turn in range(min(most, _MANY)):
            part = self.sequence(items)
            if most >= _MANY:
                self._link(part.last, part.first)
                return part._replace(empty=max(part.empty, int(least == 0)))
            whole = self._then(whole, part if turn < least else part._replace(empty=part.empty + 1))
        return whole


def _times(places: Counter[int], ways: int) -> Counter[int]:
    return Counter({place: many * ways for place, many in places.items() if ways})


def _bytes_of(code: Any, value: Any) -> int:
    """The bytes that one place may take, as bits."""
    if code is op.LITERAL:
        return 1 << int(value)
    if code is op.NOT_LITERAL:
        return _ANY & ~(1 << int(value))
    if code is op.RANGE:
        return (1 << (int(value[1]) + 1)) - (1 << int(value[0]))
    if code is op.CATEGORY:
        known = sum(1 << byte for byte in _CATEGORIES[_NOT.get(value, value)])
        return _ANY & ~known if value in _NOT else known
    if code is op.IN:
        taken = 0
        for kind, inside in value:
            taken |= _bytes_of(kind, inside) if kind is not op.NEGATE else 0
        return _ANY & ~taken if value[0][0] is op.NEGATE else taken
    return _ANY & ~(1 << 10) if code is op.ANY else _ANY


def _all_bytes(items: Any) -> int:
    part = _Automaton()
    part.sequence(items)
    taken = 0
    for some in part.bytes:
        taken |= some
    return taken


def never_ends(pattern: bytes) -> bool:
    """Whether a text may make a pattern that compiles try for ever."""
    left: list[Any] = [_parser.parse(pattern)]
    while left:
        automaton = _Automaton()
        automaton.sequence(left.pop())
        if _has_two_ways(automaton):
            return True
        left += automaton.inner
    return False


def _has_two_ways(automaton: _Automaton) -> bool:
    """Whether some place comes back to itself by two ways that take the same text."""
    follow = automaton.follow
    for circle in _circles(range(len(follow)), lambda place: follow[place]):
        inside = set(circle)
        if any(follow[one][other] > 1 for one in circle for other in follow[one] if other in inside):
            return True

        def both(pair: tuple[int, int], inside: set[int] = inside) -> Iterator[tuple[int, int]]:
            for one in follow[pair[0]]:
                for other in follow[pair[1]]:
                    if {one, other} <= inside and automaton.bytes[one] & automaton.bytes[other]:
                        yield one, other

        for pairs in _circles([(place, place) for place in circle], both):
            if any(one == other for one, other in pairs) and any(one != other for one, other in pairs):
                return True
    return False


def _circles(starts: Iterable[Any], next_of: Any) -> Iterator[list[Any]]:
    """The strongly connected components that can be reached, places that never come back aside (Tarjan)."""
    order: dict[Any, int] = {}
    low: dict[Any, int] = {}
    stack: list[Any] = []
    open_: set[Any] = set()
    for start in starts:
        work = [(start, iter(next_of(start)))] if start not in order else []
        while work:
            node, rest = work[-1]
            if node not in order:
                order[node] = low[node] = len(order)
                stack.append(node)
                open_.add(node)
            for other in rest:
                if other not in order:
                    work.append((other, iter(next_of(other))))
                    break
                if other in open_:
                    low[node] = min(low[node], order[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    at = stack.index(node)
                    circle, stack[at:] = stack[at:], []
                    open_.difference_update(circle)
                    if len(circle) > 1 or node in next_of(node):
                        yield circle
