"""Finds literals in a block of lines: where they are, and which lines hold which of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    from stringzilla import count, find  # by SIMD
except ImportError:
    count, find = bytes.count, bytes.find

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SELDOM = 6
"""Literals of this size stand in a line about once; of shorter ones only the first in it is looked for."""

_SMALL = 1 << 13
"""What numpy costs for each block of lines is more than what it saves in one of this size."""

_NEWLINE = 10
_BITS = 63
"""So many literals one number of numpy's tells apart."""


def places_of(
    literal: bytes, block: bytes, spans: Iterable[tuple[int, int | None]], first: int = 0
) -> list[int]:
    """Where a literal stands: at least once in each line that holds it.

    Args:
        literal: without a newline.
        block: whole lines.
        spans: where to look: each from the start of a line to the end of one.
        first: the start of the first line that counts.
    """
    places = []
    size, often = len(literal), len(literal) < _SELDOM
    for start, stop in spans:
        at = max(start, first)
        while at >= 0 and (at := find(block, literal, at, stop)) >= 0:
            places.append(at)
            at = find(block, b"\n", at) if often else at + size
    return places


def lines_at(places: Sequence[Sequence[int]], block: bytes) -> Iterable[tuple[int, int, int, int]]:
    """The lines that hold literals, in their order.

    Args:
        places: of each literal in the block.
        block: whole lines.

    Returns:
        How many lines are before it, where it starts and ends, and the literals: bit 0 for the first one.
    """
    if len(block) < _SMALL or not places:
        return _lines_of_small(places, block)
    import numpy as np

    newlines = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
    ends = np.append(newlines, len(block))
    held = np.zeros((1 + (len(places) - 1) // _BITS, len(ends)), np.int64)
    for bit, some in enumerate(places):
        held[bit // _BITS, newlines.searchsorted(np.fromiter(some, np.intp, len(some)))] |= 1 << bit % _BITS
    numbers = np.flatnonzero(held.any(axis=0))
    starts = np.append(0, newlines + 1)[numbers]
    masks, *more = held[:, numbers].tolist()
    for group, others in enumerate(more, 1):
        masks = [mask | other << group * _BITS for mask, other in zip(masks, others, strict=True)]
    return zip(numbers.tolist(), starts.tolist(), ends[numbers].tolist(), masks, strict=True)


def _lines_of_small(places: Sequence[Sequence[int]], block: bytes) -> list[tuple[int, int, int, int]]:
    held: dict[int, int] = {}
    for bit, some in enumerate(places):
        for at in some:
            start = block.rfind(b"\n", 0, at) + 1
            held[start] = held.get(start, 0) | 1 << bit
    lines, number, last = [], 0, 0
    for start in sorted(held):
        number += block.count(b"\n", last, start)
        end = block.find(b"\n", start)
        lines.append((number, start, len(block) if end < 0 else end, held[start]))
        last = start
    return lines


__all__ = ["count", "find", "lines_at", "places_of"]
