"""Whether two arms that ran in turn differ, and what became of a prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.came_true import compared
from rules.trials import Block, Outcome, Pair, drift, judged, median_interval

if TYPE_CHECKING:
    from collections.abc import Sequence


def block(prefill: Sequence[float | None], decode: Sequence[float | None]) -> Block:
    total = tuple(None if p is None or d is None else p + d for p, d in zip(prefill, decode, strict=True))
    return Block(tuple(prefill), tuple(decode), total)


def pairs(ratios: Sequence[float], ms: float = 2040.0) -> list[Pair]:
    """Runs of two requests each whose prefill changes by these ratios, and whose decode stays."""
    return [
        Pair(block((ms, ms / 2), (500, 500)), block((ms * ratio, ms / 2 * ratio), (500, 500)))
        for ratio in ratios
    ]


def outcome(ratio: float, low: float | None, high: float | None) -> Outcome:
    return Outcome("prefill", 2000.0, ratio, low, high, 8, 3)


# --- outcomes


def test_a_clear_saving() -> None:
    trial = judged(pairs([0.58, 0.6, 0.59, 0.57, 0.6, 0.59]))
    assert trial.prefill is not None
    assert trial.decode is not None
    assert trial.total is not None
    assert trial.prefill.ratio == pytest.approx(0.59)
    assert trial.prefill.before_ms == pytest.approx(1530)
    assert trial.prefill.verdict == "faster"
    assert (
        trial.prefill.sentence
        == "Prefill takes 41 % less (40 to 43 % in this run): 903 ms instead of 1.53 s a request."
    )
    assert (trial.decode.ratio, trial.decode.verdict) == (1.0, "no-difference")
    assert trial.decode.sentence == "No difference measurable in decode (within ±2 % in this run)."
    assert trial.verdict == trial.total.verdict == "faster"
    assert trial.sentence.startswith("Prefill takes 41 % less")


def test_the_interval_turns_round_with_the_arms() -> None:
    there = judged(pairs([0.58, 0.6, 0.59, 0.57, 0.6, 0.62])).prefill
    back = judged([Pair(p.after, p.before) for p in pairs([0.58, 0.6, 0.59, 0.57, 0.6, 0.62])]).prefill
    assert there is not None
    assert back is not None
    assert (there.low, there.high) != (None, None)
    assert back.ratio == pytest.approx(1 / there.ratio)
    assert (back.low, back.high) == pytest.approx((1 / (there.high or 0), 1 / (there.low or 0)))
    assert back.verdict == "slower"
    assert (
        back.sentence
        == "Prefill takes 68 % more (63 to 74 % in this run): 1.53 s instead of 910 ms a request."
    )


def test_one_disturbed_pair_of_eight_moves_little() -> None:
    quiet = judged(pairs([0.7] * 8)).prefill
    disturbed = judged(pairs([0.7] * 7 + [7.0])).prefill
    assert quiet is not None
    assert disturbed is not None
    assert disturbed.ratio == pytest.approx(quiet.ratio)
    assert disturbed.verdict == "faster"


def test_a_small_sure_change_is_no_difference() -> None:
    trial = judged(pairs([0.985] * 6))
    assert trial.prefill is not None
    assert trial.prefill.high == pytest.approx(0.985)
    assert trial.prefill.verdict == "no-difference"
    assert trial.prefill.sentence == "No difference measurable in prefill (within ±2 % in this run)."


def test_scattered_pairs_are_too_noisy() -> None:
    found = judged(pairs([0.7, 1.25, 0.9, 1.2, 0.75, 1.1])).prefill
    assert found is not None
    assert found.is_noisy
    assert found.sentence == "Prefill: too noisy to tell; the interval goes from 28 % less to 23 % more."


def test_too_few_pairs_have_no_interval() -> None:
    found = judged(pairs([0.5, 0.5, 0.5])).prefill
    assert found is not None
    assert (found.low, found.high, found.verdict) == (None, None, "no-difference")
    assert found.sentence == "Prefill: 3 pairs of runs can't tell; 4 can."


def test_a_request_unknown_in_one_run_is_left_out_of_all() -> None:
    known = [Pair(block((100, 900), (10, 10)), block((50, 900), (10, 10))) for _ in range(3)]
    trial = judged([*known, Pair(block((100, None), (10, 10)), block((50, 900), (10, 10)))])
    assert trial.prefill is not None
    assert trial.prefill.requests == 1
    assert trial.prefill.ratio == pytest.approx(0.5)
    assert trial.decode is not None
    assert trial.decode.requests == 2


def test_a_phase_that_is_nowhere_known_is_none() -> None:
    trial = judged([Pair(block((None,), (10,)), block((None,), (5,)))] * 4)
    assert (trial.prefill, trial.total) == (None, None)
    assert trial.verdict == "faster"
    with pytest.raises(ValueError, match="no pairs"):
        judged([])


def test_times_that_read_alike_are_told_apart() -> None:
    found = judged(pairs([0.97] * 6, ms=1400)).prefill
    assert found is not None
    assert found.sentence.endswith("takes 3 % less in this run: 1.02 s instead of 1.05 s a request.")


def test_twice_as_long() -> None:
    found = judged(pairs([3.0, 3.1, 3.2, 3.1, 3.1, 3.0])).prefill
    assert found is not None
    assert found.sentence.startswith("Prefill takes 3.1 times as long (3.0 to 3.2 times in this run)")


@given(st.lists(st.tuples(st.floats(1, 1e4), st.floats(1, 1e4)), min_size=4, max_size=12))
def test_the_measured_time_lies_in_its_own_interval(runs: list[tuple[float, float]]) -> None:
    found = judged([Pair(block((before,), (1,)), block((after,), (1,))) for before, after in runs]).prefill
    assert found is not None
    assert found.interval_ms is not None
    low, high = found.interval_ms
    assert low <= found.after_ms * (1 + 1e-9)
    assert found.after_ms <= high * (1 + 1e-9)


# --- the interval


@pytest.mark.parametrize("n", [4, 5, 6, 7, 8, 10, 12])
@pytest.mark.parametrize("tails", [2, 1000])
def test_the_interval_covers(n: int, tails: int) -> None:
    drawn = np.random.default_rng(n).standard_t(tails, size=(3000, n))
    ends = [median_interval(row) for row in drawn]
    assert np.mean([low <= 0 <= high for low, high in ends]) >= 0.935


@given(st.lists(st.floats(-5, 5), min_size=4, max_size=20), st.floats(-3, 3), st.floats(0.1, 3))
def test_the_interval_moves_with_its_values(values: list[float], shift: float, scale: float) -> None:
    low, high = median_interval(np.array(values))
    assert low <= np.median(values) + 1e-9
    assert high >= np.median(values) - 1e-9
    moved = median_interval(np.array(values) * scale + shift)
    assert moved == pytest.approx((low * scale + shift, high * scale + shift), abs=1e-6)
    turned = median_interval(-np.array(values))
    assert turned == pytest.approx((-high, -low), abs=1e-9)


# --- predictions

OPEN = "it may have come true; these runs can't tell how much"
MAYBE = f"Predicted 38 % less: {OPEN}."


@pytest.mark.parametrize(
    ("measured", "predicted", "at_most", "words"),
    [
        ((0.59, 0.56, 0.62), 0.62, False, "Predicted 38 % less: it came true."),
        ((0.81, 0.79, 0.83), 0.62, False, "Predicted 38 % less: half of it came true."),
        ((0.97, 0.96, 0.98), 0.62, False, "Predicted 38 % less: little of it came true."),
        ((0.40, 0.39, 0.42), 0.62, False, "Predicted 38 % less: more than that came."),
        ((1.00, 0.98, 1.02), 0.62, False, "Predicted 38 % less: it did not come true."),
        ((1.20, 1.15, 1.25), 0.62, False, "Predicted 38 % less: the opposite came."),
        ((1.00, 0.60, 1.50), 0.62, False, "Predicted 38 % less: these runs can't tell."),
        ((1.00, 0.80, 1.20), 0.62, False, "Predicted 38 % less: it did not come true."),
        ((0.97, None, None), 0.62, False, "Predicted 38 % less: these runs can't tell."),
        ((0.70, 0.62, 0.78), 0.62, False, "Predicted 38 % less: it came true."),
        ((0.70, 0.50, 0.90), 0.62, False, MAYBE),
        ((0.60, 0.20, 0.75), 0.62, False, MAYBE),
        ((0.80, 0.61, 0.95), 0.62, False, MAYBE),
        ((1.30, 1.25, 1.35), 1.3, False, "Predicted 30 % more: it came true."),
        ((1.00, 0.98, 1.02), 1.0, False, "Predicted no difference: it came true."),
        ((1.00, 0.70, 1.30), 1.0, False, "Predicted no difference: these runs can't tell."),
        ((0.80, 0.78, 0.82), 1.0, False, "Predicted no difference: it takes 20 % less."),
        ((0.81, 0.79, 0.83), 0.62, True, "Predicted at most 38 % less: half of that came."),
        ((0.61, 0.59, 0.63), 0.62, True, "Predicted at most 38 % less: all of that came."),
        ((0.40, 0.38, 0.42), 0.62, True, "Predicted at most 38 % less: more than that came."),
        ((1.00, 0.98, 1.02), 0.62, True, "Predicted at most 38 % less: nothing measurable came."),
        ((1.00, 0.80, 1.20), 0.62, True, "Predicted at most 38 % less: these runs can't tell."),
        ((1.30, 1.28, 1.45), 1.4, True, "Predicted at most 40 % more: most of that came."),
    ],
)
def test_what_became_of_a_prediction(
    measured: tuple[float, float | None, float | None], predicted: float, at_most: bool, words: str
) -> None:
    assert compared(outcome(*measured), predicted, at_most=at_most) == words


@pytest.mark.parametrize(
    ("measured", "predicted", "words"),
    [
        ((0.45, 0.40, 0.50), 0.5, "Predicted at least 50 % less: it came true."),
        ((0.10, 0.09, 0.12), 0.5, "Predicted at least 50 % less: it came true."),
        ((0.55, 0.45, 0.65), 0.5, f"Predicted at least 50 % less: {OPEN}."),
        ((0.75, 0.73, 0.77), 0.5, "Predicted at least 50 % less: half of that came."),
        ((1.00, 0.98, 1.02), 0.5, "Predicted at least 50 % less: it did not come true."),
        ((1.00, 0.40, 1.60), 0.5, "Predicted at least 50 % less: these runs can't tell."),
        ((1.20, 1.15, 1.25), 0.5, "Predicted at least 50 % less: the opposite came."),
        ((3.10, 3.00, 3.20), 2.0, "Predicted at least 2.0 times as long: it came true."),
    ],
)
def test_a_prediction_from_below(measured: tuple[float, float, float], predicted: float, words: str) -> None:
    assert compared(outcome(*measured), predicted, at_least=True) == words


# --- drift


def test_a_drift_is_told_and_scatter_is_not() -> None:
    assert drift([100 + 3 * n for n in range(8)]) == pytest.approx(0.21, abs=0.01)
    assert drift([100, 100, 100, 100, 100]) is None
    assert drift([100, 130, 90, 120, 105, 110, 95]) is None
    assert drift([100 + n / 2 for n in range(8)]) is None
    assert drift([100, 200, 300]) is None
    assert drift([100, 101, 500, 103, 98, 102]) is None
