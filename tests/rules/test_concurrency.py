from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rules.hardware import Machine
from rules.queue import (
    batching_pays,
    client_too_slow,
    concurrency_over_saturated,
    kv_pool_full_preempt,
    prefill_stalls_decode,
)
from rules.rule import CannotTell, Confidence, Finding, NotApplicable
from rules.stalls import Stall, of_intervals
from tests.rules.helpers import measures, read

B = "llama-server-b11434"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def found(answer: object) -> Finding:
    assert isinstance(answer, Finding), answer
    return answer


def at(start_ms: float, prefill_ms: float, decode_ms: float, **more: Any) -> dict[str, Any]:
    """A request that the process's clock places."""
    return {
        "clock_start_ms": start_ms,
        "prefill_ms": prefill_ms,
        "decode_ms": decode_ms,
        "clock_end_ms": start_ms + prefill_ms + decode_ms,
        "output_tokens": 100,
        **more,
    }


# --- prefill-stalls-decode


def window(decode: float, running: int, prompt: float = 0.0, **more: Any) -> dict[str, Any]:
    """A vLLM window of ten seconds, with the phase that the reader gives it."""
    tokens = 10 * decode
    phase = ("prefill" if tokens <= running else "mixed") if prompt else "decode"
    if not prompt and tokens < running:
        phase = "prefill"
    row = {"engine": "vllm", "kind": "window", "span_ms": 10_000.0, "prefill_tok_s": prompt, "waiting": 0}
    return {**row, "decode_tok_s": decode, "running": running, "kv_usage": 0.1, "phase": phase, **more}


VLLM = {"engine": "vllm", "chunk_tokens": 8_192}


def numbered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "line": i} for i, row in enumerate(rows, 1)]


def test_d18_two_long_prompts_starve_a_stream() -> None:
    """27.5 tok/s alone, 0.2 tok/s for 110 s while two prompts of 72,000 tokens are read in steps of 8,192."""
    alone, starved = [window(27.5, 1)] * 6, [window(0.2, 3)] * 10
    m = measures(
        intervals=numbered([*alone, *starved, window(0.2, 3, 14_400.0), *[window(62.0, 3)] * 3]), setup=VLLM
    )

    finding = found(prefill_stalls_decode.check(m))

    assert finding.confidence is Confidence.LIKELY
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(110_000 * (1 - 0.2 / 27.5), rel=0.01)
    assert finding.saving.bound == "at_most"
    assert finding.fixes[0].apply == "--max-num-batched-tokens 2048"
    assert "11 windows, 110 s in all" in finding.why
    assert "0.6 tok/s through" in finding.why
    assert [ref.line for ref in finding.evidence[0].lines] == [7, 8, 9]
    assert isinstance(kv_pool_full_preempt.check(m), NotApplicable)


def test_slow_windows_without_prompts_are_no_stall() -> None:
    throttled = numbered([*[window(27.5, 1)] * 6, *[window(2.0, 2)] * 10, *[window(27.5, 1)] * 3])

    assert isinstance(prefill_stalls_decode.check(measures(intervals=throttled, setup=VLLM)), NotApplicable)


def test_short_prompts_among_answers_are_no_stall() -> None:
    busy = numbered([*[window(27.5, 1)] * 6, *[window(80.0, 4, 300.0)] * 20])

    assert isinstance(prefill_stalls_decode.check(measures(intervals=busy, setup=VLLM)), NotApplicable)


@pytest.mark.parametrize(("known_ms", "lost_ms"), [(10_000.0, 6 * 10_000 * (1 - 0.2 / 27.5)), (None, None)])
def test_a_part_of_what_was_lost_is_not_all_of_it(known_ms: float | None, lost_ms: float | None) -> None:
    starved = [window(0.2, 3)] * 4 + [window(0.2, 3, span_ms=known_ms)] + [window(0.2, 3, 14_400.0)]
    stall = of_intervals(measures(intervals=numbered([*[window(27.5, 1)] * 6, *starved]), setup=VLLM), 5.0)

    assert isinstance(stall, Stall)
    assert stall.lost_ms == (None if lost_ms is None else pytest.approx(lost_ms))


def step(span_ms: float, prefill: int, decode: int) -> dict[str, Any]:
    phase = "mixed" if prefill else "decode"
    row = {"engine": "vllm", "kind": "iteration", "span_ms": span_ms, "running": decode + bool(prefill)}
    return {**row, "prefill_tokens": prefill, "decode_tokens": decode, "phase": phase}


@pytest.mark.parametrize(("chunk_ms", "fires"), [(3_400.0, True), (60.0, False)])
def test_steps_tell_what_each_chunk_costs_a_stream(chunk_ms: float, *, fires: bool) -> None:
    rows = [*[step(36.0, 0, 1)] * 300, *[step(chunk_ms, 8_192, 1)] * 9]
    answer = prefill_stalls_decode.check(measures(intervals=numbered(rows), setup={"engine": "vllm"}))

    if not fires:
        assert isinstance(answer, NotApplicable)
        return
    finding = found(answer)
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(9 * (3_400 - 36), rel=0.01)
    assert finding.fixes[0].apply == "--max-num-batched-tokens 2048"


def batch(tok_s: float, running: int, phase: str, **more: Any) -> dict[str, Any]:
    row = {"engine": "sglang", "kind": "decode_batch", "decode_tok_s": tok_s, "running": running}
    return {**row, "phase": phase, "span_ms": 40_000 * running / tok_s, "waiting": 0, "kv_usage": 0.1, **more}


def test_sglang_answers_stop_for_each_chunk() -> None:
    prompts = [{"engine": "sglang", "kind": "prefill_batch", "prefill_tokens": 8_192, "phase": "prefill"}] * 9
    rows = [*[batch(400, 10, "decode")] * 8, *prompts, *[batch(60, 10, "mixed")] * 6]

    finding = found(
        prefill_stalls_decode.check(measures(intervals=numbered(rows), setup={"engine": "sglang"}))
    )

    assert "6 batches" in finding.why
    assert finding.fixes[0].apply == "--chunked-prefill-size 2048 --enable-mixed-chunk"
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(6 * 40_000 * 10 / 60 * (1 - 6 / 40), rel=0.01)


def beside_prompts(prompt_ms: float, decode_ms: float) -> list[dict[str, Any]]:
    """Answers alone at 20 ms a token; later ones, each beside a prompt that is read for so long."""
    alone = [at(10_000.0 * i, 100.0, 2_000.0) for i in range(10)]
    stalled = [at(200_000.0 + 60_000 * i, 100.0, decode_ms) for i in range(6)]
    readers = [at(200_200.0 + 60_000 * i, prompt_ms, 20.0, output_tokens=2) for i in range(6)]
    return [*alone, *stalled, *readers]


def test_requests_beside_prompts() -> None:
    finding = found(prefill_stalls_decode.check(measures(beside_prompts(8_000.0, 10_000.0))))

    assert finding.requests == 6
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(6 * 8_000, rel=0.02)
    assert finding.fixes[0].apply == "-b 512"
    assert "8.0 s" in finding.why


def test_slow_answers_that_prompts_do_not_explain() -> None:
    slow = measures(beside_prompts(3_000.0, 12_000.0))
    little = measures(beside_prompts(1_000.0, 3_000.0))

    assert "sharing" in prefill_stalls_decode.check(slow).reason  # type: ignore[union-attr]
    assert isinstance(prefill_stalls_decode.check(little), NotApplicable)


# --- kv-pool-full-preempt


def thrown(n: int, every_s: float, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "kind": "preempted",
            "line": 10 * i,
            "value": 2.0,
            "time": NOON + timedelta(seconds=every_s * i),
            **more,
        }
        for i in range(1, n + 1)
    ]


def full_windows(n: int) -> list[dict[str, Any]]:
    return [
        window(500.0, 40, kv_usage=0.99, line=10 * i + 1, time=NOON + timedelta(seconds=10 * i))
        for i in range(n)
    ]


@pytest.mark.parametrize(
    ("setup", "fixes"),
    [
        ({"engine": "vllm"}, ["kv-pool", "kv-type", "slots"]),
        ({"engine": "vllm", "memory_share": 0.95}, ["kv-type", "slots"]),
        ({"engine": "vllm", "memory_share": 0.97, "kv_type_k": "fp8"}, ["slots"]),
    ],
)
def test_preempted_requests(setup: dict[str, Any], fixes: list[str]) -> None:
    m = measures(
        intervals=full_windows(30), events=[{**e, "engine": "vllm"} for e in thrown(6, 40)], setup=setup
    )

    finding = found(kv_pool_full_preempt.check(m))

    assert finding.confidence is Confidence.CERTAIN
    assert finding.requests == 12
    assert finding.saving is None
    assert "40 running at once" in finding.why
    assert [fix.knob for fix in finding.fixes] == fixes
    assert finding.fixes[-1].apply == "--max-num-seqs 30"


def test_a_burst_and_a_full_cache_are_no_fault() -> None:
    burst = measures(intervals=full_windows(30), events=thrown(4, 1), setup={"engine": "vllm"})
    full = measures(intervals=full_windows(30), setup={"engine": "vllm"})

    assert "burst" in kv_pool_full_preempt.check(burst).reason  # type: ignore[union-attr]
    assert isinstance(kv_pool_full_preempt.check(full), NotApplicable)


# --- concurrency-over-saturated


def waves(ms_per_token: dict[int, float]) -> list[dict[str, Any]]:
    """At each level, ten waves of that many answers of 100 tokens, started together."""
    rows: list[dict[str, Any]] = []
    begin = 0.0
    for level, ms in ms_per_token.items():
        for _ in range(10):
            rows += [at(begin, 10.0, 100 * ms, prompt_tokens=20) for _ in range(level)]
            begin += 100 * ms + 1_000
    return rows


def test_twice_the_requests_for_nothing() -> None:
    finding = found(concurrency_over_saturated.check(measures(waves({1: 20, 4: 25, 8: 50}))))

    assert finding.confidence is Confidence.LIKELY
    assert finding.fixes[0].apply == "-np 4"
    assert finding.requests == 80
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(80 * 5_000 * 0.25, rel=0.01)
    assert finding.saving.bound == "at_most"


def test_batching_that_still_gains() -> None:
    gains = measures(waves({1: 20, 4: 22, 8: 30}))
    few = measures(waves({1: 20, 2: 40}))

    assert isinstance(concurrency_over_saturated.check(gains), NotApplicable)
    assert isinstance(concurrency_over_saturated.check(few), NotApplicable)
    assert isinstance(concurrency_over_saturated.check(read(f"{B}/d_parallel4_12req")), CannotTell)


def test_decode_batches_at_two_levels() -> None:
    rows = numbered([*[batch(704, 32, "decode")] * 6, *[batch(195, 64, "decode")] * 6])

    finding = found(concurrency_over_saturated.check(measures(intervals=rows, setup={"engine": "sglang"})))

    assert finding.saving is None
    assert finding.fixes[0].apply == "--max-running-requests 32"
    assert [ref.line for ref in finding.evidence[-1].lines] == [7, 8, 9]


# --- client-too-slow


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_client_with_four_workers(engine: str) -> None:
    rows = [window(110.0, 4)] * 60 if engine == "vllm" else [batch(110, 4, "decode", span_ms=1e4)] * 60
    m = measures(intervals=numbered(rows), setup={"engine": engine, "max_running": 256})

    finding = found(client_too_slow.check(m))

    assert finding.confidence is Confidence.POSSIBLE
    assert not finding.fault
    assert finding.saving is None
    assert finding.fixes[0].apply.startswith("16 requests in flight")


@pytest.mark.parametrize(
    ("rows", "limit"),
    [
        ([window(110.0, 4)] * 20, 256),
        ([window(110.0, 4), window(0.0, 0, phase="idle")] * 60, 256),
        ([window(110.0, 4), window(900.0, 40)] * 60, 256),
        ([window(110.0, 4, waiting=1)] * 60, 256),
        ([window(110.0, 4, kv_usage=0.8)] * 60, 256),
        ([window(110.0, 4)] * 60, 4),
    ],
    ids=["three minutes", "pauses", "people", "a queue", "a full cache", "at its limit"],
)
def test_other_reasons_for_few_requests(rows: list[dict[str, Any]], limit: int) -> None:
    m = measures(intervals=numbered(rows), setup={"engine": "vllm", "max_running": limit})

    assert isinstance(client_too_slow.check(m), NotApplicable)


def test_a_cache_of_unknown_fill_is_not_an_empty_one() -> None:
    untold = [*[window(110.0, 4, kv_usage=None)] * 60, *[window(0.0, 0, phase="idle")] * 2]
    m = measures(intervals=numbered(untold), setup={"engine": "vllm", "max_running": 256})

    assert isinstance(client_too_slow.check(m), CannotTell)


# --- batching-pays


def loop(n: int = 40, pause_ms: float = 5.0, prefill_ms: float = 400.0) -> list[dict[str, Any]]:
    """A program's loop: 600 tokens read, 100 generated at 50 tok/s, prompts of any length."""
    step_ms = prefill_ms + 2_000 + pause_ms
    return [
        at(step_ms * i, prefill_ms, 2_000.0, prompt_tokens=600 + 37 * i % 101, cached_tokens=0, slot=0)
        for i in range(n)
    ]


GPU = Machine(device="NVIDIA GeForce RTX 3090")


def test_a_loop_that_sends_one_at_a_time() -> None:
    finding = found(batching_pays.check(measures(loop(), machine=GPU)))

    prefill, decode = 600 / 0.4, 50
    assert finding.confidence is Confidence.POSSIBLE
    assert not finding.fault
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(80_000 * (1 - (1 + 3 * decode / prefill) / 4), rel=0.03)
    assert finding.saving.bound == "at_most"
    assert finding.fixes[0].apply == "4 workers in the client"


@pytest.mark.parametrize(
    ("rows", "setup"),
    [
        (loop(20), {}),
        (loop(pause_ms=3_000), {}),
        ([{**r, "prompt_tokens": 600 + 100 * i} for i, r in enumerate(loop())], {}),
        (loop(), {"experts": 64}),
        (loop(), {"speculative": "draft"}),
        (loop(prefill_ms=8_000.0), {}),
        (loop(), {"layers_offloaded": 0}),
    ],
    ids=["few", "a person", "a conversation", "a mixture", "speculation", "slow prefill", "on the CPU"],
)
def test_loops_that_would_not_gain(rows: list[dict[str, Any]], setup: dict[str, Any]) -> None:
    assert isinstance(batching_pays.check(measures(rows, setup=setup)), NotApplicable)
