"""A KV cache that keeps layers off the GPU, memory that runs out, contexts and slots of the wrong size."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.setup import Device
from rules.decode import partial_offload
from rules.memory import ctx_oversized, ctx_steals_layers, kv_oom_risk, np_splits_ctx
from rules.prefill import prompt_truncated
from rules.queue import slots_idle
from rules.ranking import combined, rank
from rules.rule import CannotTell, Confidence, Finding, NotApplicable
from rules.savings import decode_limited, output_capped, saved_ms, together
from rules.testing import complaints, measures
from tests.rules.helpers import read

GIB = 1 << 30
KIB_128 = 131_072.0
LLAMA_3_8B: dict[str, Any] = {
    "parameters": 8_030_000_000,
    "layers": 32,
    "kv_heads": 8,
    "head_dim_k": 128,
    "head_dim_v": 128,
    "experts": 0,
    "kv_bytes_per_token": KIB_128,
}
D09: dict[str, Any] = {
    **LLAMA_3_8B,
    "weights_bytes": int(4.33 * GIB),
    "layers_offloaded": 15,
    "layers_offloadable": 33,
    "kv_bytes": 16 * GIB,
    "context": 2_048,
    "context_total": 64 * 2_048,
    "slots": 64,
}
D10: dict[str, Any] = {
    "weights_bytes": int(87.3 * GIB),
    "layers_offloaded": 44,
    "layers_offloadable": 81,
    "kv_bytes": int(19.5 * GIB),
    "kv_bytes_per_token": 19.5 * GIB / 64_000,
    "context": 64_000,
    "slots": 1,
    "devices": [Device(name=f"GPU {i}", backend="CUDA", memory_bytes=22 * GIB) for i in range(4)],
}


def chats(n: int = 12, tok_s: float = 9.0, at_once: int = 3, **more: Any) -> list[dict[str, Any]]:
    """Equal requests, so many of them at a time."""
    row = {"prompt_tokens": 600, "cached_tokens": 0, "prefill_ms": 1_000.0, "output_tokens": 300}
    row |= {"decode_ms": 300_000.0 / tok_s, **more}
    span = 2 * (row["prefill_ms"] + row["decode_ms"])
    clock = [
        {"clock_start_ms": span * (i // at_once), "clock_end_ms": span * (i // at_once + 0.5)}
        for i in range(n)
    ]
    return [{**row, **clock[i], "slot": i % at_once} for i in range(n)]


def found(answer: object) -> Finding:
    assert isinstance(answer, Finding), answer
    return answer


def ms_saved(finding: Finding) -> float:
    assert finding.saving is not None
    return finding.saving.ms


# --- ctx-steals-layers


@pytest.mark.parametrize(
    ("engine", "slots"), [("llama-server", "-np 4 -c 8192"), ("ollama", "OLLAMA_NUM_PARALLEL=4")]
)
def test_d09_slots_that_nobody_uses_hold_the_layers_place(engine: str, slots: str) -> None:
    m = measures(chats(engine=engine), setup=D09)
    finding = found(ctx_steals_layers.check(m))

    assert finding.confidence is Confidence.LIKELY
    assert [fix.apply for fix in finding.fixes[:1]] == [slots]
    assert finding.fixes[-1].knob == "gpu-layers"
    assert "64 slots of 2,048 tokens take 16.0 GiB" in finding.why
    assert "18 of 33 layers (2.4 GiB) run on the CPU" in finding.why
    assert "takes 1.0 GiB and leaves room for all layers" in finding.why
    assert finding.evidence[0].lines[0].line == 1


def test_d10_less_context_adds_layers_and_the_weights_leave_no_room_for_all() -> None:
    rows = chats(8, 2.1, 1, prompt_tokens=8_700, engine="ollama")
    finding = found(ctx_steals_layers.check(measures(rows, setup=D10)))

    assert "leaves room for about 6 more" in finding.why
    assert "Weights of 87.3 GiB leave no room on 88.0 GiB" in finding.why
    assert "full offload needs a smaller quantization" in finding.why
    assert [fix.knob for fix in finding.fixes] == ["context", "kv-type", "weights-file"]
    assert finding.fixes[0].apply == '"num_ctx": 16384'
    assert "at most 79.0 GiB" in finding.fixes[2].title


def test_both_findings_of_one_fault_agree_and_save_it_once() -> None:
    for rows, setup in ((chats(engine="ollama"), D09), (chats(8, 2.1, 1, prompt_tokens=8_700), D10)):
        m = measures(rows, setup=setup)
        findings = [found(rule.check(m)) for rule in (ctx_steals_layers, partial_offload)]
        values: dict[str, set[str]] = {}
        for fix in (fix for finding in findings for fix in finding.fixes):
            values.setdefault(fix.knob, set()).add(fix.apply)

        assert all(len(applied) == 1 for applied in values.values())
        assert findings[0].fixes[0].knob in {fix.knob for fix in findings[1].fixes[:2]}
        assert ms_saved(findings[0]) <= ms_saved(findings[1])
        both = combined(findings, m)
        assert both is not None
        assert both.ms == pytest.approx(ms_saved(findings[1]), rel=0.01)
        assert {f.rule for f in rank(findings, m) if f.saving} == {"ctx-steals-layers", "partial-offload"}


@pytest.mark.parametrize(
    ("rows", "facts", "answer"),
    [
        pytest.param({"at_once": 48, "n": 96}, {}, NotApplicable, id="the slots are used"),
        pytest.param(
            {"prompt_tokens": 1_700}, {"slots": 4, "kv_bytes": GIB}, NotApplicable, id="so is the context"
        ),
        pytest.param({}, {"layers_offloaded": 33}, NotApplicable, id="all on the GPU"),
        pytest.param({}, {"kv_bytes": None}, CannotTell, id="cache unknown"),
        pytest.param({}, {"kv_bytes_per_token": None}, CannotTell, id="sliding window"),
        pytest.param({"prompt_tokens": None}, {}, CannotTell, id="lengths unknown"),
        pytest.param({"n": 3}, {}, CannotTell, id="too few"),
        pytest.param({"truncated": True}, {}, NotApplicable, id="D07: the context is too small"),
        pytest.param(
            {"prompt_tokens": 20_000},
            {
                "weights_bytes": int(9.6 * GIB),
                "gpu_weights_bytes": int(3.5 * GIB),
                "layers_offloaded": 42,
                "layers_offloadable": 43,
                "context": 32_768,
                "slots": 1,
                "kv_bytes": 2 * GIB,
                "kv_bytes_per_token": 65_536.0,
            },
            NotApplicable,
            id="D11: the output layer is larger than the cache",
        ),
    ],
)
def test_no_context_to_blame(rows: dict[str, Any], facts: dict[str, Any], answer: type) -> None:
    assert isinstance(ctx_steals_layers.check(measures(chats(**rows), setup={**D09, **facts})), answer)


@given(
    layers=st.integers(2, 90),
    on_gpu=st.integers(1, 89),
    slots=st.sampled_from([1, 2, 8, 64]),
    kv=st.floats(0, 300),
)
def test_freed_layers_are_layers_and_save_no_more_than_all_of_them(
    layers: int, on_gpu: int, slots: int, kv: float
) -> None:
    facts = {
        "layers_offloaded": on_gpu,
        "layers_offloadable": layers,
        "slots": slots,
        "kv_bytes": int(kv * GIB),
    }
    per_token = int(kv * GIB) / (slots * 16_384)
    m = measures(chats(), setup={**D09, **facts, "context": 16_384, "kv_bytes_per_token": per_token})
    answer = ctx_steals_layers.check(m)

    if isinstance(answer, Finding):
        freed = answer.evidence[3].value
        assert isinstance(freed, int)
        assert 0 < freed <= layers - on_gpu
        assert 0 < ms_saved(answer) <= ms_saved(found(partial_offload.check(m))) * 1.01


def test_limits_do_not_multiply_but_fewer_tokens_still_count() -> None:
    before = measures(chats(5, 10.0)).ledger
    half, third = decode_limited(before, 0.5), decode_limited(before, 1 / 3)

    assert saved_ms(before, together((half, third))).sum() == pytest.approx(5 * 20_000)
    assert saved_ms(before, together((half, output_capped(150)))).sum() == pytest.approx(5 * 22_500)
    assert saved_ms(before, together((output_capped(150), half))).sum() == pytest.approx(5 * 22_500)


# --- kv-oom-risk

ON_3090: dict[str, Any] = {
    **LLAMA_3_8B,
    "layers_offloaded": 33,
    "layers_offloadable": 33,
    "weights_bytes": 16 * GIB,
    "kv_bytes": 7 * GIB,
    "compute_bytes": GIB * 7 // 10,
    "context": 57_344,
    "slots": 1,
    "devices": [Device(name="NVIDIA GeForce RTX 3090", backend="CUDA", memory_bytes=24 * GIB)],
}


def test_failed_allocations_come_first() -> None:
    failed = {"kind": "out_of_memory", "line": 7, "detail": "could not allocate 5120.00 MiB"}
    finding = found(kv_oom_risk.check(measures(chats(20), setup=ON_3090, events=[failed])))

    assert finding.confidence is Confidence.CERTAIN
    assert finding.quality
    assert finding.saving is None
    assert finding.evidence[0].lines[0].line == 7
    assert "could not allocate 5120.00 MiB" in finding.why
    assert [fix.apply for fix in finding.fixes[:2]] == ["-c 2048", "-ctk q8_0 -ctv q8_0"]


@pytest.mark.parametrize(("line", "went_on"), [(7, True), (10_000, False)])
def test_it_went_on_only_where_requests_came_later(line: int, went_on: bool) -> None:
    rows = [{**row, "line": 100 + at} for at, row in enumerate(chats(20))]
    failed = {"kind": "out_of_memory", "line": line, "detail": "the engine died"}
    finding = found(kv_oom_risk.check(measures(rows, setup=ON_3090, events=[failed])))

    assert ("It went on serving." in finding.why) is went_on


@pytest.mark.parametrize(
    "log", ["llama-server-b11434/l_ctx_too_large", "llama-server-mid2025/l_ctx_too_large"]
)
def test_a_context_that_no_memory_holds(log: str) -> None:
    finding = found(kv_oom_risk.check(read(log)))

    assert finding.confidence is Confidence.CERTAIN
    assert "could not allocate 878906.25 MB" in finding.why
    assert finding.evidence[0].lines
    assert finding.fixes[0].apply == "-c <longest prompt + answer>"
    assert "gpu-layers" not in {fix.knob for fix in finding.fixes}


DEATH = {"kind": "out_of_memory", "engine": "vllm", "line": 900, "detail": "the engine died"}
USELESS = {"context", "kv-type", "gpu-layers"}
"""Knobs that free nothing where an engine fills its share of the memory whatever they say."""


def died(setup: dict[str, Any], running: int | None = None, **death: Any) -> Finding:
    """What is said of an engine that died for lack of memory, with so many requests at work."""
    engine = death.get("engine", "vllm")
    window = {"engine": engine, "kind": "window", "line": 800, "phase": "mixed", "running": running}
    facts = {"engine": engine, "devices": ON_3090["devices"], "context": 65_536, **setup}
    windows = [] if running is None else [window]
    return found(kv_oom_risk.check(measures(setup=facts, events=[{**DEATH, **death}], intervals=windows)))


def applied(finding: Finding) -> list[str]:
    return [fix.apply for fix in finding.fixes]


def test_an_engine_that_fills_its_share_of_the_memory_gets_a_smaller_share() -> None:
    finding = died({"memory_share": 0.92, "chunk_tokens": 8_192, "max_running": 256}, running=12)

    assert finding.confidence is Confidence.CERTAIN
    assert applied(finding) == [
        "--gpu-memory-utilization 0.87",
        "--max-num-batched-tokens 4096",
        "--max-num-seqs 6",
    ]
    assert "A shorter context" in finding.wont_help[0]
    assert "beside it" in finding.why


def test_what_the_log_does_not_say_is_left_to_the_reader() -> None:
    finding = died({})

    assert applied(finding) == [
        "--gpu-memory-utilization <0.05 less than now>",
        "--max-num-batched-tokens <half of now>",
        "--max-num-seqs <half of now>",
    ]


def test_fewer_requests_are_no_help_to_one_that_ran_alone() -> None:
    assert [fix.knob for fix in died({"max_running": 256}, running=1).fixes] == ["kv-pool", "batch"]
    assert "--max-num-batched-tokens 512" not in applied(died({"chunk_tokens": 512}))


def test_steps_hold_a_token_of_each_request() -> None:
    assert "--max-num-batched-tokens 1024" in applied(died({"chunk_tokens": 1_500, "max_running": 1_024}))


@pytest.mark.parametrize("engine", kv_oom_risk.PREALLOCATING)
def test_no_such_engine_is_told_to_do_what_frees_nothing(engine: str) -> None:
    finding = died({}, engine=engine)

    assert not USELESS & {fix.knob for fix in finding.fixes}
    assert all(fix.apply.startswith("--") for fix in finding.fixes)
    assert len(finding.fixes) == 3


def test_weights_that_do_not_fit_are_not_freed_by_a_smaller_share() -> None:
    start = "the engine did not start: could not allocate 2.00 GiB"
    unknown = died({"quantization": "BF16"}, detail=start)
    loaded = died({"quantization": "BF16", "weights_bytes": 14 * GIB}, detail=start)
    small = died({"quantization": "awq"}, detail=start)

    assert unknown.fixes[-1].apply == "a 4-bit AWQ or GPTQ checkpoint of the model"
    assert "its weights alone" in unknown.why
    assert {fix.knob for fix in loaded.fixes} == {"kv-pool", "batch", "slots"}
    assert "its weights alone" not in loaded.why
    assert small.fixes[-1].knob == "model"


def test_the_start_that_failed_names_the_values() -> None:
    starts = [{"engine": "vllm", "memory_share": share} for share in (0.95, 0.9)]
    m = measures(setups=starts, events=[{**DEATH, "line": 1}])

    assert applied(found(kv_oom_risk.check(m)))[0] == "--gpu-memory-utilization 0.9"


def test_a_dead_engine_beside_another_gets_its_own_switches() -> None:
    finding = found(kv_oom_risk.check(measures(chats(20), setup=ON_3090, events=[DEATH])))

    assert applied(finding)[0].startswith("--gpu-memory-utilization")


def test_little_is_left() -> None:
    finding = found(kv_oom_risk.check(measures(chats(20), setup=ON_3090)))

    assert finding.confidence is Confidence.POSSIBLE
    assert not finding.fault
    assert "307 MiB are left" in finding.why


@pytest.mark.parametrize(
    ("facts", "answer"),
    [
        ({"kv_bytes": 6 * GIB}, NotApplicable),
        ({"kv_bytes": 9 * GIB}, NotApplicable),
        ({"engine": "vllm"}, NotApplicable),
        ({"devices": []}, CannotTell),
        ({"weights_bytes": None}, CannotTell),
    ],
    ids=[
        "a GiB is left",
        "that is vram-spill-sysmem",
        "vLLM takes its share",
        "memory unknown",
        "size unknown",
    ],
)
def test_no_risk(facts: dict[str, Any], answer: type) -> None:
    engine = facts.get("engine", "llama-server")

    assert isinstance(
        kv_oom_risk.check(measures(chats(20, engine=engine), setup={**ON_3090, **facts})), answer
    )


# --- ctx-oversized, slots-idle, np-splits-ctx


def test_a_context_many_times_what_is_used() -> None:
    facts = {"context": 65_536, "kv_bytes": 8 * GIB}
    m = measures(chats(20, 60.0, 1), setup={**ON_3090, **facts})
    finding = found(ctx_oversized.check(m))

    assert not finding.fault
    assert finding.saving is None
    assert finding.fixes[0].apply == "-c 2048"
    assert "stayed within 900 of 65,536 tokens" in finding.why
    assert "7.75 GiB of it would be free" in finding.why


@pytest.mark.parametrize(
    ("rows", "facts", "answer"),
    [
        ({}, {"context": 3_000, "kv_bytes": 3_000 * 131_072}, NotApplicable),
        ({}, {"kv_bytes": GIB, "kv_bytes_per_token": GIB / 57_344}, NotApplicable),
        ({"n": 10}, {}, CannotTell),
        ({}, {"kv_bytes": None}, CannotTell),
        ({}, {"layers_offloaded": 20}, NotApplicable),
        ({"truncated": True}, {}, NotApplicable),
    ],
    ids=["not far from it", "takes little", "too few", "size unknown", "ctx-steals-layers", "cut"],
)
def test_context_of_the_right_size(rows: dict[str, Any], facts: dict[str, Any], answer: type) -> None:
    m = measures(chats(**{"n": 20, "at_once": 1, **rows}), setup={**ON_3090, **facts})

    assert isinstance(ctx_oversized.check(m), answer)


EIGHT_SLOTS = {**ON_3090, "slots": 8, "context": 8_192, "context_total": 65_536, "kv_bytes": 8 * GIB}


def test_slots_that_nobody_uses_and_one_value_for_each_knob() -> None:
    m = measures(chats(20, 60.0, 1), setup=EIGHT_SLOTS)
    finding = found(slots_idle.check(m))

    assert not finding.fault
    assert finding.fixes[0].apply == "-np 2 -c 4096"
    assert "With 2 slots, 6 GiB of the 8 GiB" in finding.why
    assert found(ctx_oversized.check(m)).fixes[0].apply == "-c 4096"


@pytest.mark.parametrize(
    ("rows", "facts", "answer"),
    [
        ({"at_once": 2}, {}, NotApplicable),
        ({}, {"kv_unified": True}, NotApplicable),
        ({}, {"slots": 2}, NotApplicable),
        ({}, {"kv_bytes": GIB // 4, "kv_bytes_per_token": 4_096.0}, NotApplicable),
        ({"clock_start_ms": None, "clock_end_ms": None}, {}, CannotTell),
    ],
    ids=["used", "shared", "one to spare", "takes little", "no clock"],
)
def test_slots_that_are_no_waste(rows: dict[str, Any], facts: dict[str, Any], answer: type) -> None:
    made = [{**row, **rows} for row in chats(20, 60.0, rows.pop("at_once", 1))]

    assert isinstance(slots_idle.check(measures(made, setup={**EIGHT_SLOTS, **facts})), answer)


FOUR_SLOTS = {"slots": 4, "context": 2_048, "context_total": 8_192, "kv_unified": False}
REFUSED = {"kind": "context_exceeded", "line": 9, "value": 1_500.0, "request_id": "5"}


def test_a_prompt_that_the_whole_context_would_hold() -> None:
    m = measures(chats(4, at_once=1), setup=FOUR_SLOTS, events=[REFUSED])
    finding = found(np_splits_ctx.check(m))

    assert finding.confidence is Confidence.CERTAIN
    assert finding.quality
    assert [fix.apply for fix in finding.fixes] == ["--kv-unified", "-np 2 -c 8192"]
    assert "2,048 each" in finding.why
    assert "needs 3,548" in finding.why
    assert finding.evidence[0].lines[0].line == 9
    both = rank([finding, found(prompt_truncated.check(m))], m)
    assert all(f.fixes for f in both)


@pytest.mark.parametrize(
    ("events", "facts", "engine"),
    [
        ([{**REFUSED, "value": 9_000.0}], {}, "llama-server"),
        ([REFUSED], {"kv_unified": True, "context": 8_192}, "llama-server"),
        ([REFUSED], {"slots": 1, "context": 8_192}, "llama-server"),
        ([REFUSED], {}, "ollama"),
        ([], {}, "llama-server"),
    ],
    ids=["too long for all of it", "shared", "one slot", "Ollama multiplies", "short prompts"],
)
def test_no_context_taken_by_slots(events: list[dict[str, Any]], facts: dict[str, Any], engine: str) -> None:
    m = measures(chats(20, engine=engine), setup={**FOUR_SLOTS, **facts}, events=events)

    assert isinstance(np_splits_ctx.check(m), NotApplicable)


def test_requests_that_nearly_fill_their_slot() -> None:
    m = measures(chats(20, prompt_tokens=1_650), setup=FOUR_SLOTS)
    finding = found(np_splits_ctx.check(m))

    assert finding.confidence is Confidence.POSSIBLE
    assert not finding.fault


@pytest.mark.parametrize("module", [ctx_steals_layers, ctx_oversized, kv_oom_risk, np_splits_ctx, slots_idle])
def test_house_rules(module: Any) -> None:
    assert complaints(module) == []
