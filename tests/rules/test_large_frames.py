"""What is quick on millions of rows tells the same as what is plain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from rules.frames import numbered
from rules.prefill.parallel_fanout_no_share import _bursts
from rules.sweep import Busy, Spans

if TYPE_CHECKING:
    from rules.savings import Array

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), min_size=1, max_size=20)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([1, 2, None])), max_size=20))
def test_rows_that_are_alike_have_one_number(rows: list[tuple[str | None, int | None]]) -> None:
    frame = pl.DataFrame(rows, schema={"source": pl.String, "run": pl.Int64}, orient="row")
    distinct = list(dict.fromkeys(rows))
    assert numbered(frame, ("source", "run")).to_list() == [distinct.index(row) for row in rows]


def _spans(spans: list[tuple[int, int]]) -> tuple[Array, Array]:
    start, took = (np.array(column, dtype=float) for column in zip(*spans, strict=True))
    return start, start + took


@given(SPANS)
def test_what_runs_between_two_moments_is_what_a_walk_over_all_finds(spans: list[tuple[int, int]]) -> None:
    start, end = _spans(spans)
    told = Spans(start, end)
    begin, finish = start + 1, end + 2
    ran = [
        sum(max(min(e, f) - max(s, b), 0) for s, e in zip(start, end, strict=True))
        for b, f in zip(begin, finish, strict=True)
    ]
    assert told.running_ms(begin, finish).tolist() == ran
    assert told.most() == max(int(sum((start <= moment) & (moment < end))) for moment in start)


@given(SPANS)
def test_stretches_that_touch_count_once(spans: list[tuple[int, int]]) -> None:
    start, end = _spans(spans)
    covered = {moment for s, e in spans for moment in range(s, s + e)}
    moments = np.arange(0.0, 45.0)
    before = [float(sum(m < moment for m in covered)) for moment in moments]
    assert Busy(start, end).ms_before(moments).tolist() == before


STARTS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([300, 400]), st.integers(0, 2_000)), max_size=30
)


@given(STARTS)
def test_bursts_are_those_found_without_leaving_out_what_starts_alone(
    starts: list[tuple[int, int, int]],
) -> None:
    asked = pl.DataFrame(starts, schema=["run", "prompt", "begun"], orient="row").with_columns(
        pl.col("run", "prompt").cast(pl.Int64),
        pl.col("begun").cast(pl.Float64),
        model=pl.lit("m"),
        total_ms=pl.lit(900.0),
        cached_tokens=pl.lit(0),
    )
    rows = asked.unique().with_row_index("row")
    all_in_order = _bursts(rows, within_ms=200, fewest=1).filter(pl.len().over("burst") >= 2)
    quick = _bursts(rows, within_ms=200, fewest=2)
    assert quick.drop("burst").equals(all_in_order.drop("burst"))
    assert quick["burst"].rle_id().equals(all_in_order["burst"].rle_id())
