"""Lines of the llama family whose numbers contradict each other, and blocks that are another's."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.formats.possible import leave_out_impossible
from parsers.formats.rates import fits
from parsers.records import Request
from tests.parsers.reading import join, read

BARE = [
    "prompt eval time =     310.42 ms /    41 tokens (    7.57 ms per token,   132.08 tokens per second)",
    "       eval time =    1501.07 ms /    25 tokens (   60.04 ms per token,    16.65 tokens per second)",
    "      total time =    1811.49 ms /    66 tokens",
]
NEXT = "prompt eval time =     102.90 ms /     9 tokens (   11.43 ms per token,    87.46 tokens per second)"
LAUNCH = "slot launch_slot_: id  0 | task 0 | processing task"
SLOT = "slot print_timing: id  0 | task 0 | "
RELEASE = "slot      release: id  0 | task 0 | stop processing: n_tokens = 65, truncated = 0"
PERF = [
    "prompt eval time =    1203.50 ms /   600 tokens (    2.01 ms per token,   498.55 tokens per second)",
    "       eval time =    2981.00 ms /    99 runs   (   30.11 ms per token,    33.21 tokens per second)",
    "      total time =    4201.00 ms /   699 tokens",
]


def behind(head: str, lines: list[str]) -> list[str]:
    return [head + line for line in lines]


def numbers(row: Request) -> tuple[object, ...]:
    return row.prefill_ms, row.prefill_tokens, row.decode_ms, row.output_tokens, row.total_ms


def test_a_block_without_a_slot_is_told_once() -> None:
    log = read(join([*BARE, NEXT, LAUNCH]))
    assert [numbers(row) for row in log.requests] == [(310.42, 41, 1501.07, 25, 1811.49)]
    assert log.stream.counts.incomplete_requests == 2
    log = read(join([*BARE, *BARE, LAUNCH]))
    assert len(log.requests) == 2


@given(st.integers(0, 9_999_999), st.integers(1, 99_999), st.booleans())
def test_what_llama_cpp_prints_agrees(hundredths: int, tokens: int, less: bool) -> None:
    ms, counted = hundredths / 100, max(tokens - less, 1)
    exact = ms + 0.0049 * (hundredths % 2 * 2 - 1) if ms else 0.0
    rate = f"{1000 / exact * counted:.2f}".encode() if exact > 0 else None
    assert fits(counted, ms, rate)
    if rate is not None and ms > 10 and tokens > 1:
        assert not fits(2 * counted, ms, rate)


@pytest.mark.parametrize(
    ("line", "old", "new", "lost"),
    [
        (0, "310.42 ms", "900.00 ms", 0),
        (0, "132.08 tok", "999.11 tok", 0),
        (0, "   41 tokens", "  410 tokens", 0),
        (1, "1501.07 ms", "  50.07 ms", 2),
        (1, " 16.65 tok", " 99.65 tok", 2),
    ],
)
@pytest.mark.parametrize("bare", [True, False])
def test_a_rate_that_contradicts_its_own_line(line: int, old: str, new: str, lost: int, bare: bool) -> None:
    lines = BARE.copy()
    lines[line] = lines[line].replace(old, new)
    told = lines if bare else [LAUNCH, *behind(SLOT, lines), RELEASE]
    log = read(join(told))
    expected: list[object] = [310.42, 41, 1501.07, 25, 1811.49]
    expected[lost : lost + 2] = None, None
    [row] = log.requests
    assert numbers(row) == tuple(expected)
    assert (row.ttft_ms is None) == (lost == 0)
    assert row.cached_tokens is None
    assert log.stream.counts.impossible_values == 1


def test_a_decode_rated_without_its_first_token_is_true() -> None:
    lines = [BARE[0], BARE[1].replace("60.04 ms", "62.54 ms").replace("16.65 tok", "15.99 tok"), BARE[2]]
    log = read(join(lines))
    assert [row.output_tokens for row in log.requests] == [25]
    assert log.stream.counts.impossible_values == 0


def test_phases_longer_than_the_total() -> None:
    log = read(join([BARE[0], BARE[1], BARE[2].replace("1811.49", " 811.49")]))
    [row] = log.requests
    assert numbers(row) == (None, 41, None, 25, None)
    assert (row.ttft_ms, row.ttft_from) == (None, None)
    assert log.stream.counts.impossible_values == 1


@pytest.mark.parametrize("name", ["llama_perf_context_print", "llama_print_timings", "common_perf_print"])
@pytest.mark.parametrize(
    ("line", "old", "new", "expected"),
    [
        (0, "1203.50", "4203.50", (None, None, 2981.0, None, None)),
        (1, " 99 runs", "990 runs", (1203.5, 600, None, None, None)),
        (2, "4201.00", "3470.00", (None, None, None, None, None)),
    ],
)
def test_libllamas_block(name: str, line: int, old: str, new: str, expected: tuple[object, ...]) -> None:
    lines = PERF.copy()
    lines[line] = lines[line].replace(old, new)
    log = read(join(behind(f"{name}: ", lines)))
    assert [numbers(row) for row in log.requests] == [expected]
    assert log.stream.counts.impossible_values == 1


def test_blocks_of_two_spellings_are_two() -> None:
    torn = behind("llama_perf_context_print: ", PERF)[:1] + behind("llama_print_timings: ", PERF)[1:]
    log = read(join(torn))
    assert not log.requests
    assert log.stream.counts.incomplete_requests == 2


def test_a_block_after_another_programs_start_says_nothing_of_a_cache() -> None:
    hit = "Llama.generate: 1 prefix-match hit, remaining 600 prompt tokens to eval"
    block = behind("llama_perf_context_print: ", PERF)
    log = read(join([hit, *block, hit, "Welcome to KoboldCpp - Version 1.90.2", *block]))
    assert [(row.cached_tokens, row.prompt_tokens) for row in log.requests] == [(1, 601), (None, None)]


def test_an_answers_timings() -> None:
    timings = {"prompt_n": 35, "prompt_ms": 70.5, "prompt_per_second": 496.4}
    timings |= {"predicted_n": 64, "predicted_ms": 1260.5, "predicted_per_second": 50.8}
    good = {"content": "x", "id_slot": 0, "timings": timings}
    bad = good | {"timings": timings | {"prompt_ms": 493.5}}
    log = read(join([json.dumps(good), json.dumps(bad)]))
    assert [numbers(row) for row in log.requests] == [
        (70.5, 35, 1260.5, 64, 1331.0),
        (None, None, 1260.5, 64, None),
    ]
    assert log.stream.counts.impossible_values == 1


COUNTED = "[09:15:06] CtxLimit:700/4096, Amt:100/120, Init:0.02s, Process:1.21s (495.87T/s), "
COUNTED += "Generate:3.02s (33.11T/s), Total:4.23s (23.64T/s)"


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("", "", True),
        ("33.11T/s)", "39.74T/s)", True),
        ("Amt:100/", "Amt:703/", False),
        ("Generate:3.02s", "Generate:1.02s", False),
    ],
)
def test_koboldcpp(old: str, new: str, kept: bool) -> None:
    """The rate may be that of the longest answer (koboldcpp#852)."""
    log = read(join(["Welcome to KoboldCpp - Version 1.90.2", COUNTED.replace(old, new) if old else COUNTED]))
    assert [row.output_tokens for row in log.requests] == [100 if kept else None]
    assert log.stream.counts.impossible_values == (not kept)


@pytest.mark.parametrize("prefill", ["148.4s", "37.6s"])
def test_koboldcpps_phases_fit_in_its_total(prefill: str) -> None:
    phases = f"Processing:{prefill} (18ms/T), Generation:16.3s (163ms/T)"
    log = read(join([f"ContextLimit: 1280/2048, {phases}, Total:37.5s (2.7T/s)"]))
    assert [(row.prefill_ms, row.decode_ms, row.total_ms) for row in log.requests] == [(None, None, None)]


def test_cortex() -> None:
    lines = [
        "prompt eval time = 1212.41ms / 23 tokens (52.7135 ms per token, 18.9705 tokens per second)",
        "       eval time = 3194.22 ms / 79 runs   (40.4332 ms per token, 24.7322 tokens per second)",
        "      total time = 4406.63 ms",
    ]
    lines = behind("PrintTimings: ", lines)
    assert len(read(join(lines)).requests) == 1
    log = read(join([lines[0], lines[1].replace(" 79 runs", " 556 runs"), lines[2]]))
    assert not log.requests
    assert (log.stream.counts.impossible_values, log.stream.counts.incomplete_requests) == (1, 1)


def test_parts_and_whole() -> None:
    row = Request(prefill_ms=100.0, decode_ms=90.0, total_ms=120.0, ttft_ms=100.0, ttft_from="slot")
    assert leave_out_impossible(row) == 1
    assert (row.prefill_ms, row.decode_ms, row.total_ms, row.ttft_ms, row.ttft_from) == (None,) * 5
    row = Request(prefill_ms=100.0, decode_ms=90.0, total_ms=185.0)
    assert leave_out_impossible(row) == 0


def test_a_quoted_block_does_not_end_a_prompts_text() -> None:
    """text-generation-webui prints the prompt raw (`--verbose`)."""
    stats = "INFO 11-29 19:39:27 [loggers.py:257] Engine 000: Avg prompt throughput: 100.0 tokens/s, "
    stats += "Avg generation throughput: 40.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, "
    stats += "GPU KV cache usage: 1.0%"
    log = read(
        join(["16:20:31-123456 INFO     PROMPT=", "why", *behind("llama_perf_context_print: ", PERF), stats])
    )
    assert not log.intervals
