from __future__ import annotations

from typing import Any

import pytest

from rules.decode import at_bandwidth_ceiling
from rules.hardware import Machine
from rules.rule import CannotTell, Confidence, Finding, NotApplicable
from rules.speculation import spec_try, spec_unprofitable
from tests.rules.helpers import measures, read

ON_4090 = {
    "architecture": "llama",
    "parameters": 8_030_000_000,
    "quantization": "Q4_K_M",
    "weights_bytes": 4_920_000_000,
    "layers": 32,
    "kv_heads": 8,
    "head_dim_k": 128,
    "head_dim_v": 128,
    "experts": 0,
    "sliding_window": 0,
    "slots": 1,
    "layers_offloaded": 33,
    "layers_offloadable": 33,
}
GPU = Machine(device="NVIDIA GeForce RTX 4090")


def found(answer: object) -> Finding:
    assert isinstance(answer, Finding), answer
    return answer


def answers(tok_s: float, n: int = 8, output: int = 117, **more: Any) -> list[dict[str, Any]]:
    row = {"prompt_tokens": 30, "prefill_tokens": 30, "prefill_ms": 20.0, "output_tokens": output, **more}
    return [{**row, "decode_ms": 1_000 * output / tok_s} for _ in range(n)]


# --- spec-unprofitable

D16 = {"draft_tokens": 1_378, "accepted_tokens": 96}
DRAFT = {"speculative": "draft", "engine_version": "b10068"}


def test_d16_long_drafts_of_which_few_are_accepted() -> None:
    """96 of 1,378 drafted tokens accepted, 64 at a time: 41 tok/s where the model alone gives 135."""
    m = measures(answers(41, **D16), setup=DRAFT)

    finding = found(spec_unprofitable.check(m))

    assert finding.confidence is Confidence.LIKELY
    assert finding.saving is not None
    length, accepted = 1_378 / 21, 96 / 1_378
    without = (1 + accepted * length) / (1 + 0.2 * length)
    assert finding.saving.ms == pytest.approx(8 * 117_000 / 41 * (1 - without), rel=0.01)
    assert [fix.apply for fix in finding.fixes] == [
        "--spec-draft-n-max 4 --spec-draft-p-min 0.75",
        "no -md and no --spec-type",
    ]
    assert "768 of 11,024 drafted tokens" in finding.why
    assert finding.evidence[0].value == pytest.approx(0.0697, abs=1e-4)
    assert [ref.line for ref in finding.evidence[0].lines] == [1, 2, 3]
    assert not isinstance(at_bandwidth_ceiling.check(m), Finding)


def test_old_builds_have_other_switches() -> None:
    m = measures(answers(41, **D16), setup={**DRAFT, "engine_version": "b6500"})

    assert [fix.apply for fix in found(spec_unprofitable.check(m)).fixes] == [
        "--draft-max 4 --draft-p-min 0.75",
        "no -md",
    ]


def test_measured_without_a_draft() -> None:
    """Accepted nearly always, and still slower: only the comparison tells."""
    rows = [*answers(51, draft_tokens=100, accepted_tokens=97, run=0), *answers(120, run=1)]

    finding = found(spec_unprofitable.check(measures(rows, setup=DRAFT)))

    assert finding.confidence is Confidence.LIKELY
    assert finding.requests == 8
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(8 * 117_000 * (1 / 51 - 1 / 120), rel=0.01)
    assert "20 ms with the draft and 8.3 ms without" in finding.why


def test_predicted_without_a_draft() -> None:
    slow = measures(
        answers(60, draft_tokens=100, accepted_tokens=80), setup={**ON_4090, **DRAFT}, machine=GPU
    )
    fast = measures(
        answers(220, draft_tokens=100, accepted_tokens=80), setup={**ON_4090, **DRAFT}, machine=GPU
    )

    assert "predicted for this device" in found(spec_unprofitable.check(slow)).why
    assert isinstance(spec_unprofitable.check(fast), NotApplicable)


@pytest.mark.parametrize("build", ["llama-server-b11434", "llama-server-mid2025"])
def test_a_high_acceptance_alone_tells_nothing(build: str) -> None:
    """Real: a draft as large as its target, 52 tok/s with it and 120 without, which no line says."""
    answer = spec_unprofitable.check(read(f"{build}/h_spec_draft_same_model"))

    assert isinstance(answer, CannotTell)
    assert "run a few requests without it" in answer.reason


@pytest.mark.parametrize(
    ("rows", "setup"),
    [
        (answers(41, **D16), {"speculative": "ngram-mod"}),
        (answers(41), {}),
        ([*answers(150, draft_tokens=100, accepted_tokens=60), *answers(100, run=1)], DRAFT),
    ],
    ids=["n-grams are free", "no speculation", "it pays"],
)
def test_drafts_that_do_no_harm(rows: list[dict[str, Any]], setup: dict[str, Any]) -> None:
    assert isinstance(spec_unprofitable.check(measures(rows, setup=setup)), NotApplicable)


def test_what_is_unknown_is_not_held_against_the_draft() -> None:
    acceptance = measures(answers(41, draft_tokens=1_378), setup=DRAFT)
    kind = measures(answers(41, **D16))

    assert isinstance(spec_unprofitable.check(acceptance), CannotTell)
    assert isinstance(spec_unprofitable.check(kind), CannotTell)


@pytest.mark.parametrize(
    ("length", "setup", "speaks"),
    [
        (1.05, {"speculative": "eagle3", "draft_max": 5}, True),
        (1.08, {"speculative": "eagle3"}, True),
        (2.6, {"speculative": "eagle3", "draft_max": 3}, False),
        (1.05, {"speculative": "ngram", "draft_max": 5}, False),
        (2.6, {"speculative": "eagle3"}, False),
    ],
)
def test_windows_with_an_accepted_length(length: float, setup: dict[str, Any], *, speaks: bool) -> None:
    window = {"kind": "window", "span_ms": 1e4, "decode_tok_s": 50.0, "running": 1, "phase": "decode"}
    rows = [{**window, "engine": "vllm", "accept_length": length, "line": i} for i in range(1, 9)]
    answer = spec_unprofitable.check(measures(intervals=rows, setup={"engine": "vllm", **setup}))

    assert isinstance(answer, Finding) == speaks
    if isinstance(answer, Finding):
        assert answer.saving is None
        assert "draft" in answer.fixes[0].title.lower() or "speculative" in answer.fixes[0].title.lower()


# --- spec-try


def test_long_answers_at_the_ceiling() -> None:
    m = measures(answers(129, output=800), setup=ON_4090, machine=GPU)

    finding = found(spec_try.check(m))

    assert finding.confidence is Confidence.POSSIBLE
    assert not finding.fault
    assert finding.saving is None
    assert finding.fixes[0].apply == "--spec-type ngram-mod"
    worth = next(e.value for e in finding.evidence if "would save" in e.label)
    assert worth == pytest.approx(8 * 800_000 / 129 / 3, rel=0.01)


@pytest.mark.parametrize(
    ("rows", "setup", "machine"),
    [
        (answers(129, output=300), ON_4090, GPU),
        (answers(60, output=800), ON_4090, GPU),
        (answers(129, output=800), {**ON_4090, "experts": 64}, GPU),
        (answers(129, output=800), {**ON_4090, "speculative": "draft"}, GPU),
        (answers(129, output=800), {**ON_4090, "layers_offloaded": 0}, GPU),
        ([{**r, "prefill_ms": 30_000.0} for r in answers(129, output=800)], ON_4090, GPU),
    ],
    ids=["short and fast", "below the ceiling", "a mixture", "in use", "on the CPU", "prefill leads"],
)
def test_where_a_draft_is_not_the_next_thing(
    rows: list[dict[str, Any]], setup: dict[str, Any], machine: Machine
) -> None:
    assert isinstance(spec_try.check(measures(rows, setup=setup, machine=machine)), NotApplicable)


def test_the_ceiling_must_be_known() -> None:
    unknown = {**ON_4090, "weights_bytes": None}

    assert isinstance(
        spec_try.check(measures(answers(129, output=800), setup=unknown, machine=GPU)), CannotTell
    )
