from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rules.load import reload_each_request
from rules.queue import queue_wait
from rules.rule import CannotTell, Confidence, Finding, NotApplicable
from tests.rules.helpers import measures, read

B = "llama-server-b11434"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def found(answer: object) -> Finding:
    assert isinstance(answer, Finding), answer
    return answer


# --- queue


def waiting(queue_ms: float, requests: int = 20) -> list[dict[str, Any]]:
    row = {"engine": "tabbyapi", "prompt_tokens": 500, "prefill_ms": 500.0, "output_tokens": 100}
    return [{**row, "decode_ms": 2_500.0, "queue_ms": queue_ms} for _ in range(requests)]


def test_logged_waits() -> None:
    finding = found(queue_wait.check(measures(waiting(3_000.0), setup={"max_running": 2})))

    assert finding.confidence is Confidence.LIKELY
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(30_000)
    assert finding.saving.bound == "at_most"
    assert "4 requests at once" in finding.fixes[0].apply


def test_short_waits_are_no_queue() -> None:
    assert isinstance(queue_wait.check(measures(waiting(100.0))), NotApplicable)


def windows(waits: list[int], kv_usage: float = 0.2) -> list[dict[str, Any]]:
    return [
        {
            "engine": "vllm",
            "line": i,
            "kind": "window",
            "running": 4,
            "waiting": n,
            "kv_usage": kv_usage,
            "phase": "queue" if n >= 4 else "mixed",
        }
        for i, n in enumerate(waits, 1)
    ]


@pytest.mark.parametrize(
    ("kv_usage", "knobs"),
    [(0.2, ["slots"]), (0.96, ["kv-pool", "kv-type"])],
    ids=["too few slots", "no memory"],
)
def test_windows_with_requests_waiting(kv_usage: float, knobs: list[str]) -> None:
    m = measures(intervals=windows([0, 8, 5, 3, 0], kv_usage), setup={"engine": "vllm", "max_running": 4})

    finding = found(queue_wait.check(m))

    assert finding.confidence is Confidence.LIKELY
    assert finding.saving is None
    assert "3 of 5 busy windows" in finding.why
    assert "up to 8" in finding.why
    assert [fix.knob for fix in finding.fixes] == knobs
    assert bool(finding.wont_help) == ("kv-pool" in knobs)


def test_one_crowded_window_in_an_hour() -> None:
    m = measures(intervals=windows([0] * 30 + [2]), setup={"engine": "vllm"})

    assert isinstance(queue_wait.check(m), NotApplicable)


def test_a_switch_is_a_number() -> None:
    capped = {"engine": "vllm", "max_running": 4}
    found_running = found(queue_wait.check(measures(intervals=windows([8, 8, 8]), setup=capped)))
    unknown = found(queue_wait.check(measures(waiting(3_000.0))))

    assert found_running.fixes[0].apply == "--max-num-seqs 8"
    assert unknown.fixes[0].apply == "more requests at once, or a second replica"


def ollama(arrival_s: float, wait_s: float) -> dict[str, Any]:
    """A request whose latency holds a wait that no phase names, then two seconds of work."""
    begun = NOON + timedelta(seconds=arrival_s)
    phases = {"prefill_ms": 300.0, "decode_ms": 1_700.0, "total_ms": 2_010 + 1_000 * wait_s}
    ended = begun + timedelta(milliseconds=phases["total_ms"])
    return {"engine": "ollama", "started_at": begun, "finished_at": ended, **phases}


def test_ollama_latency_beyond_its_phases_may_be_waiting() -> None:
    rows = [ollama(0, 0), *(ollama(2 * max(i - 3, 0), min(2 * i, 6)) for i in range(1, 16))]

    finding = found(queue_wait.check(measures(rows, setup={"engine": "ollama", "slots": 1})))

    assert finding.confidence is Confidence.POSSIBLE
    assert finding.saving is None
    assert finding.requests == 15
    assert finding.fixes[0].apply == "OLLAMA_NUM_PARALLEL=2"
    assert "one after the other" in finding.verify


def test_no_more_slots_where_layers_are_on_the_cpu_for_want_of_memory() -> None:
    rows = [ollama(0, 0), *(ollama(2 * max(i - 3, 0), min(2 * i, 6)) for i in range(1, 16))]
    split = {"engine": "ollama", "slots": 1, "layers_offloaded": 20, "layers_offloadable": 33}

    assert found(queue_wait.check(measures(rows, setup=split))).fixes[0].apply == "a second server"


def test_ollama_latency_of_a_lone_request_is_no_queue() -> None:
    slow = [ollama(20 * i, 6) for i in range(16)]
    quick = [ollama(3 * i, 0) for i in range(16)]

    for rows in (slow, quick):
        assert isinstance(queue_wait.check(measures(rows, setup={"engine": "ollama"})), CannotTell)


def test_twelve_requests_on_four_slots() -> None:
    finding = found(queue_wait.check(read(f"{B}/d_parallel4_12req")))

    assert finding.confidence is Confidence.POSSIBLE
    assert finding.saving is None
    assert finding.requests == 8
    assert "or 4 clients each send their next request when the last one is done" in finding.why
    assert "requests_deferred" in finding.verify
    assert finding.fixes[0].apply == "-np 8"


def test_a_cancelled_request_blocks_the_next() -> None:
    finding = found(queue_wait.check(read(f"{B}/f_client_disconnect")))

    assert finding.confidence is Confidence.POSSIBLE
    assert "9.3 s after the client had left" in finding.why
    assert [fix.apply for fix in finding.fixes] == ["-b 256"]


@pytest.mark.parametrize(
    "log",
    ["c1_multiturn_stable_prefix", "a_short_auto_np", "a_short_metrics", "b_rag_default", "k_multiturn_lv4"],
)
def test_one_client_after_another_is_no_queue(log: str) -> None:
    assert isinstance(queue_wait.check(read(f"{B}/{log}")), CannotTell)


def test_as_many_clients_as_slots_with_pauses() -> None:
    rows = [
        {
            "prefill_ms": 200.0,
            "decode_ms": 800.0,
            "slot": i % 2,
            "clock_start_ms": 600.0 * i,
            "clock_end_ms": 600.0 * i + 1_000,
        }
        for i in range(20)
    ]

    assert isinstance(queue_wait.check(measures(rows, setup={"slots": 2})), CannotTell)


# --- load


def aider(pause_s: float, *, clock: bool = True, requests: int = 12, **more: Any) -> list[dict[str, Any]]:
    """D06: a client whose num_ctx follows the prompt."""
    rows, at = [], NOON
    for i in range(requests):
        tokens = 4_000 + 1_000 * i
        phases = {"load_ms": 9_000.0, "prefill_ms": tokens / 1.5, "decode_ms": 350 / 0.038}
        end = at + timedelta(milliseconds=sum(phases.values()))
        row = {"engine": "ollama", "model": "coder", "prompt_tokens": tokens, "output_tokens": 350, **phases}
        rows.append({**row, **({"started_at": at, "finished_at": end} if clock else {}), **more})
        at = end + timedelta(seconds=pause_s)
    return rows


def starts(contexts: list[int]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    setups = [{"engine": "ollama", "model": "coder", "context": context} for context in contexts]
    return setups, [{"kind": "model_load", "line": i, "value": 9_000.0} for i in range(len(contexts))]


def test_d06_context_follows_the_prompt() -> None:
    setups, events = starts([int((4_000 + 1_000 * i) * 1.25) + 8_192 for i in range(12)])

    finding = found(reload_each_request.check(measures(aider(40), setups=setups, events=events)))

    assert finding.confidence is Confidence.CERTAIN
    assert finding.requests == 11
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(11 * 9_000)
    assert "13,192, 14,442" in finding.why
    assert [fix.title for fix in finding.fixes] == [
        "Send the same context size and load options in every request"
    ]
    assert "keep-alive" in finding.wont_help[0]


@pytest.mark.parametrize(
    ("rows", "confidence"),
    [(aider(40), Confidence.LIKELY), (aider(40, clock=False), Confidence.POSSIBLE)],
    ids=["pauses known", "pauses unknown"],
)
def test_loads_without_a_look_at_the_options(rows: list[dict[str, Any]], confidence: Confidence) -> None:
    finding = found(reload_each_request.check(measures(rows)))

    assert finding.confidence is confidence
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(11 * 9_000)


def test_same_options_point_at_the_keep_alive() -> None:
    setups, events = starts([8_192] * 12)

    finding = found(reload_each_request.check(measures(aider(40), setups=setups, events=events)))

    assert finding.confidence is Confidence.LIKELY
    assert finding.fixes[0].apply == "OLLAMA_KEEP_ALIVE=-1"


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(aider(300), id="after five minutes idle"),
        pytest.param(aider(40, requests=1), id="the first load"),
        pytest.param(aider(40, load_ms=40.0), id="already loaded"),
        pytest.param([{**row, "model": f"m{i % 2}"} for i, row in enumerate(aider(40))], id="two models"),
    ],
)
def test_loads_that_had_to_be(rows: list[dict[str, Any]]) -> None:
    assert isinstance(reload_each_request.check(measures(rows)), NotApplicable)


def test_one_load_in_a_long_log_is_no_matter() -> None:
    once = [{**row, "load_ms": None if i != 6 else 30_000.0} for i, row in enumerate(aider(40))]

    assert isinstance(reload_each_request.check(measures(once)), NotApplicable)
    assert "once" in found(reload_each_request.check(measures(once[5:8]))).title


def test_the_title_says_how_often() -> None:
    every = found(reload_each_request.check(measures(aider(40))))
    fourth = [{**row, "load_ms": None if i % 4 else 30_000.0} for i, row in enumerate(aider(40))]

    assert every.title == "The model is loaded again for request after request"
    assert "loaded again 2 times" in found(reload_each_request.check(measures(fourth))).title


def test_d08_embeddings_with_another_context() -> None:
    kinds = ["generation", "embedding"] * 6
    rows = [{**row, "kind": kind, "load_ms": 6_000.0} for kind, row in zip(kinds, aider(1), strict=True)]

    finding = found(reload_each_request.check(measures(rows)))

    assert finding.requests == 11
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(5 * 6_000)


def test_starts_alone_tell_when_no_request_shows_its_load() -> None:
    setups, events = starts([4_096, 32_000, 4_096])
    rows = [{"engine": "ollama", "total_ms": 20_000.0} for _ in range(3)]

    finding = found(reload_each_request.check(measures(rows, setups=setups, events=events)))

    assert finding.saving is None
    assert finding.confidence is Confidence.LIKELY
    assert "4,096, 32,000" in finding.why


def test_a_server_restarted_by_hand_is_no_reload() -> None:
    setups = [{"model": "m.gguf", "context": context} for context in (4_096, 8_192, 16_384)]
    rows = [{"prefill_ms": 100.0, "decode_ms": 900.0, "run": run} for run in range(3)]

    assert isinstance(reload_each_request.check(measures(rows, setups=setups)), CannotTell)
