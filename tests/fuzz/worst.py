"""The worst lines for a pattern: those on which it may try n² ways or more, built from the pattern itself.

A pattern can match a text in polynomially many ways exactly if there are two places p and q in its automaton
and a word w such that w leads from p to p, from p to q and from q to q (Weber and Seidl 1991). Then a way to
p, w many times, and something that fits nowhere is a line that takes long, if any does.
"""

from __future__ import annotations

import time
from collections import deque
from itertools import product
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

from parsers.formats.user.ambiguous import _Automaton, _circles, _Part

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

_LIKED = (
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ _-.:/",
    b" etaoinshrdlu0123456789\t,;",
    b"x=\"'\\[]{}()|,.-:/+*%<>&# 0",
)
_ENDS = (b"", b"\x00", b"\n\x00", b"!")
_TURNS, _STEP = 1 << 13, 4
_LONGEST = 1 << 16
"""Bytes; no more of a line is looked at."""
_NOTHING_S = 0.02
"""A line in less than this is no fault, however the time grows."""
_MOST_WORDS = 40
"""Words that are tried of a pattern; few have more than some."""


class _Loose(_Automaton):
    """What gives nothing back is taken for what does: a place before it may still give back."""

    def _part(self, code: Any, value: Any) -> _Part:
        if code is op.ATOMIC_GROUP:
            return self.sequence(value)
        if code is op.POSSESSIVE_REPEAT:
            return self._repeat(*value)
        return super()._part(code, value)


def lines(pattern: bytes | str, flags: int = 0, *, anywhere: bool = False) -> Iterator[tuple[bytes, bytes]]:
    """What leads to a repeat, and the word that leads around it in two ways.

    Args:
        pattern: a regular expression.
        flags: how it was compiled.
        anywhere: it is searched for, so that it may begin at every place.
    """
    automaton = _Loose()
    start = automaton._place((1 << 256) - 1) if anywhere else None
    whole = automaton.sequence(_parser.parse(pattern, flags))
    first = list(whole.first)
    if start is not None:
        automaton._link(start.last, start.first + whole.first)
        first += start.first
    circles = list(_circles(first, lambda place: automaton.follow[place]))
    found: dict[tuple[bytes, bytes], None] = {}
    for one, other in product(circles, circles):
        if one is not other and (around := _around(automaton, one, other)) is not None:
            begin, steps = around
            way = _shortest(first, lambda place: automaton.follow[place], begin.__eq__)
            for liked in _LIKED:
                before = _spelled([automaton.bytes[place] for place in way or []], liked)
                found[before, _spelled(steps, liked)] = None
    yield from list(found)[:_MOST_WORDS]


def _around(automaton: _Automaton, one: list[int], other: list[int]) -> tuple[int, list[int]] | None:
    """A place of the one circle, and a word that leads back to it, to the other, and around that."""
    stays, goes = set(one), set(other)

    def follow(at: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
        for p in automaton.follow[at[0]]:
            for y in automaton.follow[at[1]] if p in stays else ():
                for q in automaton.follow[at[2]]:
                    taken = automaton.bytes[p] & automaton.bytes[y] & automaton.bytes[q]
                    if q in goes and taken:
                        yield p, y, q

    p, q = one[0], other[0]
    way = _shortest(follow((p, p, q)), follow, lambda at: at == (p, q, q))
    if way is None:
        return None
    steps = []
    for at in way:
        taken = -1
        for place in at:
            taken &= automaton.bytes[place]
        steps.append(taken)
    return p, steps


def _shortest(
    starts: Iterable[Hashable], follow: Callable[[Any], Iterable[Any]], is_end: Callable[[Any], bool]
) -> list[Any] | None:
    """The shortest way from one of some places to one that is an end, both included."""
    came: dict[Any, Any] = dict.fromkeys(starts)
    waiting = deque(came)
    while waiting:
        at = waiting.popleft()
        if is_end(at):
            way = [at]
            while (at := came[at]) is not None:
                way.append(at)
            return way[::-1]
        for after in follow(at):
            if after not in came:
                came[after] = at
                waiting.append(after)
    return None


def _spelled(steps: list[int], liked: bytes) -> bytes:
    """A byte for each step, of those that it may take."""
    least = (min((taken & -taken).bit_length() - 1, 255) for taken in steps)
    return bytes(
        next((byte for byte in liked if taken >> byte & 1), other)
        for taken, other in zip(steps, least, strict=True)
    )


def slowness(run: Callable[[bytes], object], before: bytes, word: bytes) -> float:
    """How much longer than four times as long a line of four times the size takes, with the worst end.

    About 1 for what is linear, 4 for what is quadratic; 0 for what takes no time.
    """
    most = min(_TURNS, _LONGEST // len(word))
    for end in _ENDS:
        turns = _STEP * _STEP
        while turns <= most:
            turns *= 2
            if _seconds(run, before + word * turns + end, 1) >= _NOTHING_S:
                short, long = (before + word * many + end for many in (turns // _STEP, turns))
                return _seconds(run, long) / _seconds(run, short) / _STEP
    return 0.0


def _seconds(run: Callable[[bytes], object], line: bytes, times: int = 2) -> float:
    best = float("inf")
    for _ in range(times):
        began = time.process_time()
        run(line)
        best = min(best, time.process_time() - began)
    return max(best, 1e-6)
