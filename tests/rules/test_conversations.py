from __future__ import annotations

from collections import OrderedDict
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.conversations import at_once, follow, hardly_chance
from rules.prefill import cache_evicted, prefix_unstable, slot_thrash
from rules.ranking import rank
from rules.rule import Confidence, Finding, NotApplicable
from tests.rules.helpers import measures
from tests.rules.test_prefill_cache_rules import found, request, vllm_windows


def taking_turns(
    order: str, room: int, start: int = 4_000, apart: int = 700, **more: Any
) -> list[dict[str, Any]]:
    """Conversations a, b, ... that ask in this order, with a cache that holds ``room`` of them."""
    prompt = {name: start + apart * (ord(name) - ord("a")) for name in order}
    cache: OrderedDict[str, int] = OrderedDict()
    rows = []
    for turn, name in enumerate(order):
        prompt[name] += 60 + 7 * turn % 50 if name in cache or turn else 0
        rows.append(request(prompt[name], cache.pop(name, 30 if turn else 0), **more))
        cache[name] = prompt[name] + 199
        prompt[name] += 200
        if len(cache) > room:
            cache.popitem(last=False)
    return rows


# --- conversations that share slots


@settings(max_examples=40)
@given(st.lists(st.integers(1_000, 6_000), min_size=10, max_size=60), st.integers(0, 30))
def test_strangers_are_no_conversations(lengths: list[int], cached: int) -> None:
    m = measures([request(length, cached) for length in lengths])

    followed = follow(m.turns)

    assert followed.height == len(lengths)
    assert followed["before"].drop_nulls().is_unique().all()
    later = followed.drop_nulls("before")
    assert (later["said"] < later["prompt"]).all()
    if len(lengths) > 9 and at_once(followed) > 1 + len(lengths) ** 0.5 / 2:
        assert not hardly_chance(followed)


@pytest.mark.parametrize("seed", range(20))
def test_random_prompts_are_not_taken_for_conversations(seed: int) -> None:
    lengths = pl.select(pl.int_range(1_000, 6_000).sample(60, shuffle=True, seed=seed)).to_series()
    m = measures([request(length, 26, output=50 + length % 300) for length in lengths])

    assert not hardly_chance(follow(m.turns))
    assert isinstance(slot_thrash.check(m), NotApplicable)


def test_conversations_are_followed_over_each_other() -> None:
    m = measures(taking_turns("abcabccbaacb" * 3, room=1, apart=12_000))

    followed = follow(m.turns)

    assert at_once(followed) == 3
    assert sorted(followed.group_by("talker").len()["len"]) == [12, 12, 12]


def test_a_rotated_log_is_followed_from_its_older_part() -> None:
    """The older part sorts after the newer one by name, and line numbers start again."""
    rows = taking_turns("abcabccbaacb" * 3, room=1, apart=12_000)
    half = len(rows) // 2
    parts = [
        {**row, "source": "server.log.1" if i < half else "server.log", "line": i % half + 1}
        for i, row in enumerate(rows)
    ]
    columns = ("row", "talker", "before", "said", "taken")

    whole, rotated = (follow(measures(made).turns).select(columns) for made in (rows, parts))

    assert rotated.equals(whole)


def test_two_conversations_on_one_slot() -> None:
    rows = taking_turns("aabbaabbab" * 3, room=1)
    m = measures(rows, setup={"slots": 1, "context": 16_384, "host_cache_bytes": 0})

    finding = found(slot_thrash.check(m))

    assert finding.confidence is Confidence.LIKELY
    lost = [row for row in rows[2:] if row["cached_tokens"] < 100]
    assert finding.requests == len(lost) - 1
    assert finding.saving is not None
    wasted = sum(0.95 * (row["prompt_tokens"] - 100) for row in lost[1:]) / 0.5
    assert finding.saving.ms == pytest.approx(wasted, rel=0.03)
    assert finding.saving.bound == "estimate"
    assert [fix.apply for fix in finding.fixes] == ["-np 2 -c 32768", "--cache-ram 8192"]
    assert "Up to 2 conversations take turns on 1 slot." in finding.why
    assert isinstance(prefix_unstable.check(m), NotApplicable)


def switches(host_cache_bytes: int | None) -> list[str]:
    setup = {"slots": 1, "context": 16_384, "host_cache_bytes": host_cache_bytes}
    m = measures(taking_turns("aabbaabbab" * 3, room=1), setup=setup)
    return [fix.apply for fix in found(slot_thrash.check(m)).fixes]


def test_a_prompt_cache_that_is_on_is_not_offered_again() -> None:
    assert switches(None) == ["-np 2 -c 32768", "--cache-ram 16384"]
    assert switches(8_192 << 20) == ["-np 2 -c 32768"]


def test_a_prompt_cache_with_room_would_bring_conversations_back() -> None:
    rows = taking_turns("ab" * 10, room=1)
    m = measures(rows, setup={"slots": 1, "host_cache_bytes": 8_192 << 20})

    assert isinstance(slot_thrash.check(m), NotApplicable)
    finding = found(prefix_unstable.check(m))
    assert finding.confidence is Confidence.POSSIBLE
    assert finding.requests == 18
    assert finding.saving is not None
    assert finding.saving.bound == "at_most"
    assert finding.fixes[0].knob == "prompt-order"
    assert finding.evidence[0].lines[0].line == 3
    full = measures(rows, setup={"slots": 1, "host_cache_bytes": 8_192 << 20}, events=[FULL])
    restored = measures(taking_turns("ab" * 10, room=2), setup={"host_cache_bytes": 8_192 << 20})
    for other in (full, restored):
        assert isinstance(prefix_unstable.check(other), NotApplicable)
        assert isinstance(slot_thrash.check(other), NotApplicable)


def test_conversations_that_never_meet_are_only_possible() -> None:
    finding = found(slot_thrash.check(measures(taking_turns("ab" * 10, room=1))))

    assert finding.confidence is Confidence.POSSIBLE
    assert finding.saving is not None
    assert finding.saving.bound == "at_most"


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(taking_turns("aabbaabbab" * 3, room=2), id="a slot for each"),
        pytest.param(taking_turns("a" * 20, room=0), id="one conversation that misses its slot"),
        pytest.param(taking_turns("ab" * 3, room=1), id="too few"),
        pytest.param([request(400 + 45 * i, 0, 120) for i in range(40)], id="a batch sorted by length"),
        pytest.param([request(2_100 + 37 * i, 0, 300) for i in range(10)], id="a short one"),
    ],
)
def test_slots_that_suffice(rows: list[dict[str, Any]]) -> None:
    assert isinstance(slot_thrash.check(measures(rows)), NotApplicable)


def test_more_conversations_than_slots_make_sense_go_to_memory() -> None:
    rows = taking_turns("".join(a + a for a in "abcdefghij") * 6, room=1, start=9_000)

    finding = found(slot_thrash.check(measures(rows, setup={"slots": 1, "context": 32_768})))

    assert [fix.knob for fix in finding.fixes] == ["host-cache"]


# --- a full cache


def d01() -> list[dict[str, Any]]:
    good = {**request(72_161, 71_160, 1_389), "prefill_ms": 3_760.94, "decode_ms": 52_747.74}
    return [good, *(request(72_400 + 500 * i, 1_732, tok_s=266.0) for i in range(6))]


FULL = {
    "kind": "cache_state",
    "line": 1,
    "value": 7_582 / 8_192,
    "detail": "4 prompts, 7582 of 8192 MiB",
}


def test_d01_full_prompt_cache_comes_second() -> None:
    m = measures(d01(), events=[FULL], setup={"host_cache_bytes": 8_192 << 20})

    evicted, unstable = found(cache_evicted.check(m)), found(prefix_unstable.check(m))

    assert evicted.confidence is Confidence.POSSIBLE
    assert "4 prompts, 7582 of 8192 MiB" in evicted.why
    assert evicted.saving is not None
    assert evicted.saving.ms / 6 == pytest.approx((72_161 - 1_001) / 0.266, rel=0.25)
    assert evicted.fixes[0].apply == "--cache-ram 16384"
    assert [finding.rule for finding in rank([evicted, unstable], m)] == ["prefix-unstable", "cache-evicted"]
    assert isinstance(slot_thrash.check(m), NotApplicable)


def test_prompts_that_were_pushed_out_of_a_full_cache() -> None:
    rows = taking_turns("abc" * 6, room=3) + taking_turns("aabcdeabcdebcdea", room=3, start=9_000)
    m = measures(rows, events=[{**FULL, "line": 20}])

    finding = found(cache_evicted.check(m))

    assert finding.confidence is Confidence.LIKELY
    assert finding.saving is not None
    assert finding.saving.bound == "estimate"


REMOVED = {"kind": "cache_evicted", "line": 20, "value": 310.5}


def test_prompts_that_the_engine_says_it_removed() -> None:
    rows = taking_turns("abc" * 6, room=3) + taking_turns("aabcdeabcdebcdea", room=3, start=9_000)
    m = measures(rows, events=[REMOVED, {**REMOVED, "line": 21}], setup={"host_cache_bytes": 1_024 << 20})

    finding = found(cache_evicted.check(m))

    assert finding.confidence is Confidence.LIKELY
    assert "the engine removed 2 prompts from it" in finding.why
    assert [line.line for line in finding.evidence[0].lines] == [20, 21]
    assert finding.fixes[0].apply == "--cache-ram 2048"
    assert isinstance(slot_thrash.check(m), NotApplicable)


def test_a_removed_prompt_that_nobody_misses() -> None:
    m = measures(taking_turns("a" * 20, room=1), events=[REMOVED])

    assert isinstance(cache_evicted.check(m), NotApplicable)


@pytest.mark.parametrize(
    ("detail", "value", "full"),
    [("2 prompts, 26 of 36 MiB", 0.733, True), ("1 prompts, 12 of 36 MiB", 0.339, False)],
)
def test_full_is_where_one_more_does_not_fit(detail: str, value: float, full: bool) -> None:
    """A real server of 36 MiB pushed a prompt out at 0.73, when a third did not fit."""
    m = measures(d01(), events=[{**FULL, "detail": detail, "value": value}])

    assert (cache_evicted.host_cache_full(m).height > 0) == full


def test_d02_prompts_that_part_at_once_fill_the_cache_in_vain() -> None:
    rows = [request(18_000 + 600 * i, 12, tok_s=900.0, engine="ollama") for i in range(10)]

    assert isinstance(cache_evicted.check(measures(rows, events=[FULL])), NotApplicable)


def test_a_cache_with_room_evicts_nothing() -> None:
    m = measures(d01(), events=[{**FULL, "value": 0.4}])

    assert isinstance(cache_evicted.check(m), NotApplicable)
    good = taking_turns("a" * 20, room=1)
    assert isinstance(cache_evicted.check(measures(good, events=[FULL])), NotApplicable)


def test_one_pool_that_is_too_small() -> None:
    rows = taking_turns("aabbccddabcdaabbccdd" * 2, room=2, engine="tabbyapi", slot=None)

    finding = found(cache_evicted.check(measures(rows)))

    assert finding.confidence is Confidence.LIKELY
    assert finding.fixes[0].apply == "sysmem_kv_cache: 16384"
    assert isinstance(
        cache_evicted.check(measures(taking_turns("ab" * 15, room=2, engine="tabbyapi", slot=None))),
        NotApplicable,
    )


@pytest.mark.parametrize(("hits", "fires"), [(0.1, True), (0.6, False)])
def test_windows_with_a_full_pool(hits: float, fires: bool) -> None:
    windows = vllm_windows(0.7) + vllm_windows(hits, kv_usage=0.97)

    answer = cache_evicted.check(measures(intervals=windows, setup={"engine": "vllm"}))

    assert isinstance(answer, Finding) == fires
    if isinstance(answer, Finding):
        assert answer.confidence is Confidence.POSSIBLE
        assert answer.fixes[0].knob == "kv-pool"
