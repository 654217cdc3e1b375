"""vLLM's answers and reprs, OpenTelemetry, LiteLLM, TensorRT-LLM, vllm.rs: what is printed comes back."""

from __future__ import annotations

import csv
import io
import json
import re
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import parsers.formats
from parsers import Stream
from parsers.formats.otel.spans import rows as rows_of
from parsers.formats.process import Counts
from parsers.formats.vllm.record import RECORD
from parsers.records import Request
from parsers.source import SourceReader
from tests.parsers.reading import Read, join, read

SAMPLES = Path(parsers.formats.__file__).parent / "samples"
QUOTED = "RequestMetrics(arrival_time=1.0, first_scheduled_time=1.0, first_token_time=2.0, finished_time=3.0)"
EVIL = st.lists(st.sampled_from([*"'\"\\(),={}[]: ab\n", QUOTED]), max_size=40).map("".join)
MS = st.integers(0, 600_000)
TOKENS = st.integers(1, 50_000)
RECORD_AGAIN = re.compile(r"\.py:\d+\] ")
START_NS = 1_767_225_600_000_000_000


def documents(text: str) -> list[Request]:
    """The requests of a source that may be a document."""
    source = SourceReader(Stream("log"))
    return [row for row in source.feed(text.encode()) + source.close() if isinstance(row, Request)]


# --- vLLM


@given(queue=MS, prefill=MS, decode=MS, output=TOKENS, content=EVIL)
def test_an_answer_of_vllm_comes_back(
    queue: int, prefill: int, decode: int, output: int, content: str
) -> None:
    answer = {
        "id": "chatcmpl-1",
        "choices": [{"message": {"content": content}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 42, "completion_tokens": output},
        "metrics": {
            "time_to_first_token_ms": prefill,
            "generation_time_ms": decode,
            "queue_time_ms": queue,
            "mean_itl_ms": None,
            "tokens_per_second": 1.0,
        },
    }
    for printed in (json.dumps(answer), "data: " + json.dumps(answer, separators=(",", ":"))):
        [row] = read(join([printed])).requests
        assert (row.queue_ms, row.prefill_ms, row.decode_ms) == (queue, prefill, decode)
        assert (row.ttft_ms, row.total_ms) == (queue + prefill, queue + prefill + decode)
        assert (row.output_tokens, row.decode_steps) == (output, output - 1)
    [row] = documents(json.dumps(answer, indent=2))
    assert (row.queue_ms, row.prefill_ms, row.decode_ms) == (queue, prefill, decode)


@given(prompt=EVIL, text=EVIL, queue=MS, prefill=MS, decode=MS)
def test_what_a_prompt_quotes_is_no_metric(
    prompt: str, text: str, queue: int, prefill: int, decode: int
) -> None:
    arrival = 1767225600.0
    moments = (queue, queue + prefill, queue + prefill + decode)
    scheduled, first, end = (arrival + ms / 1000 for ms in moments)
    output = (
        f"RequestOutput(request_id=7, prompt={prompt!r}, prompt_token_ids=[1, 2, 3], outputs=["
        f"CompletionOutput(index=0, text={text!r}, token_ids=[4, 5], finish_reason=stop, stop_reason=None)], "
        f"finished=True, metrics=RequestMetrics(arrival_time={arrival}, last_token_time={arrival}, "
        f"first_scheduled_time={scheduled}, first_token_time={first}, "
        f"time_in_queue={scheduled - arrival}, finished_time={end}))"
    )
    [row] = read(join([f"[{output}]"])).requests
    assert (row.request_id, row.prompt_tokens, row.output_tokens) == ("7", 3, 2)
    assert row.queue_ms == pytest.approx(queue, abs=0.002)
    assert row.prefill_ms == pytest.approx(prefill, abs=0.002)
    assert row.decode_ms == pytest.approx(decode, abs=0.002)


def test_times_of_two_clocks_are_not_subtracted() -> None:
    said = (
        "RequestStateStats(num_generation_tokens=2, arrival_time=1767225600.5, queued_ts=12.0, "
        "scheduled_ts=12.5, first_token_ts={first}, last_token_ts=14.0, first_token_latency=1.5)"
    )
    [row] = read(join([said.format(first="13.0")])).requests
    assert (row.queue_ms, row.prefill_ms, row.decode_ms) == (500, 500, 1000)
    assert (row.ttft_ms, row.total_ms) == (1500, 2500)
    mixed = read(join([said.format(first="1767225602.0")]))
    assert (mixed.requests, mixed.stream.counts.incomplete_requests) == ([], 1)


@pytest.mark.parametrize("sample", ["vllm-v1", "vllm-data-parallel", "vllm-iterations"])
def test_json_records_say_what_text_says(sample: str) -> None:
    """Each record of a text log as JSON, as vLLM's formatter writes it."""
    text = (SAMPLES / f"{sample}.log").read_text(encoding="utf-8").splitlines()
    as_json, as_text = [], []
    for line in text:
        found = re.match(RECORD, line.encode())
        if found is None or found.start("head") or RECORD_AGAIN.search(line[found.end() :]):
            continue
        as_text.append(line)
        record = {
            "asctime": f"{found['month'].decode()}-{found['day'].decode()} {found['clock'].decode()}",
            "levelname": "INFO",
            "name": "vllm.x",
            "vllm_process_name": (found["process"] or b"").decode(),
            "process": 1,
            "message": line[found.end() :],
        }
        as_json.append(json.dumps(record))
    plain, logged = read(join(as_text)), read(join(as_json))
    assert logged.told("offset") == plain.told("offset")
    assert len(plain.intervals) > 1


# --- vllm.rs


@given(tokens=TOKENS, prompt=st.integers(1, 600_000), decode=st.integers(1, 600_000))
def test_what_vllm_rs_prints_is_never_called_impossible(tokens: int, prompt: int, decode: int) -> None:
    lines = [
        f"[Seq 3] ⏱️ {what}: {tokens} tokens in {ms / 1000:.2f}s ({tokens / (ms / 1000):.2f} t/s)"
        for what, ms in (("Prompt", prompt), ("Decoded", decode))
    ]
    [row] = read(join(lines)).requests
    assert row.ttft_ms == pytest.approx(prompt, abs=5.1)
    assert row.decode_ms == pytest.approx(decode, abs=5.1)
    assert row.prefill_ms is None


# --- OpenTelemetry


def span(trace: str, name: str, **attributes: Any) -> str:
    kinds = {str: "stringValue", float: "doubleValue", int: "intValue"}
    pairs = [
        {"key": key.replace("__", "."), "value": {kinds[type(value)]: value}}
        for key, value in attributes.items()
    ]
    one = {
        "traceId": trace,
        "spanId": name,
        "startTimeUnixNano": str(START_NS),
        "endTimeUnixNano": str(START_NS + 2_000_000_000),
        "attributes": pairs,
    }
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": {"name": "vllm.x"}, "spans": [one]}]}]})


ENGINE = span(
    "t1",
    "s1",
    gen_ai__request__id="r1",
    gen_ai__latency__time_in_queue=0.25,
    gen_ai__latency__time_in_model_prefill=0.5,
    gen_ai__latency__time_in_model_decode=1.0,
    gen_ai__latency__e2e=1.875,
    gen_ai__latency__time_to_first_token=0.8125,
)
CLIENT = span("t1", "s2", gen_ai__operation__name="chat", gen_ai__usage__output_tokens=5)
OTHER = span("t2", "s3", gen_ai__operation__name="chat", gen_ai__usage__output_tokens=5)


@pytest.mark.parametrize("lines", [*permutations([ENGINE, CLIENT, OTHER, ENGINE])])
def test_a_call_that_client_and_engine_tell_of_is_one_request(lines: tuple[str, ...]) -> None:
    rows = read(join(lines)).requests
    assert sorted((row.request_id or "", row.queue_ms, row.total_ms) for row in rows) == [
        ("", None, 2000.0),
        ("r1", 250.0, 1875.0),
    ]


def test_a_reason_that_is_no_text_can_be_written() -> None:
    batch = json.loads(OTHER)
    reason = {"arrayValue": {"values": [{"stringValue": "\ud800"}]}}
    attributes = batch["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]
    attributes.append({"key": "gen_ai.response.finish_reasons", "value": reason})
    [row] = read(join([json.dumps(batch)])).requests
    assert row.finish_reason == "?"


# --- LiteLLM


@given(st.text(st.sampled_from("ab,\"{}: '"), max_size=30), st.integers(1, 9_000), st.integers(1, 9_000))
def test_a_line_of_a_csv_export_comes_back(metadata: str, first: int, rest: int) -> None:
    names = ["request_id", "call_type", "metadata", "startTime", "completionStartTime", "endTime"]
    values = [
        "r-1",
        "acompletion",
        metadata,
        *(f"2026-01-01 00:00:{ms / 1000:06.3f}" for ms in (0, first, first + rest)),
    ]
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([[*names, "completion_tokens"], [*values, "8"]])
    [row] = read(table.getvalue().encode()).requests
    assert (row.ttft_ms, row.decode_ms, row.total_ms) == (first, rest, first + rest)
    assert (row.prefill_ms, row.queue_ms, row.decode_steps) == (None, None, 7)


@pytest.mark.parametrize("number", ["²", "7" * 5000, "-1", "1.5", "x"], ids=len)
def test_a_count_that_can_not_be_costs_itself_alone(number: str) -> None:
    times = ["2026-01-01 00:00:00.000", "2026-01-01 00:00:01.000", "2026-01-01 00:00:02.000"]
    names = ["request_id", "call_type", "startTime", "completionStartTime", "endTime", "completion_tokens"]
    calls = [["r-1", "acompletion", *times, number], ["r-2", "acompletion", *times, "8"]]
    rows = read(join(",".join(values) for values in (names, *calls))).requests
    assert [(row.request_id, row.output_tokens) for row in rows] == [("r-1", None), ("r-2", 8)]


# --- documents: a line that a log would not be read by


def test_a_line_too_long_for_a_log_is_read_whole() -> None:
    times = {
        "arrival_time": 5.0,
        "first_scheduled_time": 5.5,
        "first_token_time": 6.0,
        "last_token_time": 8.0,
    }
    served = [{"request_id": i, "perf_metrics": {"timing_metrics": times}} for i in range(900)]
    assert [row.request_id for row in documents(json.dumps(served))] == [str(i) for i in range(900)]
    calls = [
        {
            "call_type": "acompletion",
            "request_id": str(i),
            "startTime": 1.0,
            "completionStartTime": 2.0,
            "endTime": 4.0,
        }
        for i in range(2)
    ]
    assert [row.ttft_ms for row in documents(json.dumps({"data": calls}, indent=1))] == [1000.0, 1000.0]


def test_spans_at_the_ends_of_a_cut_line_are_read_and_the_loss_is_counted() -> None:
    batch = json.loads(ENGINE)
    spans = batch["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans *= 200
    for i, one in enumerate(spans := [dict(one, spanId=f"s{i}") for i, one in enumerate(spans)]):
        one["traceId"] = f"t{i}"
    batch["resourceSpans"][0]["scopeSpans"][0]["spans"] = spans
    log: Read = read(join([ENGINE, json.dumps(batch)]))
    assert 1 < len(log.requests) < 200
    assert log.stream.counts.incomplete_requests == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{"stringValue": "chat"}', '{"kvlistValue": {"values": []}}'),
        ('{"stringValue": "chat"}', '{"arrayValue": ' * 40 + '{"values": []}' + "}" * 40),
        ('"traceId": "t2"', '"traceId": {"a": 1}'),
        ('{"intValue": 5}', '{"intValue": "²"}'),
        ('{"intValue": 5}', '{"intValue": "--5"}'),
    ],
)
def test_a_span_whose_values_are_none_costs_no_other(old: str, new: str) -> None:
    assert old in OTHER
    rows = read(join([OTHER.replace(old, new), ENGINE])).requests
    assert [row.request_id for row in rows if row.engine == "vllm" and row.request_id] == ["r1"]
    assert len(list(rows_of(json.loads(OTHER.replace(old, new)), Counts()))) <= 1
