"""Before and after: what is compared with what, and what is then said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.comparison import Compared, compare
from rules.comparison.both import Both
from rules.comparison.caveats import caveats
from rules.comparison.effect import (
    FLOOR,
    Effect,
    dependence,
    difference_of_means,
    ratio_of_geometric_means,
    ratio_of_medians,
)
from rules.comparison.matching import Size, matched_ratio
from rules.comparison.samples import thinned
from rules.comparison.sentences import headline, sentence
from rules.comparison.wording import changed, instead
from rules.lines import MOST_SAMPLES
from rules.measures import Measures
from rules.testing import measures
from tests.diagnosis.rows import Made, any_requests
from tests.rules.made_logs import Engine, drifting

CHAT, RAG = Engine("chat"), Engine("rag", prompt_tokens=3_500, output_tokens=60)


def sign(compared: Compared, name: str) -> int | None:
    found = compared.of(name)
    assert found is not None
    return found.sign


def ids(before: Measures, after: Measures) -> set[str]:
    return {caveat.id for caveat in caveats(compare(before, after), before, after)}


# --- like with like


def test_a_slower_decode_is_found_and_prefill_is_left_alone() -> None:
    for seed in range(10):
        compared = compare(CHAT.log(30, seed), CHAT.slower(decode=1.2).log(30, seed + 100))

        decode, prefill = compared.of("decode"), compared.of("prefill")
        assert decode is not None
        assert decode.alike is not None
        assert decode.sign == 1
        assert decode.alike.low < 1.2 < decode.alike.high
        assert prefill is not None
        assert prefill.sign == 0


def test_a_shorter_prompt_is_no_faster_engine() -> None:
    """Sizes overlap: what is alike shows the same speed, and the wait fell by other work alone."""
    before, after = CHAT.log(60, 1), Engine("chat", prompt_tokens=900).log(60, 2)

    compared = compare(before, after)

    assert (sign(compared, "ttft"), sign(compared, "prefill")) == (-1, 0)
    assert compared.first_token is not None
    parts = {part.cause: part.ms for part in compared.first_token.parts}
    assert parts["prefill-work"] == pytest.approx(compared.first_token.change_ms, rel=0.2)
    assert "prompts are shorter" in headline(compared)
    assert "faster" not in headline(compared)


def test_a_fuller_cache_is_named_as_the_reason() -> None:
    before, after = Engine(cached=0.1).log(40, 1), Engine(cached=0.8).log(40, 2)

    said = headline(compare(before, after))

    assert "80 % of the prompt tokens come from the cache instead of 10 %" in said


def test_a_faster_prefill_is_named_as_the_reason() -> None:
    said = headline(compare(RAG.slower(prefill=2.0).log(30, 1), RAG.log(30, 2)))

    assert "because prefill is faster" in said


def test_prompts_of_other_sizes_are_not_compared() -> None:
    compared = compare(RAG.log(20, 1), Engine("rag", prompt_tokens=900, output_tokens=60).log(20, 2))

    prefill = compared.of("prefill")
    assert prefill is not None
    assert prefill.sign is None
    assert prefill.not_compared is not None
    assert "no requests alike in evaluated tokens" in prefill.not_compared
    assert "Whether prefill itself is faster or slower can't be told" in headline(compared)


def test_what_shorter_prompts_explain_at_most_and_at_least_holds_what_they_did() -> None:
    short = Engine("rag", prompt_tokens=900, output_tokens=60, noise=0.0)
    compared = compare(
        Engine("rag", prompt_tokens=3_500, output_tokens=60, noise=0.0).log(20, 1), short.log(20, 2)
    )

    assert compared.first_token is not None
    work = next(part for part in compared.first_token.parts if part.cause == "prefill-work")
    assert work.basis == "bounds"
    assert work.low < compared.first_token.change_ms < work.high


def test_requests_alone_are_not_compared_with_requests_together() -> None:
    rows = RAG.rows(24, 1)
    beside = [dict(row, slot=i % 4) for i, row in enumerate(RAG.slower(decode=3.0).rows(24, 2))]
    for i, row in enumerate(beside):
        start = 10_000.0 * (i // 4)
        row |= {"clock_start_ms": start, "clock_end_ms": start + row["total_ms"]}

    decode = compare(measures(rows), measures(beside)).of("decode")

    assert decode is not None
    assert decode.sign is None
    assert decode.not_compared is not None
    assert "no requests alike in requests at once" in decode.not_compared


def test_an_effect_that_depth_may_explain_is_not_told() -> None:
    """All answers before are at twice the depth: within their stratum, depth and change are one thing."""
    small = {"prefill_tokens": 300, "prefill_ms": 100.0, "output_tokens": 100, "decode_steps": 99}
    rng = np.random.default_rng(1)

    def side(prompt: int, ms: float) -> Measures:
        return measures(
            [
                {
                    **small,
                    "prompt_tokens": prompt + int(rng.integers(9)),
                    "decode_ms": 99 * ms * (1 + 0.01 * rng.normal()),
                }
                for _ in range(20)
            ]
        )

    near, deep = compare(side(1_000, 10.0), side(1_020, 9.6)), compare(side(1_000, 10.0), side(700, 9.6))

    assert (sign(near, "decode"), sign(deep, "decode")) == (-1, 0)


def test_strata_that_go_the_other_way_are_told() -> None:
    short, long = Engine("rag", prompt_tokens=600), Engine("rag", prompt_tokens=5_000)
    before = measures(short.rows(30, 1) + long.rows(90, 2))
    after = measures(short.slower(prefill=1.5).rows(30, 3) + long.slower(prefill=0.6).rows(90, 4))

    assert "opposed" in ids(before, after)


# --- what can't be compared


def test_waits_with_other_clocks_are_not_compared() -> None:
    rows = RAG.rows(12, 1)
    compared = compare(measures(rows), measures([{**row, "ttft_from": "arrival"} for row in rows]))

    ttft = compared.of("ttft")
    assert ttft is not None
    assert ttft.sign is None
    assert "arrival" in sentence(ttft)
    assert sign(compared, "prefill") == 0


def test_two_logs_of_windows_are_not_compared() -> None:
    windows = measures(intervals=[{"kind": "window", "phase": "decode", "span_ms": 1e4}])
    assert "windows" in (compare(windows, windows).incomparable or "")
    assert "log before holds requests" in (compare(RAG.log(9, 1), windows).incomparable or "")


def test_benchmarks_are_not_compared() -> None:
    bench = measures([{"kind": "benchmark", "prefill_tokens": 512, "prefill_ms": 100.0}] * 6)
    assert "benchmark" in headline(compare(bench, bench))


def test_of_sums_only_means_are_told_and_no_verdict() -> None:
    def sums(ttft_ms: float) -> Measures:
        row = {
            "requests": 100,
            "ttft_requests": 100,
            "ttft_ms": ttft_ms,
            "total_ms": 3e5,
            "kind": "benchmark",
        }
        return measures(aggregates=[row])

    said = headline(compare(sums(190_000.0), sums(120_000.0)))

    assert "1.2 s on average instead of 1.9 s" in said
    assert "chance" in said


def test_steps_are_compared_at_like_batches() -> None:
    def log(ms: float, seed: int) -> Measures:
        noise = np.exp(drifting(np.random.default_rng(seed), 80, 0.3, 0.03))
        return measures(
            intervals=[
                {
                    "kind": "iteration",
                    "phase": "decode",
                    "decode_tokens": 1 + i % 8,
                    "span_ms": (ms + i % 8) * noise[i],
                }
                for i in range(80)
            ]
        )

    assert sign(compare(log(20.0, 1), log(24.0, 2)), "decode") == 1
    assert sign(compare(log(20.0, 1), log(20.0, 2)), "decode") == 0


def test_few_requests_are_too_few() -> None:
    compared = compare(RAG.log(3, 1), RAG.log(3, 2))
    assert all(q.sign is None for q in compared.quantities)
    assert "too few" in sentence(compared.quantities[0])


def test_nothing_at_all_is_said_so() -> None:
    assert "neither side has anything timed" in headline(compare(measures(), measures()))


def test_a_client_that_tells_no_prefill_is_compared_at_like_prompts() -> None:
    def client(engine: Engine, seed: int) -> Measures:
        hidden = {"prefill_ms": None, "decode_ms": None, "clock_start_ms": None, "clock_end_ms": None}
        return measures([{**row, **hidden} for row in engine.rows(40, seed)])

    compared = compare(client(RAG, 1), client(RAG.slower(prefill=0.5), 2))

    assert "in no phase that both logs tell" in headline(compared)
    assert "At like prompts and caches it is 4" in headline(compared)


def test_waits_of_prompts_that_are_not_told_are_not_at_like_work() -> None:
    untold = {"prompt_tokens": None, "prefill_tokens": None, "cached_tokens": None}
    sides = (measures([{**row, **untold} for row in RAG.rows(20, seed)]) for seed in (1, 2))

    ttft = compare(*sides).of("ttft")

    assert ttft is not None
    assert ttft.alike is None
    assert ttft.alike_unknown == "evaluated tokens are not told on both sides"


# --- what else is different


def test_settings_that_differ_are_named_and_rounding_is_not() -> None:
    before = RAG.log(9, 1, {"model": "m.gguf", "threads": 8, "weights_bytes": 4_917_000_000, "slots": 1})
    after = RAG.log(
        9, 2, {"model": "m.gguf", "threads": 9, "weights_bytes": 4_920_000_000, "speculative": "draft.gguf"}
    )

    found = {(change.fact, change.before, change.after) for change in compare(before, after).settings}

    assert found == {("threads", 8, 9), ("speculative", None, "draft.gguf")}


def test_another_model_is_compared_and_said_so() -> None:
    rows = [{**row, "model": "other.gguf"} for row in RAG.rows(20, 2)]
    before, after = RAG.log(20, 1), measures(rows)

    assert sign(compare(before, after), "decode") == 0
    assert "another-model" in ids(before, after)


def test_models_on_both_sides_are_compared_with_themselves() -> None:
    """A fast model took over most of the requests: neither model is any faster."""
    fast = [{**row, "model": "fast.gguf"} for row in RAG.slower(decode=0.3).rows(60, 3)]
    slow = RAG.rows(60, 4)
    before, after = measures(slow[:40] + fast[:20]), measures(slow[40:] + fast[20:])

    assert sign(compare(before, after), "decode") == 0


def test_the_first_request_of_a_process_is_no_sample() -> None:
    rows = RAG.rows(12, 1)
    cold = [{**row, "prefill_ms": row["prefill_ms"] * (20 if i == 0 else 1)} for i, row in enumerate(rows)]
    facts = {"model": "m.gguf"}

    compared = compare(measures(rows, setup=facts), measures(cold, setup=facts))

    assert compared.left_out == (1, 1)
    assert compared.first_token is not None
    assert compared.first_token.change_ms == 0


# --- what fresh eyes broke


def served(slots: int, seed: int) -> Measures:
    """Four clients that ask again as soon as they are answered; the log begins at the slot."""
    rng = np.random.default_rng(seed)
    free, ready, rows = [0.0] * slots, [0.0] * 4, []
    for _ in range(40):
        client, slot = int(np.argmin(ready)), int(np.argmin(free))
        start = max(ready[client], free[slot])
        prefill_ms, decode_ms = (
            float(ms * np.exp(0.05 * rng.normal())) for ms in (400 * slots**0.4, 2_000 * slots**0.5)
        )
        end = start + prefill_ms + decode_ms
        free[slot], ready[client] = end, end + 100
        rows.append(
            {
                "prompt_tokens": 800,
                "cached_tokens": 0,
                "prefill_ms": prefill_ms,
                "output_tokens": 151,
                "decode_steps": 150,
                "decode_ms": decode_ms,
                "ttft_ms": prefill_ms,
                "total_ms": prefill_ms + decode_ms,
                "ttft_from": "slot",
                "slot": slot,
                "clock_start_ms": start,
                "clock_end_ms": end,
            }
        )
    return measures(sorted(rows, key=lambda row: row["clock_end_ms"]), setup={"slots": slots})


def test_waits_behind_other_slots_are_not_called_slower() -> None:
    """Every client is answered sooner, and each request takes longer from its slot on."""
    said = headline(compare(served(1, 1), served(4, 2)))

    assert "slower" not in said
    assert "longer" not in said
    assert "with 4 slots instead of 1 it is another queue" in said
    assert "output tokens a minute" in said


def test_more_requests_at_once_are_named() -> None:
    few, many = served(1, 1), served(4, 2)
    for m in (few, many):
        m.setup.slots = 4

    assert "while up to 4 ran at once instead of 1" in headline(compare(few, many))


@pytest.mark.parametrize("fixed_ms", [15.0, 100.0])
def test_a_fixed_cost_and_noise_are_no_other_speed(fixed_ms: float) -> None:
    def log(prompt: int, output: int, seed: int) -> Measures:
        rows = Engine("chat", prompt_tokens=prompt, output_tokens=output, cached=0.0).rows(30, seed)
        for row in rows:
            row["prefill_ms"] += fixed_ms
            row["ttft_ms"] += fixed_ms
            row["total_ms"] += fixed_ms
        return measures(rows)

    untrue = [
        part
        for seed in range(8)
        for found in [compare(log(1_500, 240, seed), log(500, 80, 100 + seed))]
        for split in (found.first_token, found.total)
        if split is not None
        for part in split.parts
        if part.cause.endswith("speed") and part.sure
    ]
    assert untrue == []


def test_a_bound_holds_what_chance_explains() -> None:
    compared = compare(
        Engine("rag", prompt_tokens=3_500).log(20, 1), Engine("rag", prompt_tokens=900).log(20, 2)
    )
    assert compared.total is not None
    for part in compared.total.parts:
        assert part.basis == "exact" or part.high - part.low > 1


def test_aborted_requests_make_nothing_faster() -> None:
    rows = RAG.rows(60, 2)
    for row in rows[::3]:
        row |= {"output_tokens": 1, "decode_steps": 0, "decode_ms": 0.0, "total_ms": row["ttft_ms"]}
        row["finish_reason"] = "abort"
    before, after = RAG.log(60, 1), measures(rows)
    compared = compare(before, after)

    assert sign(compared, "total") == 0
    assert compared.pair("requests given up", "count") == (0, 20)
    assert compared.pair("output tokens", "median") == pytest.approx((60, 60), rel=0.5)
    assert "other-ends" in ids(before, after)


def test_waits_in_a_busy_queue_are_not_told_from_chance() -> None:
    rng = np.random.default_rng(5)
    free_ms = arrival_ms = 0.0
    rows = RAG.rows(120, 1)
    for row in rows:
        arrival_ms += float(rng.exponential(3_600))
        row["queue_ms"] = max(free_ms - arrival_ms, 0.0)
        free_ms = arrival_ms + row["queue_ms"] + row["total_ms"]
        row |= {name: row[name] + row["queue_ms"] for name in ("ttft_ms", "total_ms")}
        row["ttft_from"] = "arrival"
    compared = compare(measures(rows[:60]), measures(rows[60:]))

    ttft = compared.of("ttft")
    assert ttft is not None
    assert ttft.sign is None
    assert "one busy stretch counts once" in sentence(ttft)
    assert sign(compared, "prefill") == 0
    assert ttft.without == ("waiting for a slot",)


def test_cached_tokens_told_on_one_side_only_are_no_like_work() -> None:
    rows = [{**row, "cached_tokens": None} for row in RAG.rows(30, 2)]
    compared = compare(RAG.log(30, 1), measures(rows))

    for name in ("prefill", "ttft"):
        q = compared.of(name)
        assert q is not None
        assert q.alike is None
        assert q.alike_unknown == "cached tokens are told on one side only"


def test_sums_of_one_server_are_not_counted_twice() -> None:
    def sums(requests: int, mean_ms: float, since: datetime | None) -> Measures:
        row = {"kind": "since_start", "requests": requests, "total_ms": mean_ms * requests, "since": since}
        row |= {"ttft_requests": requests, "ttft_ms": mean_ms * requests, "output_tokens": 100 * requests}
        return measures(aggregates=[row])

    start = datetime(2026, 1, 1, tzinfo=UTC)
    told, untold = (compare(sums(100, 400.0, at), sums(200, 300.0, at)) for at in (start, None))
    other = compare(sums(100, 400.0, start), sums(200, 300.0, start + timedelta(hours=1)))

    means = [q.after.mean for c in (told, other) for q in c.quantities if q.name == "ttft"]
    assert means == [200.0, 300.0]
    assert "restart the server between the runs" in (untold.incomparable or "")


@pytest.mark.parametrize(("n", "engine"), [(30, RAG), (60, Engine("api"))])
def test_what_would_have_been_seen_is_seen(n: int, engine: Engine) -> None:
    seen = []
    for seed in range(10):
        decode = compare(engine.log(n, seed), engine.log(n, 100 + seed)).of("decode")
        assert decode is not None
        assert decode.alike is not None
        slower = engine.slower(decode=1 + (decode.alike.visible or 0))
        seen.append(sign(compare(engine.log(n, 200 + seed), slower.log(n, 300 + seed)), "decode"))
    assert seen.count(1) >= 0.8 * len(seen)


def test_words_of_a_change_show_it() -> None:
    near = Effect(0.63, 0.09, 0.98, 1.0, 9, 9, float(np.log1p(FLOOR)))
    assert instead(2_960.0, 3_040.0) == "3,040 ms instead of 2,960 ms"
    assert changed(near) == "37 % less (at least 2 %)"
    assert Effect(0.63, 0.09, 0.998, 1.0, 9, 9, near.least).sign == 0


def test_few_long_requests_are_called_few() -> None:
    prefill = compare(RAG.log(4, 1), RAG.log(40, 2)).of("prefill")
    assert prefill is not None
    assert prefill.not_compared == "too few requests can show it: 4 before, 40 after"


def test_filters_that_left_nothing_are_said() -> None:
    assert "nothing of either log passes the filters" in headline(
        compare(measures(), measures(), filtered=True)
    )


# --- properties


@given(any_requests(), any_requests())
@settings(max_examples=25, deadline=None)
def test_parts_sum_up_to_the_change(before: Made, after: Made) -> None:
    compared = compare(before.measures, after.measures)
    for split in (compared.first_token, compared.total):
        if split is not None:
            assert sum(part.ms for part in split.parts) == pytest.approx(split.change_ms, rel=1e-9, abs=1e-6)
    assert headline(compared)


@given(any_requests())
@settings(max_examples=15, deadline=None)
def test_a_log_does_not_differ_from_itself(made: Made) -> None:
    compared = compare(made.measures, made.measures)
    assert all(not q.sign for q in compared.quantities)
    assert all(q.alike is None or not q.alike.sign for q in compared.quantities)


@given(st.integers(0, 50))
@settings(max_examples=10, deadline=None)
def test_the_other_way_round_is_the_inverse(seed: int) -> None:
    before, after = CHAT.log(25, seed), CHAT.slower(prefill=1.4, decode=0.8).log(25, seed + 1000)
    there, back = compare(before, after), compare(after, before)
    for name in ("prefill", "decode"):
        one, other = there.of(name), back.of(name)
        assert one is not None
        assert other is not None
        if one.alike is not None:
            assert other.alike is not None
            assert other.alike.value == pytest.approx(1 / one.alike.value, rel=1e-6)
            assert other.alike.low == pytest.approx(1 / one.alike.high, rel=1e-6)


# --- the statistics


def test_far_off_values_hardly_move_a_matched_ratio() -> None:
    rng = np.random.default_rng(1)
    size = Size(rng.uniform(300, 3_000, 80), 1.5, 0.25)
    after = np.arange(80) >= 40
    values = 0.02 * rng.normal(size=80)
    spoilt = values.copy()
    spoilt[[50, 60, 70]] += 4.0

    clean, dirty = (matched_ratio(v, after, size.codes, [size]) for v in (values, spoilt))

    assert clean is not None
    assert dirty is not None
    assert dirty.value == pytest.approx(clean.value, abs=0.02)
    assert dirty.sign == 0


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_dependence_is_that_of_the_series(correlation: float) -> None:
    series = [drifting(np.random.default_rng(seed), 2_000, correlation, 1.0) for seed in range(2)]
    expected = (1 + correlation) / (1 - correlation)
    assert expected * 0.8 <= dependence(*series) <= expected * 1.7


@given(st.lists(st.floats(1, 1e6), min_size=5, max_size=60), st.floats(0.1, 10))
@settings(max_examples=50, deadline=None)
def test_intervals_hold_their_value_and_follow_the_unit(values: list[float], factor: float) -> None:
    before, after = np.array(values), np.array(values[::-1]) * 1.1
    for of in (ratio_of_medians, ratio_of_geometric_means):
        effect, scaled = of(before, after), of(before * factor, after * factor)
        assert (effect is None) == (scaled is None)
        if effect is not None and scaled is not None:
            assert effect.low <= effect.value <= effect.high
            assert scaled.value == pytest.approx(effect.value, rel=1e-6)
            assert scaled.high == pytest.approx(effect.high, rel=1e-4)


def test_loads_that_stopped_are_told_by_their_mean() -> None:
    rng = np.random.default_rng(1)
    before = np.where(rng.random(60) < 0.6, 5_000.0, 0.0)
    effect = difference_of_means(before, np.zeros(60))
    assert effect is not None
    assert effect.sign == -1


def test_requests_that_alternate_are_all_sampled() -> None:
    frame = pl.DataFrame({"after": [False] * 4_000 + [True] * 10, "kind": [0, 1] * 2_005})
    taken = thinned(frame, "after", 1_000)
    assert taken["after"].to_list() == [False] * 1_000 + [True] * 10
    assert 400 < taken.head(1_000)["kind"].sum() < 600
    assert thinned(frame, "after", 4_010) is frame


def test_memory_is_bounded_by_the_samples_taken() -> None:
    rows: Any = RAG.log(500, 1).requests
    many = rows.sample(90_000, with_replacement=True, seed=1)
    big = Measures(many, *(getattr(RAG.log(9, 1), n) for n in ("intervals", "events", "setup")))
    both = Both(big, big)
    assert both.prefill.frame.height <= 2 * MOST_SAMPLES
    assert max(both.prefill.counts) > MOST_SAMPLES / 2
