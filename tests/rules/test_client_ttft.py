"""Requests as a client saw them: decode is told, what comes before its first token is one number."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rules.attribution import verdict
from rules.catalogue import ask
from rules.caveats import client_ttft, clock, log_hides_timings
from rules.hardware import Machine
from rules.testing import measures

SETUP = {"model": "quokka-8b", "weights_bytes": 8 << 30, "layers": 32, "slots": 4, "prefix_caching": False}


def client_rows(count: int, ttft_scale: float, engine: str = "vllm-bench") -> list[dict[str, Any]]:
    """Requests of a benchmark that arrive at random, with long prompts and answers."""
    r, rows, start_ms = random.Random(5), [], 0.0
    for _ in range(count):
        start_ms += r.expovariate(1 / 250)
        prompt, output = r.randint(2_000, 12_000), r.randint(50, 400)
        ttft_ms, decode_ms = ttft_scale * prompt / 4, 30.0 * (output - 1) * r.uniform(0.8, 1.3)
        rows.append(
            {
                "engine": engine,
                "prompt_tokens": prompt,
                "output_tokens": output,
                "decode_steps": output - 1,
                "ttft_ms": ttft_ms,
                "ttft_from": "arrival",
                "decode_ms": decode_ms,
                "total_ms": ttft_ms + decode_ms,
                "clock_start_ms": start_ms + ttft_ms,
                "clock_end_ms": start_ms + ttft_ms + decode_ms,
            }
        )
    return rows


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("setup", [None, SETUP])
def test_no_rule_says_anything_of_prefill_queue_or_load(scale: float, setup: dict[str, Any] | None) -> None:
    machine = Machine(device="NVIDIA H100 80GB HBM3") if setup else None
    found = ask(measures(client_rows(200, scale), setup=setup, machine=machine)).findings
    assert not [f.rule for f in found if f.phase in ("prefill", "queue", "load")]


def test_decode_leads_where_it_is_more_than_all_that_comes_before() -> None:
    decided = verdict(measures(client_rows(50, 0.1)).attribution)
    assert decided.phase == "decode"
    assert decided.share == pytest.approx(0.97, abs=0.02)
    assert verdict(measures(client_rows(50, 30.0)).attribution).phase == "unknown"


@pytest.mark.parametrize("engine", client_ttft.CLIENTS)
def test_the_caveat_is_said_of_every_client(engine: str) -> None:
    m = measures(client_rows(3, 1.0, engine))
    answer = client_ttft.check(m)
    assert answer is not None
    assert "queue, prefill and network together" in answer.text
    assert ("Llama tokenizer" in answer.text) == (engine == "llmperf")
    assert log_hides_timings.check(m) is None


def test_the_caveat_is_said_of_sums() -> None:
    sums = {"engine": "guidellm", "kind": "benchmark", "requests": 5, "ttft_ms": 100.0, "total_ms": 900.0}
    assert client_ttft.check(measures(aggregates=[sums])) is not None


def test_summaries_beside_requests_are_named() -> None:
    sums = {
        "engine": "sglang-bench",
        "kind": "benchmark",
        "requests": 30,
        "ttft_ms": 100.0,
        "total_ms": 900.0,
    }
    answer = client_ttft.check(measures(client_rows(3, 1.0, "sglang-bench"), aggregates=[sums]))
    assert answer is not None
    assert "Summaries of 30 requests" in answer.text


def test_an_engine_that_tells_itself_has_no_such_caveat() -> None:
    rows = client_rows(10, 1.0, "vllm")
    assert client_ttft.check(measures(rows)) is None
    assert log_hides_timings.check(measures(rows)) is not None


def test_requests_of_one_line_are_said_to_be_counted_on() -> None:
    rows = client_rows(4, 1.0)
    apart = client_ttft.check(measures([row | {"first_line": n} for n, row in enumerate(rows, 1)]))
    at_once = client_ttft.check(measures([row | {"first_line": 1} for row in rows]))
    assert apart is not None
    assert at_once is not None
    assert "counted on" not in apart.text
    assert "counted on" in at_once.text


def test_the_clock_of_a_client_tells_how_many_generated_at_once() -> None:
    m = measures(client_rows(200, 1.0))
    assert m.overlap.most is not None
    assert m.overlap.most > 4
    assert clock.check(m) is None
