"""Numbers that can't be: their line or value is left out and counted, and everything else is read."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parsers import Tables
from parsers.formats.llama_cpp.units import size_bytes
from parsers.formats.possible import leave_out_impossible
from parsers.records import TABLES, Request
from tests.parsers.reading import Read, join, read

GOOD = [
    "0.01.500.000 I slot launch_slot_: id  0 | task 3 | processing task, is_child = 0",
    (
        "0.01.500.000 I slot   operator(): id  0 | task 3 | new prompt, n_ctx_slot = 8192, n_keep = 0, "
        "task.n_tokens = 500"
    ),
    "0.02.500.000 I slot print_timing: id  0 | task 3 | prompt eval time =     500.00 ms /   500 tokens (",
    "0.02.500.000 I slot print_timing: id  0 | task 3 |        eval time =     400.00 ms /    50 tokens (",
    "0.02.500.000 I slot print_timing: id  0 | task 3 |       total time =     900.00 ms /   550 tokens",
    "0.02.500.000 I slot      release: id  0 | task 3 | stop processing: n_tokens = 549, truncated = 0",
]
PERF = [
    "llama_perf_context_print: prompt eval time =      88.50 ms /    32 tokens (    2.77 ms per token,",
    "llama_perf_context_print:        eval time =     410.25 ms /    47 runs   (    8.73 ms per token,",
    "llama_perf_context_print:       total time =     520.75 ms /    79 tokens",
]
STATS = (
    "INFO 05-22 02:21:04 [loggers.py:229] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: "
    "12.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.3%"
)
TRUNCATING = (
    'time=2025-10-03T13:19:00.100+02:00 level=WARN source=runner.go:186 msg="truncating input prompt" '
    "limit=8192 prompt=14570 keep=5 new=8192"
)
HUGE = ("9" * 20, "9" * 400, "9" * 5000)


def whole(log: Read) -> Read:
    """Every row fits the tables, and every number in it can be."""
    tables = Tables()
    tables.extend(log.rows)
    assert sum(getattr(tables, name).height for name in TABLES) == len(log.rows)
    for row in log.rows:
        values = [getattr(row, f.name) for f in fields(row)]
        numbers = [v for v in values if isinstance(v, (int, float))]
        assert all(math.isfinite(v) and abs(v) <= 1 << 53 for v in numbers)
    return log


@pytest.mark.parametrize("number", ["5.0.0.00", ".", "...", *HUGE])
@pytest.mark.parametrize("old", ["500.00 ms", "400.00 ms", "900.00 ms", " 500 tokens", " 50 tokens"])
def test_a_timing_that_cannot_be_costs_its_request_alone(old: str, number: str) -> None:
    harmed = [line.replace(old, old.replace(old.split()[0], number)) for line in GOOD]
    later = [line.replace("task 3", "task 60").replace("0.0", "1.0") for line in GOOD]
    log = whole(read(join([*GOOD, *(line.replace("task 3", "task 30") for line in harmed), *later])))
    assert [row.request_id for row in log.requests if row.request_id != "30"] == ["3", "60"]
    assert all(row.kind == "generation" for row in log.requests)
    assert log.stream.counts.impossible_values or number not in HUGE


@pytest.mark.parametrize("number", HUGE)
@pytest.mark.parametrize(
    "line",
    [
        "0.00.500.000 I llama_context: n_ctx = {}",
        "0.00.500.000 I print_info: n_layer = {}",
        "0.00.500.000 I print_info: model params = {} B",
        "0.00.500.000 I print_info: file size   = {} GiB (4.89 BPW)",
        "0.00.500.000 I print_info: file size   = 4.5.8 GiB (4.89 BPW)",
        "0.00.500.000 I print_info: model params = 4.5.8 B",
        "0.00.500.000 I load_tensors: offloaded {}/33 layers to GPU",
        "0.00.500.000 I llama_kv_cache: size = {}.00 MiB ( 8192 cells, 32 layers, 1/1 seqs), K (f16): 1 MiB",
        "0.00.500.000 I llama_kv_cache: size = 10.00 MiB ( {} cells, 32 layers, 1/1 seqs), K (f16): 1 MiB",
        "0.00.500.000 I srv    load_model: initializing, n_slots = {}, n_ctx_slot = {}, kv_unified = 'false'",
        "0.00.500.000 I ggml_vulkan: {} = AMD Radeon RX 7900 XT (RADV NAVI31) (radv) | uma: 0 |",
        "0.00.500.000 I   - CUDA0 : NVIDIA GeForce RTX 4090 ({} MiB, 23000 MiB free)",
        "{}.00.500.000 I slot launch_slot_: id  1 | task 4 | processing task, is_child = 0",
        "0.01.500.000 I slot launch_slot_: id {} | task 4 | processing task, is_child = 0",
        "0.01.500.000 I slot launch_slot_: id 1 | task {} | processing task, is_child = 0",
        (
            "0.02.500.000 I srv    send_error: task id = 99, error: request ({} tokens) exceeds the "
            "available context size (8 tokens)"
        ),
    ],
)
def test_header_lines_of_llama_cpp(line: str, number: str) -> None:
    log = whole(read(join([line.replace("{}", number), *GOOD])))
    assert [row.prefill_ms for row in log.requests if row.request_id == "3"] == [500.0]
    for setup in log.stream.setups:
        facts = setup.model_dump(exclude={"origin", "source", "devices"}).values()
        assert all(not isinstance(fact, (int, float)) or abs(fact) <= 1 << 53 for fact in facts)


@pytest.mark.parametrize("number", HUGE)
@pytest.mark.parametrize(
    ("lines", "old"),
    [
        (PERF, "32"),
        (PERF, "88"),
        (["Llama.generate: 24 prefix-match hit, remaining 32 prompt tokens to eval", *PERF], "24"),
        ([STATS], "Running: 1"),
        ([STATS.replace("Avg prompt", "GPU KV cache size: 1 tokens, Avg prompt")], " 1 tokens"),
        ([STATS.split("] ")[0] + "] GPU KV cache size: 46,592 tokens", STATS], "46,592"),
        ([TRUNCATING], "14570"),
    ],
)
def test_other_engines(lines: list[str], old: str, number: str) -> None:
    new = old.replace(old.split()[-1 if old[0].isalpha() else 0], number)
    whole(read(join(line.replace(old, new) for line in lines)))


def test_commas_alone_are_no_number() -> None:
    commas = STATS.split("] ")[0] + "] GPU KV cache size: ,,, tokens"
    log = whole(read(join([STATS, commas, STATS])))
    assert len(log.intervals) == 2
    assert log.stream.counts.impossible_values == 1


@pytest.mark.parametrize(
    "clock", ["0001-01-01T00:00:00+02:00", "9999-12-31T23:59:59-02:00", "0000-01-01T00:00:00Z"]
)
def test_a_clock_at_the_edge_of_time_is_no_clock(clock: str) -> None:
    [row] = whole(read(join(f"{clock} stderr F {line}" for line in GOOD))).requests
    assert (row.prefill_ms, row.started_at) == (500.0, None)
    body = f'{{"model":"m","created_at":"{clock}","done":true,"total_duration":5000000000,"eval_count":4}}'
    [row] = whole(read(join([body]))).requests
    assert (row.total_ms, row.finished_at) == (5000.0, None)


def test_a_size_is_one_number() -> None:
    assert size_bytes(b"4.5.8 GiB") is None
    assert size_bytes(b"size = 92.10 MiB") == round(92.1 * (1 << 20))


NUMBERS = st.one_of(
    st.text("0123456789.,-", min_size=1, max_size=30), st.integers(0, 6000).map(lambda size: "7" * size)
)


@settings(deadline=None, max_examples=300)
@given(st.sampled_from([GOOD, PERF, [STATS], [TRUNCATING]]), st.integers(0, 60), NUMBERS)
@example(GOOD, 0, "9" * 300)
def test_any_number_anywhere(lines: list[str], which: int, number: str) -> None:
    """Each number of a log in turn becomes another text."""
    text = "\n".join(lines)
    places = [m.span() for m in re.finditer(r"\d[\d.]*", text)]
    begin, end = places[which % len(places)]
    whole(read(join([text[:begin] + number + text[end:], *GOOD])))


def spring(*clocks_and_text: str) -> list[str]:
    """A wall clock without a zone that is set forward by an hour."""
    return [f"2026-03-29 {line}" for line in clocks_and_text]


MLX = spring(
    "01:59:57,000 - INFO - Prompt Cache: 0 sequences, 0.00 GB",
    "03:00:02,000 - INFO - Prompt processing progress: 2048/2048",
)
LMDEPLOY = spring(
    "01:59:59,000 - lmdeploy - INFO - async_engine.py:1 - session=3, input_tokens=630, max_new_tokens=5",
    '03:00:02,001 - lmdeploy - INFO - async_engine.py:1 - session 3 finished, reason "stop", '
    "input_tokens 630, output_tokens 32",
)


@pytest.mark.parametrize("lines", [MLX, LMDEPLOY], ids=["mlx-lm", "lmdeploy"])
def test_a_clock_that_is_set_measures_nothing(lines: list[str]) -> None:
    [row] = read(join(lines)).requests
    assert (row.prefill_ms, row.ttft_ms, row.total_ms) == (None, None, None)
    [row] = read(join(line.replace(" 03:00:0", " 02:00:0") for line in lines)).requests
    assert 3000.0 <= (row.prefill_ms or row.total_ms or 0) <= 5000.0


def test_counts_that_contradict_each_other() -> None:
    head = "2026-01-05 06:14:20 | INFO     | app.utils.debug_logging:callback:120 | * "
    told = [
        "Total Input Tokens:  100",
        "Cached Tokens:       10",
        "Processed      50/50 tokens ( 25.00 tok/s)",
    ]
    ended = ["Generation Tokens: 11", "Generation Speed:  10.00 tokens/sec"]
    log = read(join(head + text for text in [*told, *ended]))
    [row] = log.requests
    assert (row.prompt_tokens, row.cached_tokens, row.prefill_tokens) == (None, None, 50)
    assert log.stream.counts.impossible_values == 1


@pytest.mark.parametrize("rate", ["-5.0", "1.0e+04", "1,234.0", "12.0.1"])
def test_a_rate_that_is_none(rate: str) -> None:
    [row] = read(join([STATS.replace("12.0", rate)])).intervals
    assert (row.prefill_tok_s, row.decode_tok_s, row.running) == (0.0, None, 1)


def released(**told: Any) -> tuple[Request, int]:
    """A request as it leaves, and how many of its values could not be."""
    row = Request(**told)
    return row, leave_out_impossible(row)


@pytest.mark.parametrize(
    ("told", "impossible", "left"),
    [
        ({"prefill_tokens": -5, "prefill_ms": 3.0}, 1, {"prefill_ms": 3.0}),
        ({"ttft_ms": 1_767_225_600_000.0, "output_tokens": 5}, 1, {"output_tokens": 5}),
        ({"cached_tokens": 900, "prompt_tokens": 3, "output_tokens": 5}, 1, {"output_tokens": 5}),
        ({"prefill_tokens": 50, "prompt_tokens": 49, "cached_tokens": 0}, 1, {"cached_tokens": 0}),
        ({"ttft_ms": 5000.0, "ttft_from": "arrival", "total_ms": 1000.0}, 1, {}),
        ({"ttft_ms": 1005.0, "total_ms": 1000.0}, 0, {"ttft_ms": 1005.0, "total_ms": 1000.0}),
        (
            {
                "started_at": datetime(2026, 1, 2, tzinfo=UTC),
                "finished_at": datetime(2026, 1, 1, tzinfo=UTC),
            },
            1,
            {},
        ),
    ],
)
def test_what_leaves_a_process(told: dict[str, Any], impossible: int, left: dict[str, Any]) -> None:
    row, count = released(**told)
    assert count == impossible
    assert {name: value for name in (*told, "ttft_from") if (value := getattr(row, name)) is not None} == left


@given(
    st.builds(
        Request, **{name: st.none() | st.integers(-9, 9) for name in ("prompt_tokens", "cached_tokens")}
    )
)
def test_a_part_is_no_more_than_its_whole(row: Request) -> None:
    leave_out_impossible(row)
    assert row.cached_tokens is None or 0 <= row.cached_tokens <= (row.prompt_tokens or 9)
