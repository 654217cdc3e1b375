"""Ollama's `timings` count the whole prompt; llama-server's, in the same log, do not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.reading import join, read


def answer(prompt: int, cached: int | None, **more: Any) -> dict[str, Any]:
    """The end of a stream, of a prompt whose evaluation took 8 ms."""
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1790000000,
        "system_fingerprint": "fp_ollama",
        "choices": [],
        "usage": {"prompt_tokens": prompt, **details, "completion_tokens": 11},
        "timings": {"prompt_n": prompt, "prompt_ms": 8, "predicted_n": 11, "predicted_ms": 83},
        **more,
    }


@given(st.integers(1, 1 << 20), st.none() | st.integers(0, 1 << 20))
def test_the_cached_part_is_never_a_rate(prompt: int, cached: int | None) -> None:
    [row] = read(join([json.dumps(answer(prompt, cached))])).requests
    evaluated = None if cached is None or cached > prompt else prompt - cached
    assert (row.engine, row.prefill_tokens, row.prefill_ms) == ("ollama", evaluated, 8.0)


@pytest.mark.parametrize("without", [("system_fingerprint",), ("system_fingerprint", "usage"), ("usage",)])
def test_an_answer_that_lost_a_part_gives_no_rate_of_the_whole_prompt(without: tuple[str, ...]) -> None:
    body = {name: value for name, value in answer(31, 30).items() if name not in without}
    [row] = read(join([json.dumps(body)])).requests
    assert row.engine == "ollama"
    assert row.prefill_tokens == (None if "usage" in without else 1)


def test_a_client_of_both_has_each_as_it_is() -> None:
    timings: dict[str, Any] = {"prompt_n": 52, "prompt_ms": 101.5, "predicted_n": 100, "predicted_ms": 990.25}
    old: dict[str, Any] = {
        "id": "a",
        "choices": [{"finish_reason": "stop"}],
        "usage": {"prompt_tokens": 60},
        "timings": timings,
    }
    new = {**old, "id": "b", "timings": {**timings, "cache_n": 8}}
    rows = read(join([json.dumps(body) for body in (old, answer(31, 30), new)])).requests
    told = sorted((row.line, row.engine, row.cached_tokens, row.prefill_tokens) for row in rows)
    assert told == [(1, "llama-server", 8, 52), (2, "ollama", 30, 1), (3, "llama-server", 8, 52)]


def test_an_id_comes_again() -> None:
    bodies = [answer(31, 30), answer(31, 30), answer(31, 30, created=1790000001)]
    assert len(read(join([json.dumps(body) for body in bodies])).requests) == 2
