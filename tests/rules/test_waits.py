"""What requests wait for: the KV cache, a limit, a step's tokens, or their turn in a batch job."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.attribution import busy_samples, interval_verdict
from rules.queue import prefill_stalls_decode, queue_wait
from rules.rule import Confidence, Finding, NotApplicable
from rules.waits import drains
from tests.rules.helpers import measures


def found(answer: object) -> Finding:
    assert isinstance(answer, Finding), answer
    return answer


def lines(waits: list[int], **columns: Any) -> list[dict[str, Any]]:
    row = {"engine": "vllm", "kind": "window", "phase": "mixed", "running": 12, "kv_usage": 0.5, **columns}
    return [{**row, "line": i, "waiting": n} for i, n in enumerate(waits, 1)]


def asked(rows: list[dict[str, Any]], **setup: Any) -> Finding:
    return found(queue_wait.check(measures(intervals=rows, setup={"engine": rows[0]["engine"], **setup})))


UNEVEN = [4, 7, 5, 9, 3, 6, 8, 4, 7, 5]


@pytest.mark.parametrize(
    ("running", "kv_usage", "setup", "applied"),
    [
        (12, 0.5, {}, ["--max-num-batched-tokens 16384", "--data-parallel-size 2"]),
        (12, 0.5, {"chunk_tokens": 2_048}, ["--max-num-batched-tokens 4096", "--data-parallel-size 2"]),
        (12, 0.5, {"chunk_tokens": 16_384}, ["--data-parallel-size 2"]),
        (12, 0.5, {"max_running": 256}, ["--max-num-batched-tokens 16384", "--data-parallel-size 2"]),
        (12, 0.2, {"max_running": 12}, ["--max-num-seqs 24"]),
        (12, 0.8, {"max_running": 12}, ["--max-num-seqs 14"]),
        (12, 0.88, {"max_running": 12}, ["--gpu-memory-utilization 0.95", "--kv-cache-dtype fp8"]),
        (256, 0.81, {}, ["--max-num-seqs 300"]),
        (12, 0.97, {}, ["--gpu-memory-utilization 0.95", "--kv-cache-dtype fp8"]),
        (12, 0.97, {"memory_share": 0.97}, ["--kv-cache-dtype fp8"]),
        (12, 0.97, {"memory_share": 0.9, "kv_type_k": "fp8_e4m3"}, ["--gpu-memory-utilization 0.95"]),
        (12, 0.97, {"memory_share": 0.97, "kv_type_k": "fp8"}, ["--data-parallel-size 2"]),
    ],
    ids=[
        "unknown",
        "small step",
        "largest step",
        "limit far away",
        "limit reached",
        "limit reached, little room",
        "limit reached, no room",
        "default limit reached",
        "cache full",
        "no memory left",
        "8 bits already",
        "nothing left",
    ],
)
def test_vllm_is_told_to_turn_what_holds_requests_up(
    running: int, kv_usage: float, setup: dict[str, Any], applied: list[str]
) -> None:
    finding = asked(lines(UNEVEN, running=running, kv_usage=kv_usage), **setup)

    assert [fix.apply for fix in finding.fixes] == applied
    shown = kv_usage > 0.85 or setup.get("max_running") == running
    assert finding.confidence is (Confidence.LIKELY if shown else Confidence.POSSIBLE)
    assert shown == (finding.verify == queue_wait.RULE.verify)


def test_sglang_waits_in_batch_lines() -> None:
    decode = lines([20] * 9, engine="sglang", kind="decode_batch", running=60, kv_usage=0.97)
    prefill = [{**row, "kind": "prefill_batch", "line": 100 + row["line"]} for row in decode]
    finding = asked(decode + prefill, max_running=2_048, memory_share=0.87)

    assert finding.confidence is Confidence.LIKELY
    assert "9 of 9 busy decode batches" in finding.why
    assert [fix.apply for fix in finding.fixes] == ["--mem-fraction-static 0.9", "--kv-cache-dtype fp8_e5m2"]

    roomy = asked([{**row, "kv_usage": 0.6} for row in decode], max_running=2_048, chunk_tokens=8_192)
    assert (roomy.confidence, roomy.fixes[0].apply) == (
        Confidence.POSSIBLE,
        "--schedule-conservativeness 0.3",
    )


def test_sglang_with_moments_of_waiting_at_prefills_is_no_queue() -> None:
    decode = lines([0] * 9, engine="sglang", kind="decode_batch")
    prefill = lines([3] * 9, engine="sglang", kind="prefill_batch")
    m = measures(intervals=decode + prefill, setup={"engine": "sglang"})

    assert isinstance(queue_wait.check(m), NotApplicable)


def test_batches_that_queue_as_many_as_run() -> None:
    def verdict(waits: list[int], **columns: Any) -> str:
        return interval_verdict(
            measures(intervals=lines(waits, kind="decode_batch", **columns)).intervals
        ).phase

    assert verdict([15] * 6) == "queue"
    assert verdict([6] * 6) == "unknown"
    assert verdict([0] * 6, running=0) == "unknown"
    assert busy_samples(measures(intervals=lines([0] * 6, kind="decode_batch")).intervals).height == 6


def test_a_batch_job_drains() -> None:
    finding = asked(lines([400, 350, 310, 240, 200, 120, 60, 0, 0]), max_running=12)

    assert (finding.confidence, finding.fault) == (Confidence.POSSIBLE, False)
    assert "only shrank" in finding.why
    assert asked(lines([400, 350, 310, 240, 380, 120, 60, 0, 0]), max_running=12).fault


@given(st.lists(st.integers(0, 40), min_size=1, max_size=30))
def test_a_backlog_that_grows_late_does_not_drain(waits: list[int]) -> None:
    m = measures(intervals=lines([*waits, 10, 60]))
    assert not drains(m.intervals)


def test_requests_that_wait_while_answers_stand_still_are_one_matter() -> None:
    def windows(stood: list[int]) -> list[dict[str, Any]]:
        still = {"phase": "mixed", "running": 6, "decode_tok_s": 5.0, "prefill_tok_s": 2_700.0}
        clear = {"phase": "decode", "running": 1, "decode_tok_s": 32.0, "prefill_tok_s": 0.0, "kv_usage": 0.1}
        rows = lines([0] * 10, **clear) + lines(stood, **still)
        return [{**row, "line": i, "span_ms": 10_000.0} for i, row in enumerate(rows, 1)]

    m = measures(intervals=windows(UNEVEN), setup={"engine": "vllm"})
    assert found(prefill_stalls_decode.check(m)).wont_help[-1].startswith("More requests at once")
    assert isinstance(queue_wait.check(m), NotApplicable)

    full = [{**row, "line": 100 + row["line"]} for row in lines(UNEVEN, kv_usage=0.97)]
    both = measures(intervals=windows(UNEVEN) + full, setup={"engine": "vllm"})
    assert found(prefill_stalls_decode.check(both)).wont_help == ()


def test_logged_waits_need_a_limit_that_is_reached() -> None:
    row = {"engine": "vllm", "prefill_ms": 500.0, "output_tokens": 100, "decode_ms": 2_500.0}
    rows = [{**row, "queue_ms": 3_000.0}] * 20
    setup = {"engine": "vllm", "max_running": 256}
    alone = found(queue_wait.check(measures(rows, setup=setup)))
    beside_windows = found(queue_wait.check(measures(rows, setup=setup, intervals=lines(UNEVEN))))

    assert alone.fixes[0].apply == "more requests at once, or a second replica"
    assert "these numbers don't say" in alone.why
    assert beside_windows.fixes[0].apply == "--max-num-batched-tokens 16384"
    assert "No limit of requests at once is known to be reached" in beside_windows.why
