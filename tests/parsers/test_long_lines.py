"""Lines too long to keep: answers that hold a whole prompt are read from their ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.cut import MAX_LINE, drop_middle, ends_of, json_object
from parsers.records import Request
from tests.parsers.reading import QUOTED, bytewise, join, read

TIMINGS = {"cache_n": 20, "prompt_n": 800, "prompt_ms": 400.5, "predicted_n": 90, "predicted_ms": 1800.0}
LONG = 400_000


def ollama(prompt: int) -> dict[str, Any]:
    """An answer of `/api/generate`: the context's tokens stand before what was measured."""
    return {
        "model": "llama3.2:3b",
        "created_at": "2026-08-20T16:10:03.5Z",
        "response": 'a "quoted" answer, {"total_duration":1}',
        "done": True,
        "done_reason": "stop",
        "context": list(range(100_000, 100_000 + prompt)),
        "total_duration": 9_043_500_667,
        "load_duration": 25_959_000,
        "prompt_eval_count": prompt,
        "prompt_eval_duration": 6_325_953_000,
        "eval_count": 90,
        "eval_duration": 2_659_871_000,
    }


def completion(prompt: str, **more: object) -> dict[str, Any]:
    """An answer of llama-server's `/completion`: the prompt stands before what was measured."""
    return {
        "content": "yes, and",
        "id_slot": 2,
        "stop": True,
        "model": "m.gguf",
        "tokens_evaluated": 820,
        "generation_settings": {"n_predict": 90, "stop": []},
        "prompt": prompt,
        "truncated": True,
        "stop_type": "limit",
        "tokens_cached": 909,
        "timings": TIMINGS,
        **more,
    }


def chat(content: str) -> dict[str, Any]:
    return {
        "choices": [{"finish_reason": "stop", "index": 0, "message": {"content": content}}],
        "created": 1_780_000_000,
        "model": "m.gguf",
        "object": "chat.completion",
        "usage": {
            "completion_tokens": 90,
            "prompt_tokens": 820,
            "prompt_tokens_details": {"cached_tokens": 20},
        },
        "id": "chatcmpl-1",
        "timings": TIMINGS,
    }


SPACED, TIGHT = (", ", ": "), (",", ":")


def line(body: dict[str, Any], separators: tuple[str, str] = TIGHT) -> bytes:
    return json.dumps(body, separators=separators).encode() + b"\n"


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (ollama(8), ollama(LONG // 7)),
        (completion("p"), completion("word " * (LONG // 5))),
        (completion("p"), completion(',"' * (LONG // 3))),
        (chat("c"), chat('say "hello", ' * (LONG // 13))),
    ],
    ids=["ollama", "completion", "quotes", "chat"],
)
@pytest.mark.parametrize("separators", [TIGHT, SPACED], ids=["tight", "spaced"])
@pytest.mark.parametrize("prefix", [b"", b"data: ", b"server-1  | "])
def test_a_long_answer_says_what_a_short_one_does(
    short: dict[str, Any], long: dict[str, Any], prefix: bytes, separators: tuple[str, str]
) -> None:
    data = prefix + line(long, separators)
    assert len(data) > LONG // 2
    [expected], [row] = read(prefix + line(short, separators)).requests, read(data).requests
    if "context" in long:
        expected.prompt_tokens = len(long["context"])
    if "choices" in long:
        expected.finish_reason = None
    assert row == Request(**{name: getattr(expected, name) for name in Request.__slots__})
    assert read(*(data[at : at + 5000] for at in range(0, len(data), 5000))).told() == read(data).told()


def test_what_an_answer_says_of_its_slot() -> None:
    [row] = read(line(completion("p"))).requests
    assert (row.slot, row.truncated, row.context_tokens, row.finish_reason) == (2, True, 909, "length")
    assert (row.prompt_tokens, row.cached_tokens) == (820, 20)


def test_a_chunk_with_a_long_prompt_is_not_over() -> None:
    chunk = completion("word " * (LONG // 5), stop=False, stop_type=None, id="a")
    log = read(line(chunk))
    assert log.requests == []
    assert log.stream.counts.incomplete_requests == 1


def test_a_prompt_that_quotes_an_answer_is_none() -> None:
    body = json.dumps(ollama(3)).encode() + json.dumps(completion("p")).encode()
    long = json.dumps({"prompt": body.decode() + "x" * LONG + body.decode()}, separators=(",", ":")).encode()
    quoted = b"Received request: prompt: '" + b"x" * LONG + b"\\n" + body + b"'\n"
    assert read(long + b"\n", quoted).rows == []


def test_log_lines_after_a_long_one_keep_their_place() -> None:
    data = line(completion("x" * (3 * MAX_LINE)))
    rows = read(data, join(QUOTED[:6])).requests
    assert [(row.line, row.offset) for row in rows] == [(1, 0), (6, len(data))]


@settings(max_examples=50, deadline=None)
@given(
    st.integers(-3, 3), st.sampled_from([MAX_LINE, 2 * MAX_LINE, 2 * MAX_LINE + 4]), st.integers(1, 40_000)
)
def test_a_line_that_comes_in_pieces_ends_alike(more: int, size: int, piece: int) -> None:
    whole = bytes(range(65, 91)) * (size // 26 + 1)
    whole = whole[: size + more]
    torn = bytearray()
    for at in range(0, len(whole), piece):
        torn += whole[at : at + piece]
        drop_middle(torn)
    torn += b"\n"
    drop_middle(torn)
    assert ends_of(bytes(torn).removesuffix(b"\n")) == ends_of(whole)
    assert len(torn) <= 2 * MAX_LINE + 5


MEMBERS = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=6,
)


@settings(max_examples=200, deadline=None)
@given(
    MEMBERS,
    MEMBERS,
    st.sampled_from(["x", '","', '{"a":1},', "[]}", "\\"]),
    st.sampled_from([TIGHT, SPACED]),
)
def test_only_true_members_are_read_from_the_ends(
    before: dict[str, Any], after: dict[str, Any], filler: str, separators: tuple[str, str]
) -> None:
    body = {**before, "\x00middle": filler * MAX_LINE, **after}
    found = json_object(ends_of(line(body, separators).removesuffix(b"\n"))) or {}
    assert all(body[name] == value for name, value in found.items())
    assert found.keys() >= {name for name in list(after)[1:] if name not in before and len(after) <= 6}


def test_byte_by_byte() -> None:
    data = line(completion("word " * (MAX_LINE // 4)))
    assert bytewise(data).told() == read(data).told() != []


@pytest.mark.parametrize("indent", [1, 2, 4, "\t"])
def test_an_answer_over_many_lines(indent: int | str) -> None:
    drafted = {**TIMINGS, "prompt_per_token_ms": 1e-05, "draft_n": 30, "draft_n_accepted": 20}
    both = [completion("p"), {**chat("c"), "timings": drafted}]
    data = "".join(json.dumps(body, indent=indent) + "\n" for body in both).encode()
    log = read(data)
    assert [(row.prefill_ms, row.prefill_tokens, row.prompt_tokens) for row in log.requests] == [
        (400.5, 800, 820),
        (400.5, 800, 820),
    ]
    assert [(row.output_tokens, row.draft_tokens) for row in log.requests] == [(90, None), (90, 30)]
    lines = data.splitlines()
    assert all(b'"timings"' in lines[row.first_line - 1] for row in log.requests)
    assert bytewise(data).told() == log.told()
