"""Caveats about what the numbers may be compared with: warm-up, depth, tails, languages, contradictions."""

from __future__ import annotations

from typing import Any

import pytest

from rules.catalogue import all_caveats
from tests.rules.helpers import measures, read

CHECKS = {caveat.id: caveat.check for caveat in all_caveats()}
CHAT: dict[str, Any] = {
    "slot": 0,
    "prompt_tokens": 1_000,
    "cached_tokens": 0,
    "prefill_ms": 500.0,
    "output_tokens": 200,
    "decode_ms": 4_000.0,
    "ttft_ms": 500.0,
}


def said(caveat: str, rows: list[dict[str, Any]], **more: Any) -> str:
    answer = CHECKS[caveat](measures(rows, **more))
    assert answer is None or answer.id == caveat
    return answer.text if answer else ""


def test_the_first_request_after_a_start_is_slow() -> None:
    rows = [{**CHAT, "prefill_ms": 1_700.0}, *([CHAT] * 6)]
    text = said("warm-up", rows, setup={"slots": 1})
    assert text.startswith("The first request after a start took 1.7 s to read its prompt where 500 ms")
    slow_answer = [{**CHAT, "decode_ms": 9_000.0}, *([CHAT] * 6)]
    assert "took 9.0 s to generate its answer where 4.0 s" in said("warm-up", slow_answer, setup={"slots": 1})


def test_a_log_without_its_start_has_no_first_request() -> None:
    assert not said("warm-up", [{**CHAT, "prefill_ms": 1_700.0}, *([CHAT] * 6)])


def test_the_first_request_of_a_larger_model_is_not_compared_with_a_smaller_one() -> None:
    small, large = ({"model": name, "slots": 1} for name in ("small.gguf", "large.gguf"))
    slow = {**CHAT, "prefill_ms": 4_000.0, "decode_ms": 60_000.0, "run": 1}
    rows = [{**row, "line": i} for i, row in enumerate([CHAT] * 12 + [slow] * 6, 1)]
    assert not said("warm-up", rows, setups=[small, large])
    rows[12] = {**rows[12], "decode_ms": 120_000.0}
    assert "took 2 min 0 s to generate its answer where 60.0 s" in said(
        "warm-up", rows, setups=[small, large]
    )


def test_a_slow_request_in_the_middle_is_no_warm_up() -> None:
    assert not said("warm-up", [CHAT, {**CHAT, "prefill_ms": 1_700.0}, *([CHAT] * 6)], setup={"slots": 1})


def test_depth_makes_tokens_slower() -> None:
    depths = [500 * 2**i for i in range(6)] * 2
    rows = [
        {**CHAT, "prompt_tokens": d, "decode_ms": 199 * (8 + 0.0004 * (d + 100)), "decode_steps": 199}
        for d in depths
    ]
    text = said("context-confound", rows)
    assert "A token takes 8.2 ms with 600 tokens in the context and 14.4 ms with 16,100" in text
    flat = [{**row, "decode_ms": 199 * 8.0} for row in rows]
    assert not said("context-confound", flat)


@pytest.mark.parametrize(
    ("slow", "because"),
    [
        ({"prompt_tokens": 9_000, "prefill_ms": 6_000.0, "ttft_ms": 6_000.0}, "read 9,000 tokens of prompt"),
        ({"queue_ms": 6_000.0, "ttft_ms": 6_500.0}, "it is waiting for a slot that takes longer"),
        ({"load_ms": 6_000.0, "ttft_ms": 6_500.0}, "it is loading the model that takes longer"),
        ({"ttft_ms": 6_500.0}, "does not say what makes the slow ones slow"),
    ],
)
def test_a_tail_is_explained_by_what_differs(slow: dict[str, Any], because: str) -> None:
    rows = [{**CHAT, "queue_ms": 0.0, **(slow if i % 12 == 5 else {})} for i in range(36)]
    text = said("tail", rows)
    assert text.startswith("One request in twenty waits 6.")
    assert because in text


def test_loads_explain_a_tail_that_not_all_of_them_are_in() -> None:
    loaded = {**CHAT, "load_ms": 8_000.0, "ttft_ms": 8_500.0}
    long = {**CHAT, "prefill_ms": 6_000.0, "ttft_ms": 6_000.0}
    rows = [CHAT] * 33 + [loaded, long, long, loaded, loaded]
    assert "it is loading the model" in said("tail", rows)


def test_no_tail_without_enough_requests_or_difference() -> None:
    slow = {**CHAT, "ttft_ms": 6_500.0}
    assert not said("tail", [CHAT] * 16 + [slow] * 3)
    assert not said("tail", [CHAT] * 30 + [{**CHAT, "ttft_ms": 1_200.0}] * 4)


def test_feel_is_said_where_generating_takes_the_time() -> None:
    slow = {**CHAT, "decode_ms": 20_000.0}
    text = said("feel", [slow] * 6)
    assert text.startswith("10.0 tok/s is about 47 characters a second in English and 16 in Korean")
    assert not said("feel", [{**slow, "prefill_ms": 90_000.0}] * 6)
    assert not said("feel", [slow] * 4)
    assert not said("feel", [CHAT] * 6)


def test_a_contradiction_names_both_values_and_origins() -> None:
    m = measures([CHAT], setup={"context": 4096})
    assert CHECKS["setup-contradiction"](m) is None
    m.setup.disputed["context"] = "8192 by /props"
    caveat = CHECKS["setup-contradiction"](m)
    assert caveat is not None
    assert caveat.text == "context is 4096 by log line 1 and 8192 by /props: the first is used."


def test_real_logs_of_one_quiet_client_have_no_tail_and_no_depth() -> None:
    for log in ("pairs/rag_chunks/before", "llama-server-b11434/a_short_default"):
        m = read(log)
        assert [c for c in ("tail", "context-confound", "setup-contradiction") if CHECKS[c](m)] == []
