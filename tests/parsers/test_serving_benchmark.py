"""Printed results of benchmarks: cut or mixed with other lines, they say nothing but what stands there."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers import Stream
from tests.parsers.reading import join, lines_of, read
from tests.parsers.test_samples import LOGS, SAMPLES

NAMES = ("vllm-bench-block", "sglang-bench-block", "aiperf-csv", "aiperf-table", "genai-perf-csv")
PRINTED = [log for log in LOGS if log.stem in (*NAMES, "genai-perf-table", "guidellm-csv")]
BLOCK = (
    "============ Serving Benchmark Result ============",
    "Successful requests:                     10        ",
    "Benchmark duration (s):                  12.50     ",
    "Total input tokens:                      2000      ",
    "Total generated tokens:                  510       ",
    "---------------Time to First Token----------------",
    "Mean TTFT (ms):                          80.25     ",
    "---------------Inter-token Latency----------------",
    "Mean ITL (ms):                           12.00     ",
    "----------------End-to-end Latency----------------",
    "Mean E2EL (ms):                          680.25    ",
    "==================================================",
)


def told(data: bytes) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if v is not None} for row in read(data).told()]


def changed(**values: str) -> bytes:
    """The block with other values for the lines that begin so."""
    lines = []
    for line in BLOCK:
        name = next((key for key in values if line.startswith(key.replace("_", " "))), None)
        lines.append(f"{line[:41]}{values[name]:<10}" if name else line)
    return join(lines)


def test_a_block() -> None:
    (row,) = read(join(BLOCK)).aggregates
    assert (row.engine, row.requests, row.ttft_ms, row.total_ms) == ("vllm-bench", 10, 802.5, 6802.5)
    assert (row.decode_ms, row.decode_steps, row.span_ms) == (6000.0, 500, 12500.0)


@pytest.mark.parametrize(
    ("values", "known"),
    [
        ({"Mean_TTFT": "nan"}, {"ttft_ms": None, "total_ms": 6802.5, "decode_ms": None}),
        ({"Mean_TTFT": "0.00"}, {"ttft_ms": None, "total_ms": 6802.5, "decode_ms": None}),
        ({"Mean_TTFT": "inf"}, {"ttft_ms": None, "decode_ms": None}),
        ({"Mean_E2EL": "nan"}, {"ttft_ms": 802.5, "total_ms": None, "decode_ms": None}),
        ({"Mean_ITL": "0.00"}, {"ttft_ms": None, "ttft_from": None, "decode_ms": None, "total_ms": 6802.5}),
        ({"Mean_TTFT": "680.25"}, {"ttft_ms": None, "decode_ms": None}),
        ({"Mean_TTFT": "990.00"}, {"ttft_ms": None, "total_ms": None, "decode_ms": None}),
        ({"Mean_ITL": "0.00", "Total_generated": "10"}, {"ttft_ms": 802.5, "total_ms": 6802.5}),
        ({"Total_generated": "4"}, {"decode_ms": 6000.0, "decode_steps": None}),
    ],
)
def test_values_that_are_none(values: dict[str, str], known: dict[str, Any]) -> None:
    (row,) = read(changed(**values)).aggregates
    assert {name: getattr(row, name) for name in known} == known


@pytest.mark.parametrize("values", [{"Successful": "0"}, {"Successful": "nan"}])
def test_no_request_no_row(values: dict[str, str]) -> None:
    assert not read(changed(**values)).rows


def test_lines_of_a_server_between() -> None:
    server = 'INFO:     127.0.0.1:50000 - "POST /v1/completions HTTP/1.1" 200 OK'
    mixed = [line for pair in zip(BLOCK, [server] * len(BLOCK), strict=True) for line in pair]
    assert told(join(mixed)) == told(join(BLOCK))


def test_a_block_in_a_prompt_is_text() -> None:
    quoted = "\\n".join(BLOCK)
    line = f"INFO 11-14 10:00:00 logger.py:40] Received request cmpl-1: prompt: '{quoted}', params: x"
    assert not read(join([line, *BLOCK[1:]])).aggregates


@pytest.mark.parametrize("log", PRINTED, ids=lambda path: path.stem)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_cut_or_with_a_line_less_nothing_is_invented(log: Any, data: st.DataObject) -> None:
    """Each value of a row that is left is a value of a row of the whole."""
    lines = lines_of(log.read_bytes())
    at = data.draw(st.integers(0, len(lines) - 1))
    kept = lines[:at] if data.draw(st.booleans()) else lines[:at] + lines[at + 1 :]
    whole, found = read(b"".join(lines)).aggregates, read(b"".join(kept)).aggregates
    assert len(found) <= len(whole)
    stated = {name for row in whole for name in ("requests", "span_ms", "prompt_tokens", "output_tokens")}
    for row in found:
        for name in stated | {f"ttft_p{p}_ms" for p in (50, 90, 95, 99)}:
            value = getattr(row, name)
            assert value is None or value in [getattr(other, name) for other in whole]


@pytest.mark.parametrize(
    "more",
    [b"1.0| 2.0| 3.0| 4.0|\n", lines_of((SAMPLES / "guidellm-console-0.3.log").read_bytes())[18]],
    ids=["a row without end", "rows without end"],
)
def test_a_table_without_end_takes_no_memory_without_end(more: bytes) -> None:
    stream, many = Stream("log"), more * 2000
    stream.feed(b"Benchmarks Info:\n  synchronous|   15:06:41| 15:07:11|\n" + many)
    tracemalloc.start()
    stream.feed(many)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 100_000
