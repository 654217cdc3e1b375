"""Events come out the same however the stream is cut."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from advisor.streamed import END, error_of, events

STREAM = (
    b": a comment\r\n\r\n"
    b'data: {"a": 1}\r\n\r\n'
    b'event: more\nid: 7\ndata:{"b":\ndata: "\xc3\xa9"}\n\n'
    b"data: {broken\n\n"
    b'{"line": 2}\n'
    b"data: [DONE]\n\n"
    b'data: {"last": true}'
)
DATA = [{"a": 1}, {"b": "\u00e9"}, None, {"line": 2}, END, {"last": True}]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_however_it_is_cut(cuts: list[int]) -> None:
    at = [0, *sorted(cuts), len(STREAM)]
    came = list(events(STREAM[a:b] for a, b in pairwise(at)))
    assert [event.data for event in came] == DATA
    stamps = [event.at_s for event in came]
    assert stamps == sorted(stamps)


def test_errors_as_engines_say_them() -> None:
    assert error_of({"error": {"message": "no memory."}}) == "no memory"
    assert error_of({"error": "no\x1b[31m memory"}) == "no memory"
    assert error_of({"detail": "Not Found"}) == "Not Found"
    assert error_of({"object": "error", "message": "too long"}) == "too long"
    silent: list[object] = [None, [], {}, {"error": 3}, {"error": {"message": ""}}]
    for said in silent:
        assert error_of(said) is None
