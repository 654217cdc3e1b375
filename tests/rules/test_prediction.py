"""What a change should do, by hand-checked numbers, and where no formula can tell."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.physics.layers import LayerCache
from rules.prediction import Done, Expected, Facts, Host, Task, predict

if TYPE_CHECKING:
    from collections.abc import Sequence

MODEL = Facts(
    read_bytes=100e6,
    active_parameters=135e6,
    cache=(LayerCache(10_000, 10_000),),  # 40,000 bytes a token in f16
    threads=2,
    flash_attention=True,
)
ON_GPU = replace(MODEL, layers_on_gpu=1.0)
EIGHT_BITS: dict[str, Any] = {"kv_type_k": "q8_0", "kv_type_v": "q8_0"}
CORES = Host(physical_cores=2)
ROW = Done(1000, 0, 4000.0, 33, 32, 640.0)
"""Answered at a depth of 1,016 tokens: a step reads 100 MB of weights and 40.64 MB of KV cache."""


def same(*rows: Done) -> list[Task]:
    return [Task(row.new_tokens, row.cached_tokens, row.output_tokens) for row in rows]


def changed(facts: Facts, host: Host = CORES, *rows: Done, was: Facts = MODEL) -> tuple[Expected, Expected]:
    """Settings change, the requests don't."""
    found = predict(rows or [ROW], same(*rows or [ROW]), was, facts, host)
    return found.prefill, found.decode


def asked(*tasks: Task, rows: tuple[Done, ...] = (ROW,), facts: Facts = MODEL) -> tuple[Expected, Expected]:
    """The requests change, the settings don't."""
    found = predict(rows, tasks, facts, facts, CORES)
    return found.prefill, found.decode


def test_nothing_changes() -> None:
    for phase in changed(MODEL):
        assert (phase.ratio, phase.bound) == (1.0, "estimate")
        assert "nothing" in phase.basis


# --- the KV cache's type, and another file


def test_a_smaller_kv_type_saves_at_most_its_bytes_on_a_gpu() -> None:
    prefill, decode = changed(replace(ON_GPU, **EIGHT_BITS), was=ON_GPU)
    read = 100e6 + 1016 * 20_000 * 34 / 32
    assert decode.ratio == pytest.approx(read / 140.64e6)
    assert decode.bound == "at_most"
    assert "116 MiB, not 134 MiB" in decode.basis
    assert prefill.ratio is None
    assert "KV cache" in prefill.basis


def test_each_answer_is_at_its_own_depth() -> None:
    shallow, deep = Done(100, 0, 400.0, 33, 32, 100.0), Done(1900, 0, 9000.0, 33, 32, 300.0)
    _, decode = changed(replace(ON_GPU, **EIGHT_BITS), CORES, shallow, deep, was=ON_GPU)

    def part(depth: float) -> float:
        return (100e6 + depth * 21_250) / (100e6 + depth * 40_000)

    assert decode.ratio == pytest.approx((100 * part(116) + 300 * part(1916)) / 400)


@pytest.mark.parametrize(
    "more", [{}, {"layers_on_gpu": 0.5}, {"layers_on_gpu": 1.0, "flash_attention": False}]
)
def test_attention_that_computes_more_than_it_reads(more: dict[str, Any]) -> None:
    """On a CPU, and without flash attention, a byte of the KV cache takes several times as long as one of a
    weight, so its bytes promise nothing."""
    was = replace(MODEL, **more)
    _, decode = changed(replace(was, **EIGHT_BITS), Host(2, {2: 30.0}), was=was)
    assert decode.ratio is None
    assert decode.basis.endswith("computes more than it reads")
    found = predict([ROW], [Task(500, 0, 33)], was, was, Host(2, {2: 30.0}))
    assert found.decode.ratio is None


def test_a_measured_bandwidth_leaves_the_rest_of_a_step_as_it_is() -> None:
    """20 ms a step, of which 20 MB fewer take 2 ms at 10 GB/s."""
    host = Host(2, {1: 8.0, 2: 10.0})
    _, decode = changed(replace(MODEL, read_bytes=80e6), host)
    assert decode.ratio == pytest.approx(1 - 2 / 20)
    assert decode.bound == "estimate"
    assert "10 GB/s" in decode.basis


def test_a_bandwidth_never_saves_more_than_all_of_the_bytes() -> None:
    _, decode = changed(replace(MODEL, read_bytes=50e6), Host(2, {2: 1.0}))
    assert decode.ratio == pytest.approx(90.64 / 140.64)


def test_another_file_of_the_same_model() -> None:
    prefill, decode = changed(replace(MODEL, read_bytes=150e6))
    assert decode.ratio == pytest.approx(190.64 / 140.64)
    assert (prefill.ratio, prefill.bound) == (1.0, "estimate")


def test_a_smaller_model() -> None:
    prefill, _ = changed(replace(MODEL, read_bytes=50e6, active_parameters=67.5e6))
    assert prefill.ratio == pytest.approx(0.5)


def test_what_is_not_known_of_a_model() -> None:
    bare = replace(MODEL, cache=None)
    prefill, decode = changed(replace(bare, read_bytes=None, active_parameters=None))
    assert (prefill.ratio, decode.ratio) == (None, None)
    _, decode = changed(replace(ON_GPU, kv_type_k="q3_7"), was=ON_GPU)
    assert (decode.ratio, decode.basis) == (None, "the size of q3_7 values is not known")


# --- threads


def test_threads_up_to_the_cores() -> None:
    prefill, decode = changed(replace(MODEL, threads=1))
    assert (prefill.ratio, prefill.bound, prefill.basis) == (2.0, "at_most", "computed by 1 core, not 2")
    assert (decode.ratio, decode.bound) == (2.0, "at_most")


def test_threads_beyond_the_cores() -> None:
    for phase in changed(replace(MODEL, threads=4)):
        assert (phase.ratio, phase.bound) == (1.0, "estimate")


def test_threads_for_prefill_alone() -> None:
    prefill, decode = changed(replace(MODEL, threads_batch=1))
    assert (prefill.ratio, decode.ratio) == (2.0, 1.0)


def test_decode_follows_the_measured_bandwidth_as_far_as_it_reads() -> None:
    """Of 20 ms, 140.64 MB at 12 GB/s are 11.72 ms of reading; 8.28 ms are computed."""
    host = Host(8, {1: 8.0, 4: 20.0, 8: 20.0})
    prefill, decode = changed(replace(MODEL, threads=1), host)
    assert decode.ratio == pytest.approx((11.72 * 12 / 8 + 8.28 * 2) / 20)
    assert decode.bound == "at_most"
    assert decode.basis.startswith("59 % of a step is reading, at 8 GB/s and not 12, as measured")
    assert prefill.ratio == 2.0
    more = changed(replace(MODEL, threads=8), host)[1]
    assert more.ratio == pytest.approx((11.72 * 12 / 20 + 8.28 / 4) / 20)


def test_a_small_model_is_computed_not_read() -> None:
    host = Host(2, {1: 1000.0, 2: 1010.0})
    _, decode = changed(replace(MODEL, threads=1), host)
    assert decode.ratio == pytest.approx(2.0, abs=0.01)


def test_threads_that_nobody_set() -> None:
    prefill, decode = changed(replace(MODEL, threads=None))
    assert (prefill.ratio, decode.ratio) == (None, None)


def test_threads_beside_a_gpu() -> None:
    prefill, decode = changed(replace(ON_GPU, threads=1), was=ON_GPU)
    assert (prefill.ratio, decode.ratio) == (None, None)


# --- prompts and answers


def test_a_shorter_prompt() -> None:
    """Of few alike prompts: at least in proportion. The answer's context is shallower too."""
    prefill, decode = asked(Task(500, 0, 33), facts=ON_GPU)
    assert (prefill.ratio, prefill.bound) == (0.5, "at_least")
    assert prefill.basis.startswith("500 prompt tokens to evaluate, not 1,000, in proportion to them; attent")
    assert decode.ratio == pytest.approx((100 + 0.04 * 516) / 140.64)
    assert decode.bound == "at_most"


def test_answers_at_several_depths_show_what_a_token_of_context_takes() -> None:
    """10 ms a step and 0.01 ms a token of context: 15.16 and 25.16 ms, and at half the prompts 10 and 20."""

    def row(n: float) -> Done:
        return Done(n, 0, 4 * n, 33, 32, 32 * (10 + 0.01 * (n + 16)))

    rows = (row(500), row(1500))
    halves = [replace(t, new_tokens=t.new_tokens / 2) for t in same(*rows)]
    _, decode = asked(*halves, rows=rows)
    assert decode.ratio == pytest.approx(1 - 10 / (15.16 + 25.16))
    assert decode.bound == "estimate"
    assert "each takes 10 µs of a step" in decode.basis
    alike = (row(1000), row(1100))
    assert asked(*[replace(t, new_tokens=500) for t in same(*alike)], rows=alike)[1].ratio is None
    backwards = (replace(rows[0], decode_ms=900.0), rows[1])
    assert asked(*halves, rows=backwards)[1].ratio is None


def test_a_smaller_file_beside_shorter_prompts_counts_once_each() -> None:
    rows = (Done(500, 0, 2000.0, 33, 32, 32 * 15.16), Done(1500, 0, 6000.0, 33, 32, 32 * 25.16))
    halves = [replace(t, new_tokens=t.new_tokens / 2) for t in same(*rows)]
    both = predict(rows, halves, MODEL, replace(MODEL, read_bytes=50e6), CORES).decode
    shorter = predict(rows, halves, MODEL, MODEL, CORES).decode
    assert both.ratio is not None
    assert shorter.ratio is not None
    before, after = (w + 40_000 * np.array([266.0, 766.0]) for w in (100e6, 50e6))
    assert both.ratio / shorter.ratio == pytest.approx(np.average(after / before, weights=[15.16, 25.16]))
    assert both.bound == "at_most"


@pytest.mark.parametrize("lengths", [(100, 400, 2000), (100, 200, 400, 800, 1600, 2000)])
def test_prompts_of_several_lengths_show_attention(lengths: Sequence[int]) -> None:
    """2 ms a token and 0.002 ms a pair: 2,000 tokens take 8 s, and half of them 3 s."""

    def row(n: float) -> Done:
        return Done(n, 0, 2 * n + 0.002 * n * n / 2, 33, 32, 640.0)

    rows = tuple(row(n) for n in lengths)
    prefill, _ = asked(*[replace(t, new_tokens=t.new_tokens / 2) for t in same(*rows)], rows=rows)
    before = sum(row.prefill_ms or 0.0 for row in rows)
    after = sum(row(r.new_tokens / 2).prefill_ms or 0.0 for r in rows)
    assert prefill.ratio == pytest.approx(after / before, rel=1e-6)
    assert "the model fitted" in prefill.basis


def test_a_prefix_that_is_kept() -> None:
    """The first prompt is read whole, the others behind it; decode is as deep as before."""
    rows = (ROW, ROW)
    prefill, decode = asked(Task(1000, 0, 33), Task(100, 900, 33), rows=rows)
    assert prefill.ratio == pytest.approx(0.55)
    assert prefill.bound == "estimate"
    assert decode.ratio == 1.0


def test_a_prefix_that_is_broken_takes_longer() -> None:
    row = Done(100, 900, 400.0, 33, 32, 640.0)
    prefill, decode = asked(Task(1010, 0, 33), rows=(row,))
    assert prefill.ratio == pytest.approx(10.1)
    assert prefill.bound == "at_most"
    assert decode.ratio == 1.0


def test_fewer_tokens_behind_many_more_may_take_longer() -> None:
    prefill, _ = asked(Task(900, 2000, 33))
    assert prefill.ratio is None
    assert "attention may outweigh" in prefill.basis


def test_a_prompt_is_never_read_faster_than_a_step() -> None:
    prefill, _ = asked(Task(1, 999, 33))
    assert prefill.ratio == pytest.approx(20 / 4000)


def test_a_capped_answer() -> None:
    prefill, decode = asked(Task(1000, 0, 17), facts=replace(MODEL, cache=None))
    assert (decode.ratio, decode.bound) == (0.5, "estimate")
    assert decode.basis == "16 tokens to generate, not 32"
    assert prefill.ratio == 1.0


def test_the_longer_answers_weigh_more() -> None:
    rows = (Done(10, 0, 40.0, 11, 10, 100.0), Done(10, 0, 40.0, 31, 30, 900.0))
    _, decode = asked(Task(10, 0, 11), Task(10, 0, 16), rows=rows)
    assert decode.ratio == pytest.approx((100 + 450) / 1000)


def test_what_was_not_measured() -> None:
    row = Done(1000, 0, None, 1, 0, None)
    found = predict([row], [Task(500, 0, 1)], MODEL, MODEL, CORES)
    assert found.prefill == Expected(None, "no prompt was measured before")
    assert found.decode == Expected(None, "no answer was measured before")


# --- what no formula tells


@pytest.mark.parametrize(
    "change",
    [{"flash_attention": False}, {"layers_on_gpu": 0.5}, {"speculation": "10 tokens looked up"}],
)
def test_no_formula_tells(change: dict[str, object]) -> None:
    for phase in changed(replace(MODEL, **change)):  # type: ignore[arg-type]
        assert phase.ratio is None
        assert phase.basis


def test_another_batch_size() -> None:
    prefill, decode = changed(replace(MODEL, ubatch=128))
    assert (prefill.ratio, decode.ratio) == (None, 1.0)


def test_a_batch_size_that_no_prompt_fills() -> None:
    prefill, _ = changed(replace(MODEL, batch=4096, ubatch=2048), CORES, Done(300, 0, 900.0, 33, 32, 640.0))
    assert prefill.ratio == 1.0


def test_changes_together_multiply() -> None:
    """Two halves of a prompt's time or less, and twice the time or less."""
    found = predict(
        [ROW], [Task(500, 0, 33)], MODEL, replace(MODEL, active_parameters=67.5e6, threads=1), CORES
    )
    assert found.prefill.ratio == pytest.approx(0.5 * 0.5 * 2)
    assert found.prefill.bound == "at_least"
    found = predict([ROW], [Task(1000, 0, 17)], MODEL, replace(MODEL, threads=1), CORES)
    assert found.decode.ratio == pytest.approx(0.5 * 2)
    assert found.decode.bound == "at_most"


def test_bounds_from_both_sides_promise_nothing() -> None:
    found = predict([ROW], [Task(500, 0, 33)], MODEL, replace(MODEL, threads=4), Host(physical_cores=4))
    assert found.prefill.ratio is None
    assert found.prefill.basis.endswith("bounded from above and one from below")


def test_one_unknown_makes_the_whole_unknown() -> None:
    found = predict([ROW], [Task(500, 0, 33)], MODEL, replace(MODEL, ubatch=64), CORES)
    assert found.prefill.ratio is None
    assert "batches" in found.prefill.basis


def test_as_many_requests_as_measured() -> None:
    with pytest.raises(ValueError, match="each request"):
        predict([ROW], [], MODEL, MODEL, CORES)


@given(
    rows=st.lists(
        st.builds(
            Done,
            st.integers(1, 10_000),
            st.integers(0, 10_000),
            st.none() | st.floats(0.1, 1e6),
            st.integers(1, 500),
            st.integers(0, 500),
            st.none() | st.floats(0.1, 1e6),
        ),
        max_size=8,
    ),
    share=st.floats(0.01, 1.0),
)
def test_a_cut_prompt_never_takes_longer(rows: list[Done], share: float) -> None:
    tasks = [replace(task, new_tokens=max(task.new_tokens * share, 1)) for task in same(*rows)]
    found = predict(rows, tasks, MODEL, MODEL, CORES)
    for ratio in (found.prefill.ratio, found.decode.ratio):
        assert ratio is None or 0 < ratio <= 1 + 1e-9
