"""What counts lines counts as Python does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from parsers.finding import count


@given(st.lists(st.sampled_from([b"a", b"\n", b"\0", b"\n" * 70, b"x" * 130])))
def test_newlines_are_counted(pieces: list[bytes]) -> None:
    block = b"".join(pieces)
    assert count(block, b"\n") == block.count(b"\n")
