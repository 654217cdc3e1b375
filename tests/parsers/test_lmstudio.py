"""LM Studio around the engines it runs: whose rows they are, and which model they are for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import Stream
from parsers.records import Request
from tests.parsers.reading import join, read
from tests.parsers.scenarios import scenario
from tests.parsers.test_samples import SAMPLES

LLAMA = scenario("llama-server-b11434/a_short_default").log
LOGS = {name: (SAMPLES / f"lmstudio-{name}.log").read_bytes() for name in ("0.3", "0.4", "0.4.15", "mlx")}


@pytest.mark.parametrize("name", LOGS)
def test_llama_server_before_and_after_keeps_its_name(name: str) -> None:
    alone, server = len(read(LOGS[name]).requests), len(read(LLAMA).requests)
    for log in (LOGS[name] + LLAMA, LLAMA + LOGS[name]):
        engines = [row.engine for row in read(log).requests]
        assert (engines.count("lmstudio"), engines.count("llama-server")) == (alone, server)


@pytest.mark.parametrize("name", LOGS)
def test_the_engine_asked_for_brings_what_runs_inside(name: str) -> None:
    stream = Stream("log", engine="lmstudio")
    rows = stream.feed(LOGS[name]) + stream.close()
    assert [row for row in rows if isinstance(row, Request)] == read(LOGS[name]).requests


def test_each_request_has_the_setup_of_its_own_model() -> None:
    log = read(LOGS["0.4"])
    contexts = [log.stream.setup_of_run[row.run].context_total for row in log.requests]
    assert [(row.model, context) for row, context in zip(log.requests, contexts, strict=True)] == [
        ("qwen/qwen3.6-27b", 4096),
        ("google/gemma-4-4b", 8192),
        ("qwen/qwen3.6-27b", 4096),
    ]


def test_requests_of_two_models_at_once_are_of_neither() -> None:
    lines = LOGS["0.4"].decode().splitlines()
    second = next(n for n, line in enumerate(lines) if "[google/gemma-4-4b] Running" in line)
    lines.insert(second + 1, lines[second].replace("google/gemma-4-4b", "qwen/qwen3.6-27b"))
    assert [row.model for row in read(join(lines)).requests][1] not in (
        "google/gemma-4-4b",
        "qwen/qwen3.6-27b",
    )


def test_a_clock_that_goes_back_and_forth_is_that_of_two_models() -> None:
    def request(clock: str, task: int) -> list[str]:
        timing = f"{clock}.200.000 I slot print_timing: id  0 | task {task} |"
        release = f"{clock}.200.003 I slot      release: id  0 | task {task} | stop processing:"
        return [
            f"{clock}.100.000 I slot launch_slot_: id  0 | task {task} | processing task, is_child = 0",
            f"{timing} prompt eval time =      58.72 ms /    23 tokens (    2.55 ms per token,",
            f"{timing}        eval time =      30.00 ms /     4 tokens (    7.50 ms per token,",
            f"{timing}       total time =      88.72 ms /    27 tokens",
            f"{release} n_tokens = 26, truncated = 0",
        ]

    first, second = request("9.00", 7), request("1.00", 2)
    crossed = ["[LM STUDIO SERVER] Server started", first[0], second[0], *first[1:], *second[1:]]
    log = read(join(crossed))
    assert [(row.engine, row.request_id) for row in log.requests] == [("lmstudio", "7"), ("lmstudio", "2")]
    assert log.stream.counts.incomplete_requests == 0


@given(
    total=st.integers(2, 3_600_000_000),
    share=st.floats(0, 1),
    output=st.integers(2, 100_000),
)
def test_the_rest_of_the_total_is_the_answers_time(total: int, share: float, output: int) -> None:
    total_s, ttft_s = total / 1e6, round(total * share) / 1e6
    log = read(
        b'{"data":{"type":"llm.prediction.output","output":"","stats":{"stopReason":"eosFound",'
        b'"timeToFirstTokenSec":%f,"totalTimeSec":%f,"predictedTokensCount":%d}}}' % (ttft_s, total_s, output)
    )
    [row] = log.requests
    assert row.total_ms == pytest.approx(1000 * total_s, abs=1e-3)
    assert (row.decode_ms or 0.0) == pytest.approx(1000 * (total_s - ttft_s), abs=2e-3)
    assert row.decode_steps == output - 1


@pytest.mark.parametrize(
    ("rate", "expected"),
    [("50.0", (2000.0, 100)), ("49.5", (2000.0, 99)), ("47.0", (None, None)), ("53.0", (None, None))],
    ids=["of all tokens", "of those after the first", "too low", "too high"],
)
def test_a_rate_that_fits_no_count_leaves_the_time_out(
    rate: str, expected: tuple[float | None, int | None]
) -> None:
    log = read(
        b'{"usage":{"prompt_tokens":9,"completion_tokens":100},"stats":{"tokens_per_second":%s,'
        b'"time_to_first_token":0.5,"generation_time":2.0,"stop_reason":"eosFound"}}' % rate.encode()
    )
    [row] = log.requests
    assert (row.decode_ms, row.decode_steps) == expected
    assert log.stream.counts.impossible_values == (expected[0] is None)


def test_a_prompt_after_an_answer_is_not_its_prompt() -> None:
    app = "[2026-09-19 10:01:03][INFO][m] "
    restored = (
        "[DEBUG] Prompt cache restore: cached_tokens=256 uncached_tokens=103 lifetime_efficiency=66.83%"
    )
    answer = [f"{app}Generated prediction:  {{", "  },", '    "prompt_tokens": 120,', "}"]
    asked = [f"{app}Running chat completion on conversation with 2 messages.", restored]
    stream = Stream("log", engine="lmstudio")
    assert stream.feed(join([*answer, *asked, answer[2]])) + stream.close() == []
