from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.setup import Device
from rules.prefill import (
    kv_type_fallback,
    prefill_dominates_long_prompt,
    prefix_unstable,
    prompt_truncated,
    rag_chunks_too_many,
    swa_hybrid_full_reprocess,
)
from rules.ranking import rank
from rules.rule import CannotTell, Confidence, Finding, NotApplicable
from rules.sessions import growing, turns
from tests.rules.helpers import measures, read, requests

B = "llama-server-b11434"
RAG_BEFORE_MS, RAG_AFTER_MS = 145_100.0, 31_300.0


def question(tokens: int, output: int = 500, tok_s: float = 1_500.0, **more: Any) -> dict[str, Any]:
    """A prompt that is evaluated whole, at 40 tok/s of decode."""
    evaluated = tokens - (more.get("cached_tokens") or 0)
    return {
        "prompt_tokens": tokens,
        "prefill_tokens": evaluated,
        "prefill_ms": 1000 * evaluated / tok_s,
        "output_tokens": output,
        "decode_ms": 25.0 * output,
        **more,
    }


def chat(start: int, step: int, cached: int | None, turns: int = 10, **more: Any) -> list[dict[str, Any]]:
    """A conversation whose prompts grow by ``step``."""
    return [question(start + step * i, 200, cached_tokens=cached, slot=0, **more) for i in range(turns)]


def found(answer: object) -> Finding:
    assert isinstance(answer, Finding), answer
    return answer


# --- long prompts


@pytest.mark.parametrize(
    "cache",
    [{}, {"cached_tokens": 0}, {"cached_tokens": None, "prompt_tokens": None}],
    ids=["", "0", "unknown"],
)
def test_worked_example_is_chunks_prefix_history(cache: dict[str, Any]) -> None:
    m = measures([{**question(12_000), **cache} for _ in range(20)])

    finding = found(prefill_dominates_long_prompt.check(m))

    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(20 * 8_000 / 1.5, rel=0.005)
    assert finding.saving.share == pytest.approx(0.2602, abs=1e-4)
    assert [fix.title for fix in finding.fixes] == [
        "Retrieve 5 chunks, not 20",
        "Keep the system prompt stable so that its prefix is cached",
        "Trim or summarise the history",
    ]
    assert "12,000 tokens" in finding.why
    assert "4,000 tokens" in finding.why
    assert "20 retrieved chunks" in finding.why
    assert finding.confidence is Confidence.LIKELY
    assert finding.saving.bound == "estimate"
    assert finding.fault
    said = {e.label: e.value for e in finding.evidence}
    assert (said.get("from the cache") == "not logged") == (cache.get("cached_tokens") is None)
    assert rank([finding], m) == [finding]


def test_worked_example_without_evaluated_tokens_is_only_possible() -> None:
    rows = [{**question(12_000), "prefill_tokens": None} for _ in range(20)]

    finding = found(prefill_dominates_long_prompt.check(measures(rows)))

    assert finding.confidence is Confidence.POSSIBLE
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(106_667, rel=0.005)


def test_cached_prefix_measures_the_fixed_part() -> None:
    m = measures([question(12_000, 300, cached_tokens=3_000) for _ in range(20)])

    saving = found(prefill_dominates_long_prompt.check(m)).saving

    assert saving is not None
    assert saving.ms == pytest.approx(20 * 9_000 * 0.75 / 1.5, rel=0.005)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([question(12_000, 2_000) for _ in range(20)], id="decode leads"),
        pytest.param([question(900, 10) for _ in range(20)], id="short"),
        pytest.param([question(12_000, 50, cached_tokens=9_000) for _ in range(20)], id="cached"),
        pytest.param(chat(18_000, 600, 12), id="a conversation that the cache rule speaks of"),
    ],
)
def test_prefill_does_not_dominate(rows: list[dict[str, Any]]) -> None:
    assert isinstance(prefill_dominates_long_prompt.check(measures(rows)), NotApplicable)


def test_a_growing_chat_without_cache_counts_is_offered_no_chunks() -> None:
    finding = found(prefill_dominates_long_prompt.check(measures(chat(18_000, 600, None))))

    assert finding.confidence is Confidence.POSSIBLE
    assert finding.saving is not None
    assert finding.saving.bound == "at_most"
    assert "chunks" not in finding.why + finding.fixes[0].title
    assert finding.fixes[0].knob == "prompt-order"


def test_unknown_prompts_are_not_short_prompts() -> None:
    m = measures([{"output_tokens": 100, "decode_ms": 4_000.0, "total_ms": 9_000.0} for _ in range(20)])

    assert isinstance(prefill_dominates_long_prompt.check(m), CannotTell)
    assert isinstance(rag_chunks_too_many.check(m), CannotTell)


DOCUMENTS = (18_000, 60_000, 41_000, 23_500, 52_000, 47_000, 31_000, 38_500)


def test_documents_of_many_lengths_are_no_chunks_and_no_fault() -> None:
    m = measures([question(length, 150, 3_600.0, cached_tokens=0) for length in DOCUMENTS])

    finding = found(prefill_dominates_long_prompt.check(m))

    assert not finding.fault
    assert finding.saving is None
    assert [fix.knob for fix in finding.fixes] == ["prompt-length", "prompt-order", "history"]
    assert "chunk" not in finding.why
    assert finding.evidence[-1].value == "mixed, 18,000 to 60,000"


def test_lengths_spread_over_a_range_are_not_equal() -> None:
    """Prompts of 5,000 to 9,000 tokens; 20 chunks a prompt give 5,500 to 6,500."""
    spread, chunks = (
        measures([question(least + i * 1_511 % width, 200, 9_000.0, cached_tokens=0) for i in range(24)])
        for least, width in ((5_000, 4_000), (5_500, 1_000))
    )

    assert isinstance(rag_chunks_too_many.check(spread), NotApplicable)
    why = found(rag_chunks_too_many.check(chunks)).why
    assert "tokens (5,5" in why
    assert "equally long" not in why


def test_chunks_saving_is_near_what_fewer_chunks_saved() -> None:
    finding = found(prefill_dominates_long_prompt.check(read("pairs/rag_chunks/before")))

    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(RAG_BEFORE_MS - RAG_AFTER_MS, rel=0.25)
    after = read("pairs/rag_chunks/after")
    assert isinstance(prefill_dominates_long_prompt.check(after), NotApplicable)
    assert isinstance(rag_chunks_too_many.check(after), NotApplicable)


RTX_3090 = {
    "devices": [Device(name="NVIDIA GeForce RTX 3090", backend="CUDA")],
    "experts": 256,
    "layers_offloaded": 41,
    "layers_offloadable": 41,
}


@pytest.mark.parametrize(
    ("setup", "tok_s", "confidence"),
    [
        pytest.param(RTX_3090, 2_462.0, Confidence.LIKELY, id="a GPU as it should be"),
        pytest.param(RTX_3090, 114.0, None, id="a GPU far below its decode"),
        pytest.param({"layers_offloaded": 0}, 114.0, Confidence.LIKELY, id="a CPU"),
        pytest.param({}, 60.0, Confidence.POSSIBLE, id="who knows"),
    ],
)
def test_long_prompts_are_to_blame_only_at_a_plausible_rate(
    setup: dict[str, Any], tok_s: float, confidence: Confidence | None
) -> None:
    decode_ms = 1_000 / (18 if tok_s < 200 else 121)
    rows = [{**question(3_000, 100, tok_s), "decode_ms": 100 * decode_ms} for _ in range(8)]

    answer = prefill_dominates_long_prompt.check(measures(rows, setup=setup))

    assert (answer.confidence if isinstance(answer, Finding) else None) is confidence


def test_d05_mixed_types_of_the_kv_cache() -> None:
    def rows(tok_s: float, ms_per_token: float) -> list[dict[str, Any]]:
        return [{**question(3_000, 300, tok_s), "decode_ms": 300 * ms_per_token} for _ in range(8)]

    mixed = {**RTX_3090, "kv_type_k": "q8_0", "kv_type_v": "q4_0"}
    m = measures(rows(114, 1_000 / 18), setup=mixed)

    finding = found(kv_type_fallback.check(m))

    assert finding.confidence is Confidence.LIKELY
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(8 * (26_300 - 1_200 + 16_700 - 2_500), rel=0.05)
    assert finding.fixes[0].apply == "-ctk q8_0 -ctv q8_0"
    assert isinstance(kv_type_fallback.check(measures(rows(2_462, 8.3), setup=mixed)), NotApplicable)
    same = {**mixed, "kv_type_k": "q4_0"}
    assert isinstance(kv_type_fallback.check(measures(rows(114, 55), setup=same)), NotApplicable)
    assert isinstance(prefill_dominates_long_prompt.check(m), NotApplicable)


@pytest.mark.parametrize("turns", [4, 5])
def test_a_short_conversation_is_not_made_of_chunks(turns: int) -> None:
    rows = [question(6_000 + 350 * i, 200, cached_tokens=20 if i else 0, slot=0) for i in range(turns)]
    m = measures(rows)

    answers = [
        rule.check(m) for rule in (prefill_dominates_long_prompt, rag_chunks_too_many, prefix_unstable)
    ]
    findings = [answer for answer in answers if isinstance(answer, Finding)]

    assert [finding.confidence for finding in findings] == [Confidence.POSSIBLE]
    assert [fix.knob for fix in findings[0].fixes[:1]] == ["prompt-order"]


def test_chunks_are_said_once() -> None:
    slow_decode = [question(12_000, 1_000, tok_s=3_000.0) for _ in range(20)]
    m = measures(slow_decode)

    finding = found(rag_chunks_too_many.check(m))

    assert finding.confidence is Confidence.POSSIBLE
    assert isinstance(prefill_dominates_long_prompt.check(m), NotApplicable)
    worked = measures([question(12_000) for _ in range(20)])
    assert isinstance(rag_chunks_too_many.check(worked), NotApplicable)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(chat(18_000, 60, 12), id="a conversation that hardly grows"),
        pytest.param([question(2_048, 300) for _ in range(12)], id="long answers"),
        pytest.param(
            [question(2_000 * (1 + i % 4), 100, tok_s=9_000.0) for i in range(20)], id="many lengths"
        ),
    ],
)
def test_not_the_shape_of_retrieval(rows: list[dict[str, Any]]) -> None:
    assert not isinstance(rag_chunks_too_many.check(measures(rows)), Finding)


# --- unstable prefix


@pytest.mark.parametrize("log", ["c2_multiturn_timestamp_first", "c3_multiturn_timestamp_first_cache_reuse"])
def test_time_stamp_first_costs_what_a_stable_prompt_saves(log: str) -> None:
    m = read(f"{B}/{log}")
    stable = read(f"{B}/c1_multiturn_stable_prefix")

    finding = found(prefix_unstable.check(m))

    assert finding.confidence is Confidence.LIKELY
    assert finding.requests == 5
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(m.wall_ms - stable.wall_ms, rel=0.1)
    assert "first lines of the system prompt" in finding.why
    assert any("--cache-reuse" in vain for vain in finding.wont_help)


@pytest.mark.parametrize(
    "log",
    [
        f"{B}/c1_multiturn_stable_prefix",
        f"{B}/k_multiturn_lv4",
        f"{B}/b_rag_default",
        f"{B}/d_parallel4_12req",
        f"{B}/e_overflow_context_shift",
        "pairs/rag_chunks/before",
        "pairs/output_cap/before",
        "llama-server-mid2025/c1_multiturn_stable_prefix",
        "llama-server-mid2025/d_parallel4_12req",
        "llama-server-mid2025/e_overflow_default",
    ],
)
def test_prefix_is_not_called_unstable(log: str) -> None:
    assert not isinstance(prefix_unstable.check(read(log)), Finding)


def test_d01_prefix_breaker_deep_in_the_system_prompt() -> None:
    good = {"prompt_tokens": 72_161, "cached_tokens": 71_160, "prefill_ms": 3_760.94, "output_tokens": 1_389}
    bad = chat(72_400, 500, 1_732, turns=6, tok_s=266.0)

    finding = found(prefix_unstable.check(measures([{**good, "decode_ms": 52_747.74, "slot": 0}, *bad])))

    assert finding.saving is not None
    assert finding.saving.ms / 6 == pytest.approx((72_161 - 1_001) / 0.266, rel=0.25)
    assert "1,732 tokens into the prompt" in finding.why
    assert [fix.knob for fix in finding.fixes] == ["prompt-order"]


def test_d02_claude_code_header() -> None:
    m = measures(chat(18_000, 600, 12, engine="ollama", tok_s=900.0))

    finding = found(prefix_unstable.check(m))

    assert finding.fixes[1].apply == "CLAUDE_CODE_ATTRIBUTION_HEADER=0"
    assert isinstance(rag_chunks_too_many.check(m), NotApplicable)
    assert isinstance(prefill_dominates_long_prompt.check(m), NotApplicable)


def test_no_token_reused_may_be_a_cache_that_is_off() -> None:
    finding = found(prefix_unstable.check(measures(chat(18_000, 600, 0))))

    assert finding.confidence is Confidence.POSSIBLE
    assert "cache is off" in finding.why


def test_a_few_growing_prompts_that_share_nothing_are_strangers() -> None:
    assert isinstance(prefix_unstable.check(measures(chat(18_000, 600, 0, turns=5))), CannotTell)


def test_unknown_cache_is_not_a_miss() -> None:
    assert isinstance(prefix_unstable.check(measures(chat(18_000, 600, None))), CannotTell)


def test_a_restart_begins_a_conversation() -> None:
    rows = [{**row, "run": run} for run, row in enumerate(chat(18_000, 600, 12))]

    assert isinstance(prefix_unstable.check(measures(rows)), NotApplicable)


def test_a_conversation_that_misses_its_slot_wanders() -> None:
    """Without a common prefix, the least recently used slot is taken each time."""
    rows = [
        {**row, "slot": i % 4, "clock_start_ms": 30_000.0 * i, "clock_end_ms": 30_000.0 * i + 29_000}
        for i, row in enumerate(chat(18_000, 600, 12))
    ]

    assert found(prefix_unstable.check(measures(rows))).requests == 9
    together = [{**row, "clock_end_ms": 900_000.0} for row in rows]
    assert isinstance(prefix_unstable.check(measures(together)), NotApplicable)


def test_steps_that_have_nothing_to_do_with_answers_may_be_a_sorted_batch() -> None:
    """Each step of a conversation is the answer and what the user adds, so it varies as answers do."""
    outputs = [60 + i * 61 % 140 for i in range(20)]
    lengths = [400 + 230 * i + 17 * (i % 3) for i in range(20)]
    batch = [
        question(n, out, 1_000.0, cached_tokens=60, slot=0) for n, out in zip(lengths, outputs, strict=True)
    ]
    prompts = [400 + sum(outputs[:i]) + 90 * i + 13 * (i % 4) for i in range(20)]
    talk = [
        question(n, out, 1_000.0, cached_tokens=60, slot=0) for n, out in zip(prompts, outputs, strict=True)
    ]

    sorted_batch, conversation = (found(prefix_unstable.check(measures(rows))) for rows in (batch, talk))

    assert sorted_batch.confidence is Confidence.POSSIBLE
    assert "no batch that is sorted by length" in sorted_batch.why
    assert sorted_batch.saving is not None
    assert sorted_batch.saving.bound == "at_most"
    assert conversation.confidence is Confidence.LIKELY
    assert "Something in the first lines" in conversation.why


@pytest.mark.parametrize("cached", [25, 1_732])
def test_a_batch_sorted_by_length_is_no_conversation(cached: int) -> None:
    lengths = sorted(1_900 + (i * 7_919) % 3_700 for i in range(30))
    m = measures([question(length, 150, 2_000.0, cached_tokens=cached, slot=0) for length in lengths])

    answer = prefix_unstable.check(m)

    if cached < 100:
        assert isinstance(answer, CannotTell)
    assert not isinstance(answer, Finding) or answer.confidence is Confidence.POSSIBLE


def test_a_date_behind_long_fixed_text() -> None:
    rows = [question(25_000 + 400 * i, 200, 2_000.0, cached_tokens=10_000, slot=0) for i in range(12)]

    finding = found(prefix_unstable.check(measures(rows)))

    assert "10,000 tokens into the prompt" in finding.why
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(11 * (0.95 * 27_200 - 10_000) / 2, rel=0.02)
    elsewhere = [question(25_000 + 400 * i, 200, cached_tokens=10_000 + 900 * i, slot=0) for i in range(12)]
    assert isinstance(prefix_unstable.check(measures(elsewhere)), NotApplicable)


def test_a_log_cut_in_two_tells_the_same() -> None:
    rows = chat(18_000, 600, 12, turns=9)
    cut = [{**row, "source": f"{i // 3}.log"} for i, row in enumerate(rows)]
    strange = [{**row, "run": i // 3} for i, row in enumerate(cut)]

    whole, parts = (found(prefix_unstable.check(measures(each))) for each in (rows, cut))
    apart = found(prefix_unstable.check(measures(strange, setups=[{"slots": 1}] * 3)))

    assert whole.confidence is parts.confidence is apart.confidence is Confidence.LIKELY
    assert (whole.requests, parts.requests, apart.requests) == (8, 8, 6)


@given(st.lists(st.integers(2_000, 9_000), min_size=6, max_size=40))
def test_strangers_on_one_slot_are_no_conversation(lengths: list[int]) -> None:
    rows = [question(length, 100, cached_tokens=20, slot=0) for length in lengths]
    ups = sum(b > a for a, b in pairwise(lengths))

    answer = prefix_unstable.check(measures(rows))

    if ups < 0.8 * (len(lengths) - 1):
        assert isinstance(answer, NotApplicable)
        assert not growing(turns(requests(*rows))).height


# --- reprocessing


def swa_turns(flagged: set[int]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rows = []
    for i in range(5):
        tokens = 19_000 + 1_000 * i
        cached = 0 if i in flagged | {0} else tokens - 950
        rows.append(question(tokens, 100, 777.0, cached_tokens=cached, slot=0, request_id=f"{i}"))
    events = [{"kind": "full_reprocess", "request_id": f"{i}", "slot": 0, "line": 90 + i} for i in flagged]
    return rows, events


def test_d03_full_reprocessing() -> None:
    rows, events = swa_turns({1, 3})
    m = measures(rows, events=events)

    finding = found(swa_hybrid_full_reprocess.check(m))

    assert finding.confidence is Confidence.CERTAIN
    assert finding.requests == 2
    assert finding.saving is not None
    again = (19_100 + 21_100) / 0.777
    assert finding.saving.ms == pytest.approx(again, rel=0.01)
    assert finding.saving.bound == "at_most"
    assert finding.fixes[0].apply == "--swa-full"
    assert isinstance(prefix_unstable.check(m), NotApplicable)
    assert isinstance(prefill_dominates_long_prompt.check(m), NotApplicable)


def test_reprocessing_without_request_ids_is_told_by_its_place() -> None:
    """llama-cpp-python names no requests: the line stands before the timings of the one it is about."""
    python = {"engine": "llama-cpp-python", "slot": None}
    rows = [
        {**question(1_500 + 200 * i, 46, 1_000.0, cached_tokens=0), **python, "line": 6 + 5 * i}
        for i in range(9)
    ]
    events = [{"kind": "full_reprocess", "line": 2 + 5 * i} for i in range(1, 9)]
    m = measures(rows, events=events)

    assert found(swa_hybrid_full_reprocess.check(m)).requests == 8
    assert isinstance(prefix_unstable.check(m), NotApplicable)


@pytest.mark.parametrize(
    ("version", "switch"),
    [
        ("b11434", "--checkpoint-min-step 512"),
        ("b8000", "--ctx-checkpoints 64"),
        ("b6300", "--swa-checkpoints 32"),
        ("b5429", "only ever add to the end of the prompt"),
        (None, "--checkpoint-min-step 512"),
    ],
)
def test_checkpoints_are_asked_for_as_the_build_knows_them(version: str | None, switch: str) -> None:
    rows, events = swa_turns({1, 3})
    m = measures(rows, events=events, setup={"engine_version": version})

    assert found(swa_hybrid_full_reprocess.check(m)).fixes[1].apply == switch


def test_a_model_without_a_window_gets_checkpoints() -> None:
    rows, events = swa_turns({1, 3})

    finding = found(
        swa_hybrid_full_reprocess.check(measures(rows, events=events, setup={"sliding_window": 0}))
    )

    assert [fix.knob for fix in finding.fixes] == ["context-checkpoints"]


def test_reprocessing_a_stranger_costs_nothing() -> None:
    rows, events = swa_turns({0})
    shorter = [*rows, question(9_000, 100, 777.0, cached_tokens=0, slot=0, request_id="9")]
    said = [*events, {"kind": "full_reprocess", "request_id": "9", "slot": 0, "line": 99}]

    assert isinstance(swa_hybrid_full_reprocess.check(measures(shorter, events=said)), NotApplicable)
    assert isinstance(swa_hybrid_full_reprocess.check(measures(rows)), NotApplicable)


# --- cut prompts


def test_d07_cut_prompt() -> None:
    rows = [question(2_048, 300, engine="ollama", request_id=None) for _ in range(4)]
    cut = {
        "kind": "prompt_truncated",
        "line": 7,
        "detail": "prompt of 14570 tokens cut to 2048",
        "value": 12_522.0,
    }
    m = measures(rows, events=[cut], setup={"engine": "ollama", "context": 2_048})

    finding = found(prompt_truncated.check(m))

    assert finding.confidence is Confidence.CERTAIN
    assert finding.saving is None
    assert "ignore 12,522 tokens" in finding.why
    context = int(finding.fixes[0].apply.removeprefix("num_ctx = "))
    assert context % 1_024 == 0
    assert 14_570 < context < 20_480
    slow = found(prefill_dominates_long_prompt.check(measures([question(12_000)] * 20)))
    assert rank([slow, finding], m)[0].rule == "prompt-truncated"


def test_a_cut_that_also_marks_its_row_is_one_cut() -> None:
    """Ollama names no request in its line about the cut, and its runner marks the row."""
    rows = [
        question(2_048, 300, engine="ollama", request_id="0", run=run, line=20, truncated=run % 2 == 0)
        for run in range(12)
    ]
    cuts = [{"kind": "prompt_truncated", "line": 9, "run": run, "value": 12_522.0} for run in range(0, 12, 2)]

    finding = found(prompt_truncated.check(measures(rows, events=cuts, setup={"context": 2_048})))

    assert finding.requests == 6
    assert len(finding.evidence) == 2


def test_a_cut_prompt_and_a_shifted_context_are_told_apart() -> None:
    finding = found(prompt_truncated.check(read("llama-server-mid2025/e_overflow_default")))

    assert finding.title == "Answers were computed from a cut prompt"
    assert "Prompts cut to fit the context: 1; the answers ignore 1,024 tokens." in finding.why
    assert "filled up while an answer was written: 5, and 1,275 tokens of older text" in finding.why
    assert finding.requests == 3


def test_a_refused_prompt_is_not_a_cut_one() -> None:
    finding = found(prompt_truncated.check(read(f"{B}/e_overflow_context_shift")))

    assert "refused" in finding.title
    assert "cut to fit" not in finding.why
    assert finding.fixes[0].apply == "-c 2048"


def test_no_larger_context_than_the_model_knows() -> None:
    cut = {"kind": "context_exceeded", "line": 7, "value": 30_000.0}
    m = measures(events=[cut], setup={"context": 8_192, "context_trained": 32_768})

    finding = found(prompt_truncated.check(m))

    assert [fix.knob for fix in finding.fixes] == ["history"]
    assert "32,768" in finding.wont_help[0]


def test_slots_share_the_context_that_is_asked_for() -> None:
    cut = {"kind": "context_exceeded", "line": 7, "value": 1_000.0}

    def switch(**facts: Any) -> str:
        m = measures(events=[cut], setup={"context": 4_096, "slots": 4, **facts})
        return found(prompt_truncated.check(m)).fixes[0].apply

    assert switch(kv_unified=False) == "-c 24576"
    assert switch(kv_unified=True) == "-c 6144"


def test_whole_prompts_are_not_cut() -> None:
    assert isinstance(prompt_truncated.check(read(f"{B}/c1_multiturn_stable_prefix")), NotApplicable)
