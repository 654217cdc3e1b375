from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.rows import reading
from rules.frames import known, passing, without
from rules.lines import MOST_SAMPLES, evenly, fit_line
from rules.measures import Measures
from rules.physics.prefill import fit_prefill


@given(st.integers(0, 5_000), st.integers(1, 400))
def test_a_sample_has_one_of_each_stretch(of: int, most: int) -> None:
    places = evenly(of, most)
    assert places.size == min(of, most)
    assert (np.diff(places) > 0).all()
    assert set(places.tolist()) <= set(range(of))
    assert np.array_equal(places, evenly(of, most))


def test_what_alternates_is_sampled_from_both_sides() -> None:
    tokens = np.tile([500.0, 4_000.0], 2 * MOST_SAMPLES)
    fit = fit_prefill(tokens, 0 * tokens, 20 + 0.5 * tokens)
    assert fit is not None
    assert fit.n == MOST_SAMPLES
    assert fit.span == 8
    line = fit_line(tokens, 20 + 0.5 * tokens)
    assert line is not None
    assert line[1].value == pytest.approx(0.5, rel=0.01)


def test_nothing_is_copied_that_stays() -> None:
    frame = pl.DataFrame({"row": [0, 1, 2], "a": [1, None, 3]})
    assert passing(frame, pl.col("row") >= 0) is frame
    assert known(frame, ["row"]) is frame
    assert without(frame, pl.Series([], dtype=pl.Int64)) is frame
    assert passing(frame, pl.col("a") > 1)["row"].to_list() == [2]
    assert known(frame, ["row", "a"])["row"].to_list() == [0, 2]
    assert without(frame, pl.Series([0, 2]))["row"].to_list() == [1]


def test_what_is_let_go_is_the_same_when_asked_again() -> None:
    made = reading(600)
    tables = made.tables
    m = Measures(tables.requests, tables.intervals, tables.events, made.setups[0], list(made.setups))
    names = ("turns", "ledger", "loads", "valid_decode", "clocked", "followed", "reprocessed")

    def told() -> list[Any]:
        return [getattr(m, name) for name in names if name != "ledger"]

    before, saved = told(), m.ledger.total_ms
    m.forget(but_clock=False)
    assert all(one.equals(other) for one, other in zip(before, told(), strict=True))
    assert m.ledger.total_ms == saved


def test_a_part_with_all_requests_shares_what_they_tell() -> None:
    made = reading(600)
    tables = made.tables
    whole = Measures(tables.requests, tables.intervals, tables.events, made.setups[0])
    part = Measures(whole.requests, tables.intervals.clear(), tables.events, made.setups[0], whole=whole)
    other = Measures(whole.requests[:10], tables.intervals, tables.events, made.setups[0], whole=whole)
    assert part.clocked is whole.clocked
    assert other.clocked.height == 10
