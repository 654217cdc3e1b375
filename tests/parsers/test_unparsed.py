"""`--debug-unparsed` shows what lines look like, and nothing of what they say."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import FORMATS
from parsers.unparsed import DebugStream, Shapes, Vocabulary, shape_of
from tests.parsers.reading import QUOTED, join, read
from tests.parsers.scenarios import scenario

VOCABULARY = Vocabulary(FORMATS)


def shapes_of(*pieces: bytes) -> tuple[DebugStream, Shapes]:
    shapes = Shapes(FORMATS)
    stream = DebugStream(
        "log", engine=None, latest=datetime(2026, 6, 1, tzinfo=UTC), formats=FORMATS, shapes=shapes
    )
    for piece in pieces:
        stream.feed(piece)
    stream.close()
    return stream, shapes


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("prompt eval time =  12.34 ms /  5 tokens", "prompt eval time = N.N ms / N tokens"),
        ("[2026-03-02 10:00:00] gribble: 12ms, 34.5 tok/s", "[N-N-N N:N:N] …: Nms, N.N tok/s"),
        ('tokens = 5, prompt: "my secret eval time"', "tokens = N, prompt: …"),
        ("tokens = 5 in /home/jane/models/eval.gguf", "tokens = N …"),
        ("task 7c1ade03 took 5 ms", "task … N ms"),
        ("eval 中文 5 ms Привет", "eval … N ms …"),
        ("my password is $#%!-^&*()~@;:<>? 5 tokens", "… N tokens"),
        ("- ( = key . % 5 ms", "… % N ms"),
        ("user said: time to first token, stop, system prompt: load model failed 12 ms", "… token, … N ms"),
        ("llama-1  | eval time = 5 ms", "eval time = N ms"),
    ],
)
def test_shapes(line: str, shape: str) -> None:
    assert shape_of(line.encode(), VOCABULARY) == shape


SOME = [
    "eval",
    "secret",
    "12ms",
    '"eval',
    "it's",
    "my/plan",
    "tok/s",
    "key=hunter2",
    "0xBEEF",
    "zwölf",
    "ms",
    "`",
]


@given(st.one_of(st.text(max_size=200), st.lists(st.sampled_from(SOME), max_size=12).map(" ".join)))
def test_a_shape_holds_only_words_of_templates(text: str) -> None:
    shape = shape_of(text.encode("utf-8", "replace"), VOCABULARY)
    words = [word for word in re.findall(r"\w+", shape) if not re.fullmatch("N(ms|us|s)?", word)]
    assert [word for word in words if word.lower() not in VOCABULARY.words] == []
    assert not re.search(r"\d", shape)


def test_only_lines_that_are_not_read_are_shown() -> None:
    unread = (
        "slot print_timing: id  0 | task 9 | gribble time =  5.00 ms",
        "toyserve: 25 tokens in 3 ms",
        "toyserve: 26 tokens in 4 ms",
    )
    data = join([*QUOTED[:3], unread[0], *QUOTED[3:6], *unread[1:], "hello", "a line of 3 words"])
    stream, shapes = shapes_of(data)
    assert [(shape, seen.count, seen.line) for shape, seen in shapes.most(9)] == [
        ("…: N tokens … N ms", 2, 8),
        ("slot print_timing: id N | task N | … time = N.N ms", 1, 4),
    ]
    assert stream.counts == read(data).stream.counts
    halves = shapes_of(data[:150], data[150:])[1]
    assert halves.most(9) == shapes.most(9)


def test_memory_stays_bounded() -> None:
    shapes = Shapes(FORMATS)
    signs = "[]():=,./-%"
    for i in range(3 * Shapes.MOST):
        mixed = "5".join(signs[i // len(signs) ** place % len(signs)] for place in range(4))
        shapes.add(f"eval {mixed} 5 ms".encode(), "log", i)
        shapes.add(b"toyserve: 25 tokens", "log", i)
    assert len(shapes) <= Shapes.MOST
    assert shapes.most(1)[0][1].count == 3 * Shapes.MOST


def test_a_real_log_is_read_as_without_it() -> None:
    log = scenario("llama-server-b11434/a_short_verbose").log
    stream, _ = shapes_of(log)
    assert stream.counts == read(log).stream.counts
    assert stream.matched == read(log).stream.matched
