"""A running engine watched over HTTP: what rows its answers become."""

from __future__ import annotations

import json
from typing import Any

import pytest

from advisor.analysis import Options, analyze
from advisor.reading import Reading
from advisor.sources.served import ollama
from advisor.sources.served.llama_server import Slots
from advisor.sources.served.phases import phase_of
from parsers.records import Aggregate, Event, Interval
from tests.advisor.stand import (
    PROPS,
    SAMPLES,
    VLLM,
    answered,
    has_sums,
    llama,
    notes_of,
    rows_of,
    slot,
    standing,
    watching,
)


def test_only_what_comes_after_we_looked_counts() -> None:
    with standing() as stand:
        stand.says("/props", PROPS)
        llama(stand, prompt=1000, output=100)
        with watching(stand) as served:
            assert answered(served, 3) == []
            llama(stand, prompt=1300, output=120)
            rows = rows_of(served, has_sums)
            rows += answered(served, 3)
            (told,) = [row for row in rows if isinstance(row, Aggregate)]
            assert (told.prefill_tokens, told.output_tokens, told.kind) == (300, 20, "between")
            assert told.prefill_ms == pytest.approx(3_000)
            assert told.decode_ms == pytest.approx(2_000)
            assert told.total_ms == pytest.approx(5_000)
            assert told.span_ms is not None
            assert told.source == served.name == stand.address
            assert told.time is not None
            setup = served.setups[0]
            assert (served.engine, setup.slots, setup.context) == ("llama-server", 4, 2048)
            assert setup.origin["quantization"] == "/props"
            assert served.notes() == []


def test_the_metrics_of_vllm_before_and_after_are_what_its_clients_saw() -> None:
    before, after = (
        VLLM / f"metrics_after_{name}.txt" for name in ("c2_multiturn_timestamp_first", "d_parallel12")
    )
    clients = [
        json.loads(line) for line in (VLLM / "ground_truth_d_parallel12.jsonl").read_text().splitlines()
    ]
    with standing() as stand:
        stand.says("/metrics", before.read_bytes())
        stand.says("/version", {"version": "0.32.0"})
        stand.says("/v1/models", {"data": [{"id": "smollm2", "root": "/m/smollm2", "max_model_len": 4096}]})
        with watching(stand) as served:
            answered(served, 2)
            stand.says("/metrics", after.read_bytes())
            rows = rows_of(served, lambda rows: has_sums(rows) and any(isinstance(r, Interval) for r in rows))
            setup = served.setups[0]
    told, window = rows[0], rows[1]
    assert isinstance(told, Aggregate)
    assert isinstance(window, Interval)
    assert (told.requests, told.model) == (12, "smollm2")
    assert told.output_tokens == sum(c["usage"]["completion_tokens"] for c in clients)
    assert told.total_ms == pytest.approx(sum(c["total_ms"] for c in clients), rel=0.01)
    assert (told.ttft_p50_ms, told.ttft_requests) == (None, 12)
    assert window.decode_tokens is not None
    assert window.decode_tokens == told.output_tokens
    assert window.prefill_tokens == told.prefill_tokens
    assert window.span_ms is not None
    assert window.decode_tok_s == pytest.approx(1000 * window.decode_tokens / window.span_ms)
    assert window.phase == "mixed"
    assert (setup.engine_version, setup.model, setup.context) == ("0.32.0", "/m/smollm2", 4096)
    assert setup.context_total == 46592
    assert setup.origin["context_total"] == "/metrics"
    reading = Reading(setups=served.setups)
    reading.tables.extend(rows)
    analysis = analyze(reading, Options(redact=False))
    assert analysis.verdict.phase == "mixed"
    assert analysis.summary.phase_ms.queue == pytest.approx(20_182.194)


def test_the_slots_tell_of_requests_that_run() -> None:
    idle = {"id": 1, "is_processing": False}
    with standing() as stand:
        stand.says("/props", PROPS)
        stand.says("/slots", [idle])
        llama(stand, prompt=0, output=0)
        with watching(stand) as served:
            answered(served, 2)
            rows = []
            for page, running in (
                ([slot(1, evaluated=0, generated=0), idle], 1),
                ([slot(1, evaluated=512, generated=0), idle], 1),
            ):
                stand.says("/slots", page)
                llama(stand, prompt=0, output=0, running=running)
                rows += answered(served, 4)
            stand.says("/slots", [slot(1, evaluated=700, generated=1)])
            llama(stand, prompt=700, output=0, running=1)
            rows += answered(served, 4)
            stand.says("/slots", [slot(1, evaluated=700, generated=40)])
            rows += answered(served, 4)
            stand.says("/slots", [idle])
            llama(stand, prompt=700, output=50)
            rows += answered(served, 4)
    windows = [row for row in rows if isinstance(row, Interval)]
    assert sum(row.prefill_tokens or 0 for row in windows) == 700
    assert sum(row.decode_tokens or 0 for row in windows) == 50
    assert windows[0].phase == "prefill"
    phases = [row.phase for row in windows]
    assert phases.index("decode") > phases.index("prefill")
    assert phases[-1] == "idle" or windows[-1].decode_tokens
    assert "secret" not in str(rows)


@pytest.mark.parametrize(
    ("read", "made", "running", "waiting", "slots", "phase"),
    [
        (900, 1, 1, 0, None, "prefill"),
        (900, 9, 1, 0, None, "mixed"),
        (0, 16, 16, 0, None, "decode"),
        (0, 3, 16, 0, None, "unknown"),
        (0, 0, 4, 0, None, "unknown"),
        (0, 3, 16, 0, (0, 16), "decode"),
        (0, 3, 16, 0, (2, 14), "mixed"),
        (0, 0, 2, 0, (2, 0), "prefill"),
        (0, 0, 2, 0, (0, 2), "decode"),
        (None, None, 2, 0, (1, 1), "mixed"),
        (None, None, 2, 0, None, "unknown"),
        (5, 5, 2, 2, (1, 1), "queue"),
        (0, 0, 0, 0, None, "idle"),
    ],
)
def test_what_a_window_was_spent_on(
    read: int | None, made: int | None, running: int, waiting: int, slots: tuple[int, int] | None, phase: str
) -> None:
    rate = None if read is None else read / 0.49
    row = Interval(running=running, waiting=waiting, decode_tokens=made, prefill_tok_s=rate)
    assert phase_of(row, Slots(sum(slots), *slots, 0, 0) if slots else None) == phase


@pytest.mark.parametrize("answer", [[], "0.13", None, 3, {"version": ["0.13"]}])
def test_a_version_that_is_none(answer: Any) -> None:
    assert ollama.version(answer) == {"engine_version": None}


def test_ollama_tells_its_models_and_that_its_log_tells_more() -> None:
    small = {
        "name": "small:1b",
        "size": 4_000_000_000,
        "size_vram": 3_000_000_000,
        "context_length": 4096,
        "details": {"family": "llama", "quantization_level": "Q4_K_M"},
    }
    with standing() as stand:
        stand.says("/api/version", {"version": "0.32.1"})
        stand.says("/api/ps", {"models": [small]})
        with watching(stand) as served:
            assert "phasewise tail --unit ollama" in notes_of(served, "Ollama")[0]
            assert answered(served, 2) == []
            stand.says("/api/ps", {"models": [{**small, "name": "big:70b", "size_vram": 0}]})
            events = rows_of(served, bool)
            setups = served.setups
    assert [(e.kind, e.detail) for e in events if isinstance(e, Event)] == [
        ("model_unload", "small:1b"),
        ("model_load", "big:70b, 0% of 4.0 GB in GPU memory"),
    ]
    assert [(s.model, s.quantization, s.context, s.layers_offloaded) for s in setups] == [
        ("small:1b", "Q4_K_M", 4096, None),
        ("big:70b", "Q4_K_M", 4096, 0),
    ]
    assert {s.engine_version for s in setups} == {"0.32.1"}


@pytest.mark.parametrize(
    ("path", "answer", "engine", "words"),
    [
        ("/props", PROPS, "llama-server", "--metrics"),
        ("/get_server_info", {"model_path": "m", "mem_fraction_static": 0.8}, "sglang", "--enable-metrics"),
        ("/v1/models", {"data": [{"id": "m", "owned_by": "vllm"}]}, "vllm", "--disable-log-stats"),
        ("/api/extra/version", {"result": "KoboldCpp", "version": "1.9"}, "koboldcpp", "log"),
    ],
)
def test_an_engine_without_metrics_is_told_how_to_switch_them_on(
    path: str, answer: dict[str, Any], engine: str, words: str
) -> None:
    with standing() as stand:
        stand.says(path, answer)
        stand.says("/metrics", b'{"error": {"code": 501}}', 501)
        with watching(stand) as served:
            notes = notes_of(served, words)
            assert served.engine == engine
            assert len(notes) == 1


def test_an_engine_that_comes_back_without_metrics() -> None:
    with standing() as stand:
        stand.says("/props", PROPS)
        llama(stand, prompt=5, output=5)
        with watching(stand) as served:
            answered(served, 2)
            stand.says("/metrics", b"{}", 501)
            stand.says("/slots", [slot(1, evaluated=0, generated=9)])
            assert notes_of(served, "--metrics")
            assert rows_of(served, bool)
            assert len(served.setups) == 1


def test_llama_server_without_metrics_still_shows_its_slots() -> None:
    with standing() as stand:
        stand.says("/props", PROPS)
        stand.says("/metrics", b"{}", 501)
        stand.says("/slots", [slot(1, evaluated=0, generated=9), slot(2, evaluated=5, generated=0)])
        with watching(stand) as served:
            rows = rows_of(served, bool)
    assert isinstance(rows[0], Interval)
    assert (rows[0].running, rows[0].phase, rows[0].decode_tokens) == (2, "mixed", None)


@pytest.mark.parametrize(
    "name", ["sglang", "tgi", "tensorrt-llm", "dynamo", "lmdeploy", "litellm", "mistral-rs"]
)
def test_every_engine_whose_metrics_are_known_is_known_by_them(name: str) -> None:
    with standing() as stand:
        stand.says("/metrics", (SAMPLES / f"{name}-metrics.log").read_bytes())
        with watching(stand) as served:
            answered(served, 2)
            assert served.engine == name
