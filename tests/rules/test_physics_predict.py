"""Guesses and their bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.physics.decode import HEALTHY, HEALTHY_MIXTURE, health_band
from rules.physics.predict import NOTHING, decode_guess, prefill_guess, prefill_guess_from_tflops

Q4 = 4_917_737_553


def bounds(guess_low: float | None, value: float | None, high: float | None) -> tuple[float, float, float]:
    assert guess_low is not None
    assert value is not None
    assert high is not None
    return guess_low, value, high


def test_a_fitted_device_is_predicted_within_what_is_healthy() -> None:
    guess = decode_guess(Q4, 0, (1008, 1008), "geforce", 32)
    low, value, high = bounds(guess.low, guess.value, guess.high)
    assert value == pytest.approx(129.9, abs=0.05)
    assert [low / value, high / value] == pytest.approx(list(HEALTHY))
    assert health_band(low / value + 1e-9) == health_band(high / value - 1e-9) == "healthy"
    wide = decode_guess(Q4, 0, (1008, 1008), "geforce", 32, mixture=True)
    assert wide.low == pytest.approx(HEALTHY_MIXTURE[0] * value)
    assert wide.high == pytest.approx(1e6 * 1008 / Q4 * 1000)


def test_bandwidth_alone_gives_a_ceiling_and_a_rough_middle() -> None:
    for guess in (
        decode_guess(8e9, 0, (400, 400), None, 32),
        decode_guess(8e9, 0, (400, 400), "apple", None),
    ):
        assert (guess.low, guess.value, guess.high) == (25, 37.5, 50)
        assert "rough" in guess.basis


def test_a_name_of_several_parts_gives_a_wider_range() -> None:
    one, several = (decode_guess(Q4, 0, bw, "apple", 32) for bw in ((350, 350), (300, 400)))
    assert one.value == several.value
    assert bounds(several.low, 0, 0)[0] < bounds(one.low, 0, 0)[0]
    assert bounds(0, 0, several.high)[2] > bounds(0, 0, one.high)[2]


def test_one_point_is_a_constant_rate() -> None:
    guess = prefill_guess([(12_000, 1500)], 12_000, 0)
    assert guess.value == 8000
    low, _, high = bounds(guess.low, guess.value, guess.high)
    assert [low, high] == pytest.approx([7200, 8800])
    longer = prefill_guess([(12_000, 1500)], 24_000, 0)
    assert longer.value == 16_000
    assert longer.low == pytest.approx(0.9 * 16_000)
    assert longer.high == pytest.approx(1.3 * 1.1 * 16_000)
    shorter = prefill_guess([(12_000, 1500)], 6_000, 0)
    assert shorter.high == pytest.approx(1.1 * 4_000)
    assert shorter.low == pytest.approx(0.9 / 1.3 * 4_000)


def test_two_lengths_tell_how_the_rate_falls() -> None:
    """RTX 4090, Llama 3 8B Q4_K_M: 4,040 tok/s were measured at 8,192."""
    guess = prefill_guess([(512, 7138.99), (4096, 5265.68)], 8192, 0)
    low, value, high = bounds(guess.low, guess.value, guess.high)
    assert 8192 * 1000 / value == pytest.approx(4039.68, rel=0.03)
    assert [low / value, high / value] == pytest.approx([0.8, 1.2])
    within = prefill_guess([(512, 7138.99), (4096, 5265.68)], 2048, 0)
    assert bounds(within.low, within.value, within.high)[0] == pytest.approx(0.9 * (within.value or 0))


def test_tokens_in_the_cache_are_attended_to_as_well() -> None:
    points = [(512, 7138.99), (4096, 5265.68)]
    alone, behind = prefill_guess(points, 1000, 0), prefill_guess(points, 1000, 8000)
    assert (behind.value or 0) > 1.3 * (alone.value or 0)


def test_tflops_only_bound() -> None:
    guess = prefill_guess_from_tflops(1.7e13, 170)
    assert guess.value is None
    assert [guess.low, guess.high] == pytest.approx([100, 100 / 0.17])


def test_nothing_is_told_from_nothing() -> None:
    assert prefill_guess([], 1000, 0) == NOTHING
    assert prefill_guess([], 0, 1000).value == 0
    with pytest.raises(ValueError, match="positive"):
        prefill_guess([(0, 100)], 10, 0)
    with pytest.raises(ValueError, match="positive"):
        prefill_guess_from_tflops(1, 0)
    with pytest.raises(ValueError, match="positive"):
        decode_guess(0, 0, (1, 1), None, None)


@given(
    st.floats(1e8, 1e12),
    st.floats(0, 1e11),
    st.floats(10, 1e4),
    st.floats(1, 2),
    st.sampled_from(["geforce", "datacenter", "apple", "strix", "amd", None]),
    st.sampled_from([None, 16, 80]),
    st.booleans(),
    st.booleans(),
)
def test_a_rate_lies_within_its_bounds_and_under_the_ceiling(
    weights: float,
    kv: float,
    bandwidth: float,
    spread: float,
    device_class: str | None,
    layers: int | None,
    mixture: bool,
    flash: bool,
) -> None:
    guess = decode_guess(
        weights,
        kv,
        (bandwidth, spread * bandwidth),
        device_class,
        layers,
        mixture=mixture,
        flash_attention=flash,
    )
    low, value, high = bounds(guess.low, guess.value, guess.high)
    assert 0 < low <= value <= high * (1 + 1e-9)
    assert high <= spread * bandwidth * 1e9 / (weights + kv) * (1 + 1e-9)


@given(
    st.lists(st.tuples(st.integers(1, 100_000), st.floats(1, 1e5)), min_size=1, max_size=4),
    st.integers(0, 200_000),
    st.integers(0, 200_000),
)
def test_a_time_lies_within_its_bounds(points: list[tuple[int, float]], new: int, cached: int) -> None:
    guess = prefill_guess(points, new, cached)
    low, value, high = bounds(guess.low, guess.value, guess.high)
    assert 0 <= low <= value <= high
