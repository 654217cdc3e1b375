"""What a line is tried as depends on the line and on what is awake, not on how it woke."""

from __future__ import annotations

from parsers.formats import BUILTIN, llama_server
from parsers.search import Search

ANSWER = b'llama-1  | {"timings":{"cache_n":26,"prompt_n":127,"predicted_n":40}}\n'


def needles_in(line: bytes, label: bytes | None) -> list[bytes]:
    """Those that are tried once a line with this label has woken llama-server."""
    search = Search(list(BUILTIN))
    assert not [found for _, _, found, _ in search.hits(line) if found]
    assert search.wake(llama_server.FORMAT, label, 0, 0)
    return [needle for _, _, found, _ in search.hits(line) for needle, _ in found]


def test_a_needle_by_which_another_container_may_wake_keeps_its_place() -> None:
    everywhere = needles_in(ANSWER, None)
    assert len(everywhere) > 1
    assert b'"timings":' in llama_server.FORMAT.identify
    assert b'"timings":' in everywhere
    assert needles_in(ANSWER, b"llama-1") == everywhere


def test_a_line_of_no_engine_is_not_looked_at() -> None:
    search = Search(list(BUILTIN))
    assert not list(search.hits(b"llama-1  | nothing that an engine says\n"))
