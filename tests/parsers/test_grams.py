"""The filter over literals never misses one, and seldom sees one that is not there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.formats import FORMATS
from parsers.grams import _AT_ONCE, _RUN, Literals
from tests.parsers.scenarios import scenario

NEEDLES = {line.needle for fmt in FORMATS for line in fmt.lines} | {
    word for fmt in FORMATS for word in fmt.identify
}

ALL = Literals(NEEDLES)

PADDING = (b"", bytes(1 << 16))
"""A small block is asked otherwise than a large one."""


@pytest.mark.parametrize("padding", PADDING, ids=["small", "large"])
@given(block=st.binary(max_size=300), at=st.integers(0, 300), size=st.integers(0, 40))
def test_what_is_there_is_seen(padding: bytes, block: bytes, at: int, size: int) -> None:
    literal = block[at : at + size]
    assert literal in Literals([b"abcdefgh", literal, b"no"]).maybe_in(block + padding)


@given(st.integers(-60, 60), st.integers(0, 3), st.sampled_from(sorted(NEEDLES, key=len)))
def test_what_is_there_is_seen_wherever_it_begins(near: int, after: int, literal: bytes) -> None:
    """Around the place up to which a large block is hashed at once."""
    block = bytes(_AT_ONCE * _RUN + near) + literal + bytes(after)
    assert literal in ALL.maybe_in(block)
    assert literal in ALL.maybe_in(block[-(len(literal) + after + 60) :])


def test_what_is_not_there_is_seldom_seen() -> None:
    block = scenario("llama-server-b11434/j_killed_midwrite").log[:15_000]
    there = {needle for needle in NEEDLES if needle in block}
    assert ALL.maybe_in(block) == there
    seen = ALL.maybe_in(block + PADDING[1])
    assert there <= seen
    assert len(seen - there) <= len(NEEDLES) // 10


def test_no_literals_are_in_nothing() -> None:
    assert not Literals([]).maybe_in(b"abcdefgh")
    assert not Literals([]).maybe_in(PADDING[1])
