"""The filter over literals never misses one, and seldom sees one that is not there."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from parsers.formats import FORMATS
from parsers.grams import Literals
from tests.parsers.scenarios import scenario

NEEDLES = {line.needle for fmt in FORMATS for line in fmt.lines} | {
    word for fmt in FORMATS for word in fmt.identify
}


@given(st.binary(max_size=300), st.integers(0, 300), st.integers(0, 40))
def test_what_is_there_is_seen(block: bytes, at: int, size: int) -> None:
    literal = block[at : at + size]
    assert literal in Literals([b"abcdefgh", literal, b"no"]).maybe_in(block)


def test_what_is_not_there_is_seldom_seen() -> None:
    block = scenario("llama-server-b11434/j_killed_midwrite").log
    seen = Literals(NEEDLES).maybe_in(block)
    there = {needle for needle in NEEDLES if needle in block}
    assert there <= seen
    assert len(seen - there) <= len(NEEDLES) // 10
