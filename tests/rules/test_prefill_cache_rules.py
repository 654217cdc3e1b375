from __future__ import annotations

from typing import Any

import pytest

from rules.prefill import (
    cache_evicted,
    cache_prompt_off,
    context_shift_invalidates,
    history_growing,
    media_reprocessed,
    parallel_fanout_no_share,
    prefix_shorter_than_block,
    prefix_unstable,
    slot_thrash,
    tool_schema_bloat,
)
from rules.rule import CannotTell, Confidence, Finding, NotApplicable
from tests.rules.helpers import LOGS, measures, read

RULES = (
    cache_evicted,
    cache_prompt_off,
    context_shift_invalidates,
    history_growing,
    media_reprocessed,
    parallel_fanout_no_share,
    prefix_shorter_than_block,
    slot_thrash,
    tool_schema_bloat,
)


def request(
    prompt: int, cached: int | None = 0, output: int = 200, tok_s: float = 500.0, **more: Any
) -> dict[str, Any]:
    """A request at 40 tok/s of decode on slot 0."""
    evaluated = prompt - (cached or 0)
    return {
        "prompt_tokens": prompt,
        "cached_tokens": cached,
        "prefill_tokens": evaluated,
        "prefill_ms": 1000 * evaluated / tok_s,
        "output_tokens": output,
        "decode_ms": 25.0 * output,
        "context_tokens": prompt + output - 1,
        "slot": 0,
        **more,
    }


def found(answer: object) -> Finding:
    assert isinstance(answer, Finding), answer
    return answer


# --- the same prompt again


def retries() -> list[dict[str, Any]]:
    first = {**request(13, output=8), "prefill_ms": 1_170.90, "decode_ms": 900.0}
    times = zip((6_383.32, 6_326.97, 6_375.81), (12_977.77, 12_948.27, 12_939.86), strict=True)
    again = [{**request(536, output=113), "prefill_ms": p, "decode_ms": d} for p, d in times]
    return [first, *again]


def test_d04_the_prompt_cache_is_off() -> None:
    m = measures(retries())

    finding = found(cache_prompt_off.check(m))

    assert finding.confidence is Confidence.POSSIBLE
    assert finding.requests == 2
    assert finding.saving is not None
    assert finding.saving.bound == "at_most"
    assert finding.saving.ms / 2 == pytest.approx(6_350, rel=0.03)
    assert finding.saving.ms / m.wall_ms == pytest.approx(0.21, abs=0.01)
    assert finding.fixes[0].apply == '"cache_prompt": true'
    assert [line.line for line in finding.evidence[0].lines] == [3, 4]


def test_prompts_that_the_slot_held_whole_show_that_the_cache_is_off() -> None:
    rows = [{**row, "request_id": str(i)} for i, row in enumerate(retries())]
    held = [{"kind": "prompt_repeated", "line": 20 + i, "slot": 0, "request_id": str(i)} for i in (2, 3)]

    finding = found(cache_prompt_off.check(measures(rows, events=held)))

    assert finding.confidence is Confidence.LIKELY
    assert finding.title == "The same prompt is read whole again each time"
    assert finding.saving is not None
    assert finding.saving.bound == "estimate"
    assert finding.requests == 2
    served = [*rows, {**request(536, 535), "request_id": "9"}]
    assert isinstance(cache_prompt_off.check(measures(served, events=held)), NotApplicable)


def test_a_benchmark_that_repeats_its_lengths_is_not_told_that_its_cache_is_off() -> None:
    rows = [request(length, output=40) for length in (1_000, 2_000, 4_000, 8_000, 16_000) for _ in range(2)]

    finding = found(cache_prompt_off.check(measures(rows)))

    assert finding.confidence is Confidence.POSSIBLE
    assert "a benchmark that sends new text each time looks the same" in finding.why
    assert "Send one prompt twice" in finding.verify


@pytest.mark.parametrize(
    ("rows", "answer"),
    [
        pytest.param([*retries(), request(540, 530)], NotApplicable, id="a cache that works"),
        pytest.param([{**row, "cached_tokens": None} for row in retries()], CannotTell, id="unknown"),
        pytest.param([request(12_000) for _ in range(20)], CannotTell, id="a benchmark's prompts"),
        pytest.param([request(2_000 + 37 * (i * i % 11)) for i in range(20)], NotApplicable, id="others"),
    ],
)
def test_not_a_cache_that_is_off(rows: list[dict[str, Any]], answer: type) -> None:
    assert isinstance(cache_prompt_off.check(measures(rows)), answer)


def test_a_prompt_of_less_than_two_blocks_says_nothing_of_the_cache() -> None:
    rows = [{**row, "engine": "vllm", "slot": None} for row in retries()]

    assert isinstance(cache_prompt_off.check(measures(rows, setup={"block_tokens": 16})), Finding)
    assert isinstance(cache_prompt_off.check(measures(rows, setup={"block_tokens": 784})), NotApplicable)


@pytest.mark.parametrize(("hits", "phase"), [(None, "mixed"), (None, "decode")])
def test_an_engine_that_says_its_cache_is_off(hits: None, phase: str) -> None:
    m = measures(intervals=vllm_windows(hits, phase=phase), setup={"engine": "vllm", "prefix_caching": False})

    answer = cache_prompt_off.check(m)

    assert isinstance(answer, Finding) == (phase == "mixed")
    if isinstance(answer, Finding):
        assert answer.fixes[0].apply == "--enable-prefix-caching"
        assert not answer.fault
        assert answer.saving is None


# --- blocks


def vllm_windows(hit_rate: float | None, n: int = 6, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "engine": "vllm",
            "line": i,
            "kind": "window",
            "span_ms": 10_000.0,
            "prefill_tok_s": 300.0,
            "decode_tok_s": 120.0,
            "kv_usage": 0.1,
            "prefix_hit_rate": hit_rate,
            "phase": "mixed",
            **more,
        }
        for i in range(1, n + 1)
    ]


def test_d17_zero_hits_that_are_correct() -> None:
    setup = {"engine": "vllm", "block_tokens": 784, "prefix_caching": True}
    m = measures(intervals=vllm_windows(0.0), setup=setup)

    finding = found(prefix_shorter_than_block.check(m))

    assert finding.confidence is Confidence.POSSIBLE
    assert not finding.fault
    assert finding.saving is None
    assert "784 tokens" in finding.why
    assert finding.fixes[0].apply == "--prefix-match-unit 64"
    assert finding.evidence[0].lines[0].line == 1
    assert not isinstance(prefix_unstable.check(m), Finding)
    assert not isinstance(cache_prompt_off.check(m), Finding)


@pytest.mark.parametrize(
    ("hit_rate", "block", "windows"), [(0.3, 784, 6), (0.0, 16, 6), (0.0, 784, 2), (None, 784, 6)]
)
def test_blocks_that_are_not_to_blame(hit_rate: float | None, block: int, windows: int) -> None:
    m = measures(intervals=vllm_windows(hit_rate, windows), setup={"engine": "vllm", "block_tokens": block})

    assert not isinstance(prefix_shorter_than_block.check(m), Finding)


def test_requests_shorter_than_a_block() -> None:
    rows = [
        request(390 + i % 250, output=20, engine="vllm", slot=None, context_tokens=None) for i in range(200)
    ]
    m = measures(rows, setup={"block_tokens": 784})

    finding = found(prefix_shorter_than_block.check(m))

    assert finding.saving is not None
    assert finding.saving.bound == "at_most"
    assert finding.saving.ms == pytest.approx(199 * 390 / 0.5, rel=0.02)
    longer = [{**row, "prompt_tokens": 900, "prefill_tokens": 900} for row in rows]
    assert isinstance(
        prefix_shorter_than_block.check(measures(longer, setup={"block_tokens": 784})), NotApplicable
    )


# --- conversations at their limit


def grown(turns: int, step: int = 400, start: int = 1_000, cached: bool = True) -> list[dict[str, Any]]:
    return [
        request(start + step * i, (start + step * (i - 1) + 199 if cached else 20) if i else 0)
        for i in range(turns)
    ]


def test_a_conversation_that_fills_its_context() -> None:
    m = measures(grown(16), setup={"context": 8_192, "context_trained": 32_768, "slots": 2})

    finding = found(history_growing.check(m))

    assert not finding.fault
    assert finding.saving is None
    assert "from 1,000 to 7,000 tokens, 85 % of its context, by 400 a turn" in finding.why
    assert "about 2 more turns" in finding.why
    assert [fix.apply for fix in finding.fixes][1] == "-c 32768"
    assert "6,144" in finding.fixes[0].title


@pytest.mark.parametrize(
    ("rows", "setup", "answer"),
    [
        (grown(16), {"context": 32_768}, NotApplicable),
        (grown(16, cached=False), {"context": 8_192}, NotApplicable),
        (grown(16), {}, CannotTell),
        ([{**row, "cached_tokens": None} for row in grown(16)], {"context": 8_192}, CannotTell),
        (grown(3, step=3_000), {"context": 8_192}, NotApplicable),
    ],
    ids=["much room", "no reuse", "context unknown", "cache unknown", "too few turns"],
)
def test_a_history_that_may_grow(rows: list[dict[str, Any]], setup: dict[str, Any], answer: type) -> None:
    assert isinstance(history_growing.check(measures(rows, setup=setup)), answer)


def at_limit(turns: int, reused: int, engine: str = "llama-server") -> list[dict[str, Any]]:
    """A conversation that the cache serves until it stays at 7,000 tokens."""
    full = [request(7_000 - 40 * (i % 3), reused) for i in range(turns)]
    return [{**row, "engine": engine} for row in grown(16) + full]


def test_each_turn_at_the_limit_reads_all_again() -> None:
    m = measures(at_limit(10, 500), setup={"context": 8_192})

    finding = found(context_shift_invalidates.check(m))

    assert finding.confidence is Confidence.LIKELY
    assert finding.requests == 10
    assert finding.saving is not None
    between = 0.3 * 6_960 / 400
    assert finding.saving.ms == pytest.approx(10 * (0.95 * 6_960 - 500) / 0.5 * (1 - 1 / between), rel=0.02)
    assert finding.fixes[0].knob == "history"
    assert "30 %" in finding.fixes[0].apply


def test_the_limit_is_seen_where_only_evaluated_tokens_are_told() -> None:
    rows = [{**row, "prompt_tokens": None, "cached_tokens": None, "slot": None} for row in at_limit(10, 500)]

    assert isinstance(context_shift_invalidates.check(measures(rows)), Finding)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(at_limit(10, 6_500), id="shifted context, little evaluated"),
        pytest.param(at_limit(2, 500), id="two turns"),
        pytest.param([request(7_000, 20) for _ in range(20)], id="retrieved chunks"),
        pytest.param(grown(20, cached=False), id="a changing prefix"),
    ],
)
def test_not_a_limit(rows: list[dict[str, Any]]) -> None:
    assert isinstance(context_shift_invalidates.check(measures(rows)), NotApplicable)


# --- a fixed part


def agent(cached: int | None, fixed: int = 6_000, output: int = 80) -> list[dict[str, Any]]:
    extra = (40, 900, 60, 2_600, 90, 4_800, 45, 1_300, 7_000, 70, 120, 3_300)
    return [request(fixed + more, cached, output) for more in extra]


def test_tools_in_every_prompt() -> None:
    finding = found(tool_schema_bloat.check(measures(agent(30))))

    assert finding.confidence is Confidence.POSSIBLE
    assert not finding.fault
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(12 * 3_020 / 0.5, rel=0.02)
    assert finding.saving.bound == "at_most"
    assert finding.fixes[0].knob == "tools"


@pytest.mark.parametrize(
    ("rows", "answer"),
    [
        (agent(5_900), NotApplicable),
        (agent(None), CannotTell),
        (agent(30, fixed=1_000), NotApplicable),
        (agent(30, output=600), NotApplicable),
        ([request(6_000 + 9 * i, 30, 80) for i in range(12)], NotApplicable),
        ([request(5_000 + 1_511 * i % 4_000, 0, 80) for i in range(24)], NotApplicable),
        ([request(18_000 + 600 * i, 12) for i in range(10)], NotApplicable),
    ],
    ids=["cached", "unknown", "short", "long answers", "retrieval", "one range", "d02"],
)
def test_no_fixed_part(rows: list[dict[str, Any]], answer: type) -> None:
    assert isinstance(tool_schema_bloat.check(measures(rows)), answer)


# --- bursts


def burst(at_ms: float, n: int, prompt: int, cached: int = 0, gap_ms: float = 20.0) -> list[dict[str, Any]]:
    return [
        {
            **request(prompt, cached, slot=i),
            "clock_start_ms": at_ms + gap_ms * i,
            "clock_end_ms": at_ms + 30_000,
        }
        for i in range(n)
    ]


def test_equal_prompts_that_start_together() -> None:
    rows = [*burst(0, 4, 5_000), *burst(60_000, 4, 6_200)]
    m = measures(rows)

    finding = found(parallel_fanout_no_share.check(m))

    assert finding.confidence is Confidence.POSSIBLE
    assert finding.requests == 6
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(3 * (5_000 + 6_200) / 0.5, rel=0.01)
    assert finding.fixes[0].apply == '"n": 4'
    same = measures([*rows, *burst(120_000, 1, 5_000, 4_999)])
    assert found(parallel_fanout_no_share.check(same)).confidence is Confidence.LIKELY


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(burst(0, 8, 5_000, gap_ms=12_000), id="one after the other"),
        pytest.param(burst(0, 2, 5_000), id="two"),
        pytest.param(burst(0, 4, 5_000, 4_999), id="shared"),
        pytest.param([row for i in range(4) for row in burst(5.0 * i, 1, 5_000 + i)], id="other prompts"),
    ],
)
def test_no_burst_of_equal_prompts(rows: list[dict[str, Any]]) -> None:
    assert isinstance(parallel_fanout_no_share.check(measures(rows)), NotApplicable)


# --- images


def test_a_conversation_with_images() -> None:
    rows = [
        {**row, "request_id": str(i)} for i, row in enumerate(grown(8, start=2_000, step=900, cached=False))
    ]
    media = [{"kind": "media", "line": i, "request_id": str(i), "value": 310.0} for i in range(8)]
    m = measures(rows, events=media)

    finding = found(media_reprocessed.check(m))

    assert finding.confidence is Confidence.POSSIBLE
    assert finding.requests == 7
    assert "2.5 s of it encoding" in finding.why
    assert finding.fixes[0].knob == "media-order"
    assert isinstance(media_reprocessed.check(measures(rows)), NotApplicable)
    served = [{**row, "request_id": str(i)} for i, row in enumerate(grown(8, start=2_000, step=900))]
    assert isinstance(media_reprocessed.check(measures(served, events=media)), NotApplicable)


# --- real logs


WELL = sorted(p.parent for p in LOGS.rglob("server.log") if "conversations" not in p.parts)


def test_there_are_real_logs_to_be_silent_on() -> None:
    assert len(WELL) > 40


@pytest.mark.parametrize("log", WELL, ids=lambda p: p.name)
def test_real_logs_give_no_cause(log: Any) -> None:
    m = read(str(log.relative_to(LOGS)))

    assert [rule.RULE.id for rule in RULES if isinstance(rule.check(m), Finding)] == []
