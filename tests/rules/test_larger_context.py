"""A larger context, where answers or prompts were cut: as much as the model was trained for, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from rules.contexts import doubled_context, larger_context, trained_for
from rules.decode import finish_by_length
from rules.prefill import prompt_truncated
from rules.rule import Finding
from tests.rules.helpers import measures


def cut_answers(**facts: Any) -> Finding:
    rows = [{"prompt_tokens": 100, "output_tokens": 3_996, "finish_reason": "length"}] * 4
    rows += [{"prompt_tokens": 100, "output_tokens": 70, "finish_reason": "stop"}] * 6
    answer = finish_by_length.check(measures(rows, setup={"context": 4_096, "slots": 4, **facts}))
    assert isinstance(answer, Finding)
    return answer


def refused(over: float, **facts: Any) -> Finding:
    cut = {"kind": "context_exceeded", "line": 7, "value": over}
    answer = prompt_truncated.check(measures(events=[cut], setup={"context": 4_096, **facts}))
    assert isinstance(answer, Finding)
    return answer


@pytest.mark.parametrize(
    ("trained", "unified", "switch"),
    [
        (131_072, False, "-c 32768"),
        (131_072, True, "-c 8192"),
        (6_000, True, "-c 6000"),
        (None, True, "-c 8192"),
    ],
)
def test_cut_answers_get_the_context_that_the_model_can_use(
    trained: int | None, switch: str, *, unified: bool
) -> None:
    finding = cut_answers(context_trained=trained, kv_unified=unified)

    assert finding.fixes[0].apply == switch
    assert finding.wont_help == ()


def test_no_context_beyond_what_the_model_was_trained_for() -> None:
    finding = cut_answers(context_trained=4_096, kv_unified=True)

    assert [fix.knob for fix in finding.fixes] == ["stop-sequences"]
    assert "4,096" in finding.wont_help[0]


def test_headroom_ends_where_the_training_ends() -> None:
    assert refused(3_904.0, context_trained=8_192).fixes[0].apply == "-c 8192"
    assert refused(3_904.0).fixes[0].apply == "-c 10240"
    assert refused(1_000.0, context_trained=8_192).fixes[0].apply == "-c 6144"


def test_a_filled_context_of_all_that_was_trained_is_no_small_one() -> None:
    shifted = {"kind": "context_shift", "line": 7, "value": 2_000.0}
    m = measures(events=[shifted], setup={"context": 8_192, "context_trained": 8_192})
    finding = prompt_truncated.check(m)

    assert isinstance(finding, Finding)
    assert [fix.knob for fix in finding.fixes] == ["history"]
    assert finding.wont_help == trained_for(m)
    assert larger_context(m, 16_384) is None


@pytest.mark.parametrize(("trained", "there"), [(16_384, 1), (16_383, 0), (None, 0)])
def test_twice_the_context_only_where_it_was_trained(trained: int | None, there: int) -> None:
    assert len(doubled_context(measures(setup={"context": 8_192, "context_trained": trained}))) == there


def test_a_cap_that_cut_answers_is_raised_and_not_called_a_cap() -> None:
    rows = [{"prompt_tokens": 100, "output_tokens": 128, "finish_reason": "length"}] * 4
    rows += [{"prompt_tokens": 100, "output_tokens": 70, "finish_reason": "stop"}] * 6
    finding = finish_by_length.check(measures(rows))

    assert isinstance(finding, Finding)
    assert finding.fixes[0].title == "Let answers run to 256 tokens"
    assert finding.fixes[0].knob == "output-tokens"
    assert "cut off" not in finding.fixes[0].cost
