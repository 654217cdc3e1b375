"""Numbers as people read them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules import words


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (None, "?"),
        (0, "0 ms"),
        (0.004, "<0.01 ms"),
        (0.07, "0.07 ms"),
        (8.52, "8.5 ms"),
        (9.96, "10 ms"),
        (450, "450 ms"),
        (999.6, "1.0 s"),
        (8_000, "8.0 s"),
        (119_960, "2 min 0 s"),
        (125_000, "2 min 5 s"),
        (7_199_600, "2 h 0 min"),
        (7_200_000, "2 h 0 min"),
        (26_999_000, "7 h 30 min"),
    ],
)
def test_durations(ms: float | None, said: str) -> None:
    assert words.duration(ms) == said


_SECONDS = {"ms": 0.001, "s": 1, "min": 60, "h": 3600}


@given(st.floats(0, 1e10))
def test_a_duration_is_said_within_its_last_digit(ms: float) -> None:
    parts = re.findall(r"([\d.]+) (ms|min|s|h)", words.duration(ms))
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    smallest = _SECONDS[parts[-1][1]]
    assert abs(seconds - ms / 1000) <= smallest
    for number, unit in parts[1:]:
        assert float(number) < 60, unit


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (None, "?"),
        (0, "0 %"),
        (0.001, "<1 %"),
        (0.005, "<1 %"),
        (0.006, "1 %"),
        (0.996, ">99 %"),
        (0.39, "39 %"),
        (0.9375, "94 %"),
        (1, "100 %"),
    ],
)
def test_shares(share: float | None, said: str) -> None:
    assert words.percent(share) == said


@given(st.floats(0.95, 1, exclude_max=True))
def test_almost_all_is_not_all(share: float) -> None:
    assert words.percent(share) != "100 %"


@pytest.mark.parametrize(
    ("n_bytes", "said"),
    [
        (None, "?"),
        (512, "512 B"),
        (22.5 * 1024, "22.5 KiB"),
        (1023.6 * (1 << 20), "1,024 MiB"),
        (98_362_432, "93.8 MiB"),
        (1_500 * (1 << 20), "1.46 GiB"),
        (300 * (1 << 30), "300 GiB"),
        (1_536 * (1 << 30), "1,536 GiB"),
    ],
)
def test_sizes(n_bytes: float | None, said: str) -> None:
    assert words.size(n_bytes) == said


@given(st.floats(1, 1e15))
def test_no_size_is_said_in_exponents(n_bytes: float) -> None:
    assert re.fullmatch(r"[\d.,]+ ([KMG]i)?B", words.size(n_bytes))


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (12_000, "tokens", "12,000 tokens"),
        (2.5, "", "2.5"),
        (0.39, "share", "39 %"),
        (8_000, "ms", "8.0 s"),
        (39.9, "tok/s", "39.9 tok/s"),
        (1_500, "tok/s", "1,500 tok/s"),
        (22_500, "GB/s", "22,500 GB/s"),
        (1234.5, "GB/s", "1,234 GB/s"),
        ("q8_0", "", "q8_0"),
        (None, "tokens", "? tokens"),
        (True, "", "yes"),
        (False, "", "no"),
    ],
)
def test_measures(value: float | str | None, unit: str, said: str) -> None:
    assert words.measure(value, unit) == said


@given(st.floats(0, 1e12))
def test_no_measure_is_said_in_exponents(value: float) -> None:
    assert "e" not in words.measure(value, "GB/s")


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 requests"), (1, "1 request"), (12_000, "12,000 requests")]
)
def test_plurals(number: int, said: str) -> None:
    assert words.plural(number, "request") == said
