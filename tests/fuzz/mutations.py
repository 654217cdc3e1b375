"""Inputs near the ones that a target begins with, for where no coverage guides the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from tests.fuzz.targets import Target

_PLACE = st.integers(0, 1 << 16)


def inputs(target: Target) -> st.SearchStrategy[bytes]:
    """Seeds of the target, with some of their bytes changed, doubled, lost or replaced by its words."""
    words = [*sorted(target.words()), b"\x00", b"\xff", b"\n"]
    edit = st.tuples(_PLACE, _PLACE, st.one_of(st.sampled_from(words), st.binary(max_size=4)))
    edits = st.lists(edit, max_size=6)
    near = st.builds(_edited, st.sampled_from(target.seeds()), edits)
    return st.one_of(near, near, st.binary(max_size=target.longest)).map(lambda data: data[: target.longest])


def _edited(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    for begin, size, put in edits:
        at = begin % (len(data) + 1)
        end = at + size % 9 if size % 3 else at
        data = data[:at] + (data[end : 2 * end - at] if size % 7 == 0 else put) + data[end:]
    return data
