from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.formats.llama_perf import is_possible
from parsers.records import Event, Request
from parsers.stream import Stream

LOGS = Path(__file__).parents[1] / "logs" / "llama-cpp-python-0.3.36"
LOADED = "print_info: file type   = Q4_0\nllama_context: n_batch = 64\nModel metadata: {}\n"


def read(*chunks: bytes) -> tuple[Stream, list[Request], list[Event]]:
    stream = Stream("a.log")
    rows = [row for chunk in chunks for row in stream.feed(chunk)] + stream.close()
    requests = [row for row in rows if isinstance(row, Request)]
    return stream, requests, [row for row in rows if isinstance(row, Event)]


def block(prefill_ms: float, evaluated: int, decode_ms: float, runs: int, total_ms: float) -> str:
    name, rate = "llama_perf_context_print:", "(  1.00 tokens per second)"
    return (
        f"{name}        load time = {0.21:10.2f} ms\n"
        f"{name} prompt eval time = {prefill_ms:10.2f} ms / {evaluated:5d} tokens {rate}\n"
        f"{name}        eval time = {decode_ms:10.2f} ms / {runs:5d} runs   {rate}\n"
        f"{name}       total time = {total_ms:10.2f} ms / {evaluated + runs:5d} tokens\n"
        f"{name}    graphs reused = {runs:10d}\n"
    )


def truth(scenario: str) -> dict[str, Any]:
    lines = (LOGS / scenario / "ground_truth.jsonl").read_text().splitlines()
    return {answer["label"]: answer for answer in map(json.loads, lines)}


def test_the_verbose_log_agrees_with_its_clients() -> None:
    stream, requests, events = read((LOGS / "verbose_default" / "server.log").read_bytes())
    seen = truth("verbose_default")
    rows = dict(zip(["short0", "short1", "short2", "rag", "rag_again", "after"], requests, strict=True))

    usage = seen["short1"]["response"]["usage"]
    assert rows["short1"].prompt_tokens == usage["prompt_tokens"]
    assert rows["short1"].output_tokens == usage["completion_tokens"]
    for label in ("short0", "short2", "rag", "rag_again", "after"):
        answer = seen[label]
        silent = answer["finish_reason"] == "stop"  # the token that ends the answer has no text
        assert rows[label].output_tokens == answer["n_content_chunks"] + silent
        assert rows[label].total_ms is not None
        assert 0 < answer["total_ms"] - rows[label].total_ms < 60
    assert rows["rag_again"].cached_tokens == 480
    assert rows["rag_again"].prompt_tokens == rows["rag"].prompt_tokens == 481

    for label in ("short2", "after"):
        assert rows[label].ttft_ms is not None
        assert 0 < seen[label]["ttft_ms"] - rows[label].ttft_ms < 60
    for label in ("short0", "rag", "rag_again"):
        assert rows[label].ttft_ms is None
    assert stream.engine == "llama-cpp-python"
    assert stream.counts.impossible_values == 2
    assert (stream.counts.aborted_requests, stream.counts.failed_requests) == (1, 1)
    assert [event.kind for event in events] == ["context_exceeded", "aborted"]


def test_the_quiet_log_tells_the_engine_and_no_timings() -> None:
    stream, requests, events = read((LOGS / "quiet" / "server.log").read_bytes())
    assert stream.engine == stream.setups[0].engine == "llama-cpp-python"
    assert not requests
    assert [event.kind for event in events] == ["context_exceeded", "aborted"]
    assert events[0].detail == "a prompt of 2784 tokens exceeds the context of 2048"


def test_a_web_server_alone_is_nobody() -> None:
    stream, requests, events = read(
        b"INFO:     Started server process [398]\n"
        b'INFO:     127.0.0.1:43370 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
        b"Disconnected from client (via refresh/close) Address(host='127.0.0.1', port=43370)\n"
        b"INFO:     Finished server process [398]\n"
    )
    assert stream.engine is None
    assert not requests
    assert not events


@pytest.mark.parametrize(
    ("prefill_ms", "tokens", "step_ms", "rest_ms", "possible"),
    [
        (0.24, 457, 21.07, 5860.6, False),  # real: the clock was read before the work
        (0.05, 33, 27.27, 679.2, False),
        (0.0, 14, None, None, False),
        (192.95, 9, 23.0, 252.4, True),
        (636.37, 30, 261.06, 646.2, True),  # real: cores so busy that steps took ten times as long
        (95.0, 9, 9000.0, 97.0, True),  # busier still; the total agrees with it
        (53.51, 281, 12.25, 59.4, True),  # real: a GPU
        (40.0, 2000, 4.0, None, True),  # 200 times the rate of decode
        (40.0, 2000, 4.0, 4000.0, True),  # a slow reader of the stream makes the total long
        (7.0, 2000, 4.0, None, False),  # 1143 times
        (0.9, 12, 4.0, None, True),
        (0.9, 12, 4.0, 300.0, False),  # a quarter of a pass over the weights, and the total contradicts it
        (0.07, 12, 4.0, None, False),
        (3.44, 9, None, None, True),
        (0.3, 400, None, 900.0, False),
        (300.0, 50, None, 301.0, True),
    ],
)
def test_which_prefill_times_can_be_true(
    prefill_ms: float, tokens: int, step_ms: float | None, rest_ms: float | None, possible: bool
) -> None:
    assert is_possible(prefill_ms, tokens, step_ms, rest_ms) is possible


@given(
    prefill_ms=st.floats(0.01, 1e6),
    more=st.floats(1, 1e3),
    tokens=st.integers(2, 100_000),
    step_ms=st.none() | st.floats(0.1, 1e4),
    rest_ms=st.none() | st.floats(0.1, 1e7),
)
def test_a_longer_prefill_is_never_less_possible(
    prefill_ms: float, more: float, tokens: int, step_ms: float | None, rest_ms: float | None
) -> None:
    if is_possible(prefill_ms, tokens, step_ms, rest_ms):
        assert is_possible(prefill_ms * more, tokens, step_ms, rest_ms)


@given(
    asked=st.lists(
        st.tuples(st.integers(1, 500), st.integers(1, 300), st.integers(2, 40), st.booleans()), max_size=6
    ),
    every_piece_synced=st.booleans(),
    cuts=st.lists(st.integers(0, 5000), max_size=5),
)
def test_what_was_asked_is_what_is_read(
    asked: list[tuple[int, int, int, bool]], every_piece_synced: bool, cuts: list[int]
) -> None:
    """Requests as the binding books them: pieces of 64, a last piece of one token is a step."""
    log, finished = LOADED, []
    for cached, remaining, output, aborted in asked:
        log += f"Llama.generate: {cached} prefix-match hit, remaining {remaining} prompt tokens to eval\n"
        if aborted:
            continue
        lone = remaining == 1 or (every_piece_synced and remaining % 64 == 1)
        evaluated, runs = remaining - lone, output - 1 + lone
        prefill_ms, decode_ms = 7.0 * evaluated, 20.0 * runs
        log += block(prefill_ms, max(evaluated, 1), decode_ms, runs, prefill_ms + decode_ms + 2)
        finished.append((cached, cached + remaining, output, prefill_ms or None, decode_ms))
    data = log.encode()
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    stream, requests, events = read(*(data[a:b] for a, b in pairwise(edges)))
    assert [
        (r.cached_tokens, r.prompt_tokens, r.output_tokens, r.prefill_ms, r.decode_ms) for r in requests
    ] == finished
    cut_off = bool(asked and asked[-1][3])
    assert stream.counts.incomplete_requests == cut_off
    assert stream.counts.aborted_requests == len(events) == len(asked) - len(finished) - cut_off


def test_the_first_piece_is_believed_when_the_total_has_no_room_for_more() -> None:
    believed = block(1000.0, 200, 100.0, 5, 1103.0)
    missing = block(1000.0, 200, 100.0, 5, 1503.0)
    for log, prefill_ms in ((believed, 1000.0), (missing, None), (believed + missing, 1000.0)):
        *_, last = read((LOADED + log).encode())[1]
        assert last.prefill_ms == prefill_ms


def test_a_miss_is_only_told_where_a_hit_would_have_been() -> None:
    hit = "Llama.generate: 9 prefix-match hit, remaining 5 prompt tokens to eval\n"
    first, second = block(70.0, 10, 40.0, 2, 112.0), block(35.0, 5, 40.0, 2, 77.0)
    for head, cached, prompt in (("", None, None), (LOADED, 0, 10)):
        rows = read((head + first + hit + second).encode())[1]
        assert [(r.cached_tokens, r.prompt_tokens) for r in rows] == [(cached, prompt), (9, 14)]


@pytest.mark.parametrize("evaluated", [3, 6, 85])
def test_a_block_that_does_not_fit_its_hit_tells_nothing_of_the_prompt(evaluated: int) -> None:
    hit = "Llama.generate: 9 prefix-match hit, remaining 5 prompt tokens to eval\n"
    (row,) = read((LOADED + hit + block(7.0 * evaluated, evaluated, 40.0, 2, 700.0)).encode())[1]
    assert (row.cached_tokens, row.prompt_tokens, row.prefill_tokens, row.prefill_ms) == (None,) * 4
    assert (row.output_tokens, row.decode_ms, row.decode_steps, row.total_ms) == (None, 40.0, 2, 700.0)


def test_timing_lines_inside_text_are_no_requests() -> None:
    quoted = "".join(f"the log says {line}\n" for line in block(10.0, 5, 40.0, 3, 60.0).splitlines())
    stream, requests, _ = read(quoted.encode())
    assert not requests
    assert stream.engine is None
