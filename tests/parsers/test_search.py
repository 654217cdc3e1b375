"""What a line is tried as depends on the line and on what is awake, not on how it woke."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.finding import find, lines_at, places_of
from parsers.formats import BUILTIN, llama_server
from parsers.search import Search

ANSWER = b'llama-1  | {"timings":{"cache_n":26,"prompt_n":127,"predicted_n":40}}\n'
LETTERS = st.lists(st.sampled_from(["a", "b", "\n", "aaaaaaa"]), max_size=60).map("".join).map(str.encode)
LITERALS = st.lists(st.sampled_from([b"a", b"ab", b"ba", b"aaaaaa", b"aaaaaaab"]), unique=True)


def needles_in(line: bytes, label: bytes | None) -> list[bytes]:
    """Those that are tried once a line with this label has woken llama-server."""
    search = Search(list(BUILTIN))
    assert not [found for _, _, _, found, _ in search.hits(line) if found]
    assert search.wake(llama_server.FORMAT, label, 0, 0)
    return [needle for _, _, _, found, _ in search.hits(line) for needle, _ in found]


def test_a_needle_by_which_another_container_may_wake_keeps_its_place() -> None:
    everywhere = needles_in(ANSWER, None)
    assert len(everywhere) > 1
    assert b'"timings":' in llama_server.FORMAT.identify
    assert b'"timings":' in everywhere
    assert needles_in(ANSWER, b"llama-1") == everywhere


def test_a_line_of_no_engine_is_not_looked_at() -> None:
    search = Search(list(BUILTIN))
    assert not list(search.hits(b"llama-1  | nothing that an engine says\n"))


@pytest.mark.parametrize("padding", [b"", b"c" * (1 << 13)], ids=["small", "large"])
@given(block=LETTERS, literals=LITERALS)
def test_the_lines_that_hold_literals_are_found(padding: bytes, block: bytes, literals: list[bytes]) -> None:
    block += padding
    found = lines_at([places_of(literal, block, [(0, None)]) for literal in literals], block)
    begun, expected = 0, []
    for number, line in enumerate(block.split(b"\n")):
        held = sum(1 << bit for bit, literal in enumerate(literals) if literal in line)
        if held:
            expected.append((number, begun, begun + len(line), held))
        begun += len(line) + 1
    assert list(found) == expected


def test_more_literals_are_told_apart_than_one_number_has_bits() -> None:
    literals = [b"<%d>" % number for number in range(2000)]
    block = b"\n".join(literals)
    lines = list(lines_at([places_of(literal, block, [(0, None)]) for literal in literals], block))
    assert [held for *_, held in lines] == [1 << number for number in range(2000)]
    assert [block[start:end] for _, start, end, _ in lines] == literals


def test_literals_are_looked_for_in_some_lines_only() -> None:
    block = b"ab\nab\nab\nab\n"
    assert places_of(b"ab", block, [(0, 3), (6, 9)]) == [0, 6]
    assert places_of(b"ab", block, [(0, 3), (6, 9)], first=3) == [6]


@pytest.mark.skipif(find is bytes.find, reason="stringzilla is not installed")
@given(st.binary(max_size=80), st.integers(0, 90), st.integers(0, 90), st.integers(0, 90))
def test_it_is_found_where_python_finds_it(block: bytes, at: int, first: int, last: int) -> None:
    literal = block[at : at + 4] or b"a"
    assert find(block, literal) == block.find(literal)
    assert find(block, literal, first) == block.find(literal, first)
    assert find(block, literal, first, last) == block.find(literal, first, last)
    assert find(block, literal, first, None) == block.find(literal, first, None)
