from __future__ import annotations

from typing import Any

import pytest

from rules.decode import finish_by_length, runaway_repeat, thinking_tokens
from rules.queue import (
    batching_pays,
    client_too_slow,
    concurrency_over_saturated,
    kv_pool_full_preempt,
    prefill_stalls_decode,
)
from rules.rule import CannotTell, Confidence, Finding, NotApplicable
from rules.speculation import spec_try, spec_unprofitable
from tests.rules.helpers import LOGS, measures, read

THINKS = {"thinking": True, "model": "qwen3-8b", "engine_version": "b9000"}


def found(answer: object) -> Finding:
    assert isinstance(answer, Finding), answer
    return answer


def answer(tokens: int, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """An answer of so many tokens at 25 ms each."""
    row = {"prompt_tokens": 100, "prefill_ms": 200.0, "output_tokens": tokens, "decode_ms": 25.0 * tokens}
    return {**row, "finish_reason": finish, **more}


# --- thinking-tokens


def test_a_thinking_model_with_long_answers() -> None:
    finding = found(thinking_tokens.check(measures([answer(1_812)] * 10, setup=THINKS)))

    assert finding.confidence is Confidence.POSSIBLE
    assert not finding.fault
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(10 * 25 * 1_300)
    assert finding.saving.bound == "at_most"
    assert finding.fixes[0].apply == "--reasoning-budget 512"
    assert [ref.line for ref in finding.evidence[0].lines] == [1, 2, 3]


@pytest.mark.parametrize(
    ("engine", "version", "apply"),
    [
        ("llama-server", "b8000", "--reasoning-budget 0"),
        ("ollama", None, '"think": false'),
        ("vllm", None, '"chat_template_kwargs": {"enable_thinking": false}'),
        ("tabbyapi", None, "reasoning_budget_tokens: 512"),
    ],
)
def test_the_switch_of_each_engine(engine: str, version: str | None, apply: str) -> None:
    setup = {**THINKS, "engine": engine, "engine_version": version}
    m = measures([answer(1_812, engine=engine)] * 10, setup=setup)

    assert found(thinking_tokens.check(m)).fixes[0].apply == apply


@pytest.mark.parametrize(
    ("model", "speaks"),
    [
        ("DeepSeek-R1-Distill-Qwen-14B-Q4_K_M.gguf", True),
        ("/models/QwQ-32B-Q4_K_M.gguf", True),
        ("Qwen3-4B-Thinking-2507", True),
        ("gpt-oss:20b", True),
        ("Qwen3-30B-A3B-Non-Thinking", False),
        ("some_no-think_tune", False),
        ("Llama-3.1-8B-Instruct", False),
    ],
)
def test_names_of_models_that_think(model: str, *, speaks: bool) -> None:
    answers = thinking_tokens.check(measures([answer(1_812)] * 10, setup={"model": model}))

    assert isinstance(answers, Finding) == speaks


def test_long_answers_without_thoughts() -> None:
    plain = measures([answer(1_812)] * 10, setup={"thinking": False, "model": "llama-3.1-8b"})
    brief = measures([answer(400)] * 10, setup=THINKS)
    unknown = measures([answer(1_812)] * 10)

    assert isinstance(thinking_tokens.check(plain), NotApplicable)
    assert isinstance(thinking_tokens.check(brief), NotApplicable)
    assert isinstance(thinking_tokens.check(unknown), CannotTell)


# --- finish-by-length


def test_a_cap_that_is_too_short() -> None:
    rows = [*[answer(128, "length")] * 4, *[answer(70, "stop")] * 6]

    finding = found(finish_by_length.check(measures(rows)))

    assert finding.confidence is Confidence.LIKELY
    assert finding.quality
    assert finding.saving is None
    assert finding.requests == 4
    assert "4 of 10 answers" in finding.why
    assert "at 128 tokens" in finding.why
    assert finding.fixes[0].apply == '"max_tokens": 256'
    assert [ref.line for ref in finding.evidence[0].lines] == [1, 2, 3]


def test_a_model_that_does_not_stop() -> None:
    rows = [*[answer(4_096, "length")] * 4, *[answer(70, "stop")] * 6]

    assert "stop" in found(finish_by_length.check(measures(rows))).fixes[0].apply


def test_a_full_context() -> None:
    rows = [*[answer(3_996, "length", context_tokens=4_096)] * 4, *[answer(70, "stop")] * 6]
    m = measures(rows, setup={"context": 4_096, "slots": 2})

    finding = found(finish_by_length.check(m))

    assert "the context of 4,096 tokens was full" in finding.why
    assert finding.fixes[0].apply == "-c 16384"


def test_one_length_for_all_may_be_asked_for() -> None:
    assert (
        found(finish_by_length.check(measures([answer(128, "length")] * 8))).confidence is Confidence.POSSIBLE
    )


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([answer(128, "length"), *[answer(70, "stop")] * 9], NotApplicable),
        ([answer(1, "length")] * 20, NotApplicable),
        ([answer(128)] * 20, CannotTell),
        ([answer(128, "length")] * 3, CannotTell),
    ],
    ids=["one in ten", "classifiers", "not logged", "too few"],
)
def test_ends_that_are_no_fault(rows: list[dict[str, Any]], kind: type) -> None:
    assert isinstance(finish_by_length.check(measures(rows)), kind)


# --- runaway-repeat


@pytest.mark.parametrize(
    ("ended", "setup", "confidence"),
    [
        ({"finish": "length"}, {}, Confidence.LIKELY),
        ({"truncated": True}, {}, Confidence.LIKELY),
        ({"context_tokens": 8_190}, {"context": 8_192}, Confidence.POSSIBLE),
        ({}, {}, Confidence.POSSIBLE),
    ],
    ids=["said so", "truncated", "context full", "one greatest length"],
)
def test_two_answers_that_never_end(
    ended: dict[str, Any], setup: dict[str, Any], confidence: Confidence
) -> None:
    rows = [*[answer(100 + i) for i in range(48)], answer(8_000, **ended), answer(8_000, **ended)]

    finding = found(runaway_repeat.check(measures(rows, setup=setup)))

    assert finding.confidence is confidence
    assert finding.requests == 2
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(2 * 25 * (8_000 - 147), rel=0.01)
    assert [ref.line for ref in finding.evidence[0].lines] == [49, 50]
    assert [fix.knob for fix in finding.fixes] == ["stop-sequences", "output-tokens"]


@pytest.mark.parametrize(
    ("long", "kind"),
    [
        ([answer(8_000, "stop"), answer(8_000, "stop")], NotApplicable),
        ([answer(8_000), answer(7_100)], NotApplicable),
        ([answer(8_000, "length")] * 10, NotApplicable),
        ([answer(500, "length")], NotApplicable),
    ],
    ids=["ended by themselves", "nothing says that they were stopped", "no exception", "not that long"],
)
def test_long_answers_that_are_meant(long: list[dict[str, Any]], kind: type) -> None:
    rows = [*[answer(100 + i) for i in range(48)], *long]

    assert isinstance(runaway_repeat.check(measures(rows)), kind)


# --- all of them


def test_real_logs_give_none_of_these_rules_a_reason_to_speak() -> None:
    mine = (
        batching_pays,
        client_too_slow,
        concurrency_over_saturated,
        finish_by_length,
        kv_pool_full_preempt,
        prefill_stalls_decode,
        runaway_repeat,
        spec_try,
        spec_unprofitable,
        thinking_tokens,
    )
    logs = sorted(path.parent.relative_to(LOGS).as_posix() for path in LOGS.rglob("server.log"))
    spoke = [
        (log, rule.RULE.id)
        for log in logs
        for m in [read(log)]
        for rule in mine
        if isinstance(rule.check(m), Finding)
    ]

    assert len(logs) > 40
    assert not spoke
