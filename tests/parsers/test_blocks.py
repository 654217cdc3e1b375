"""Blocks hold whole lines, and know where each of them stood, wherever the bytes were cut."""

from __future__ import annotations

import codecs
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.blocks import Blocks
from parsers.cut import MAX_LINE, ends_of

if TYPE_CHECKING:
    from parsers.blocks import Block

LINES = st.lists(st.text("ab\x85\u20ac\U0001f600", max_size=6), max_size=8).map("\n".join)
CUTS = st.lists(st.integers(0, 200), max_size=6)


def read(data: bytes, cuts: list[int]) -> tuple[Blocks, list[Block]]:
    """Feed the bytes in pieces."""
    blocks = Blocks()
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    found = [block for first, last in pairwise(places) for block in blocks.feed(data[first:last])]
    return blocks, found + blocks.close()


@pytest.mark.parametrize(
    ("mark", "encoding"), [(b"", "utf-8"), (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le")]
)
@given(text=LINES, cuts=CUTS)
def test_each_block_knows_where_it_stands(mark: bytes, encoding: str, text: str, cuts: list[int]) -> None:
    data = mark + text.encode(encoding)
    blocks, found = read(data, cuts)
    assert b"".join(block.text for block in found).decode() == text
    assert blocks.lines == len(text.split("\n")) - (text == "" or text.endswith("\n"))
    offset, number = len(mark), 1
    for block in found:
        assert (block.offset, block.number) == (offset, number)
        assert block.text.endswith(b"\n") or block is found[-1]
        offset += len(block.text.decode().encode(encoding))
        number += block.text.count(b"\n")


def test_a_torn_line_begins_the_next_block() -> None:
    blocks = Blocks()
    assert [block.text for block in blocks.feed(b"one\ntw")] == [b"one\n"]
    assert [block.text for block in blocks.feed(b"o\nthree\nfo")] == [b"two\nthree\n"]
    (last,) = blocks.feed(b"ur\n")
    assert (last.text, last.number, last.offset) == (b"four\n", 4, 14)


@given(
    st.integers(MAX_LINE - 2, 4 * MAX_LINE), st.sampled_from([MAX_LINE - 1, MAX_LINE, MAX_LINE + 1, 100_000])
)
def test_of_a_long_line_both_ends_are_kept(size: int, piece: int) -> None:
    line = bytes(range(32, 127)) * (1 + size // 95)
    data = b"first\n" + line[:size] + b"\nlast\n"
    blocks = Blocks()
    found = [block for at in range(0, len(data), piece) for block in blocks.feed(data[at : at + piece])]
    kept = b"".join(block.text for block in found)[len(b"first\n") : -len(b"\nlast\n")]
    assert ends_of(kept) == ends_of(line[:size])
    assert len(kept) <= 3 * MAX_LINE
    assert found[-1].offset_of(found[-1].text.index(b"last")) == data.index(b"last")
    assert found[-1].number + found[-1].text.count(b"\n") - 1 == 3
