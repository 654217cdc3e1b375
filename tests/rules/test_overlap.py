from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.records import Request, schema
from parsers.setup import Setup
from parsers.tables import Tables
from rules.measures import Measures
from tests.rules.helpers import measures, read

B = "llama-server-b11434"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(start_ms: float, prefill_ms: float, decode_ms: float, **more: Any) -> dict[str, Any]:
    """A request that the process's clock places."""
    return {
        "clock_start_ms": start_ms,
        "prefill_ms": prefill_ms,
        "decode_ms": decode_ms,
        "clock_end_ms": start_ms + prefill_ms + decode_ms,
        "output_tokens": 100,
        **more,
    }


TIMES = st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(1, 30))


def shared(one: tuple[float, float], other: tuple[float, float]) -> float:
    return max(min(one[1], other[1]) - max(one[0], other[0]), 0.0)


@given(st.lists(TIMES, min_size=1, max_size=12))
def test_company_is_what_comparing_each_with_each_gives(times: list[tuple[int, int, int]]) -> None:
    told = measures([at(*t) for t in times]).overlap.requests

    reading = np.zeros(200)
    for start, prefill, _ in times:
        reading[start : start + prefill] = 1
    for i, (start, prefill, decode) in enumerate(times):
        decoding = (start + prefill, start + prefill + decode)
        others = [(s, s + p + d) for j, (s, p, d) in enumerate(times) if j != i]
        beside = [shared(decoding, other) for other in others]
        row = told.row(i, named=True)
        assert row["others"] == sum(ms > 0 for ms in beside)
        assert row["level"] == pytest.approx(1 + sum(beside) / decode)
        assert row["stalled_ms"] == pytest.approx(reading[decoding[0] : decoding[1]].sum(), abs=1e-6)
        assert row["alone"] == (not any(shared((start, decoding[1]), other) for other in others))


@given(st.lists(TIMES, min_size=1, max_size=12))
def test_most_at_once(times: list[tuple[int, int, int]]) -> None:
    spans = [(s, s + p + d) for s, p, d in times]
    busiest = max(sum(begin <= t < end for begin, end in spans) for t in range(120))

    assert measures([at(*t) for t in times]).overlap.most == busiest


def test_pauses_and_arrivals() -> None:
    told = measures([at(0, 10, 90), at(40, 10, 20), at(500, 10, 90)]).overlap.requests

    assert told["arrival_gap_ms"].to_list() == [None, 40, 460]
    assert told["idle_ms"].to_list() == [None, 0, 400]


def test_processes_and_clocks_are_kept_apart() -> None:
    rows = [at(0, 10, 90), at(0, 10, 90, run=1), at(0, 10, 90, source="other.log")]

    assert measures(rows).overlap.requests["alone"].to_list() == [True] * 3


def test_an_embedding_beside_an_answer_stalls_it() -> None:
    rows = [at(0, 10, 90), {**at(20, 30, 0), "kind": "embedding", "decode_ms": None}]
    told = measures(rows).overlap.requests

    assert told.height == 1
    assert told["stalled_ms"][0] == 30
    assert told["others"][0] == 1


def ended(seconds: float, **more: Any) -> dict[str, Any]:
    """A request whose end is on the wall clock, 0.5 s of prefill and 2 s of decode."""
    row = {"finished_at": NOON + timedelta(seconds=seconds), "prefill_ms": 500.0, "decode_ms": 2_000.0}
    return {**row, "output_tokens": 80, **more}


def test_wall_clock_without_queue() -> None:
    waited = [ended(2.5 * i + 0.25, queue_ms=2_500.0 * i) for i in range(1, 5)]
    together = [ended(2.5 + 0.25 * i) for i in range(4)]

    assert measures(waited).overlap.most == 1
    assert measures(together).overlap.most == 4


def test_whole_seconds_do_not_overlap_by_rounding() -> None:
    rounded = [ended(float(round(2.5 * i))) for i in range(1, 9)]

    assert measures(rounded).overlap.most == 1
    assert measures(rounded).overlap.resolution_ms == 1_000
    assert measures([ended(10.0), ended(10.0)]).overlap.most == 2


def test_without_a_clock_nothing_is_alone() -> None:
    m = measures([{"prefill_ms": 10.0, "decode_ms": 500.0, "output_tokens": 40}] * 3)

    assert not m.overlap.known
    assert m.overlap.most is None
    assert m.overlap.alone.height == 0
    assert m.overlap.requests["others"].null_count() == 3


def test_four_real_slots() -> None:
    o = read(f"{B}/d_parallel4_12req").overlap

    assert o.most == 4
    assert o.requests["level"].max() == pytest.approx(4, abs=0.01)
    assert o.requests["stalled_ms"].sum() == pytest.approx(16_345, rel=0.01)
    assert o.alone.height == 0
    assert read(f"{B}/c1_multiturn_stable_prefix").overlap.alone.height == 6


def test_a_hundred_thousand_requests_take_no_time() -> None:
    rng = np.random.default_rng(7)
    n = 100_000
    starts, decode = np.cumsum(rng.exponential(500, n)), rng.exponential(1_500, n)
    rows = pl.DataFrame(
        {
            "source": ["big.log"] * n,
            "line": range(n),
            "kind": ["generation"] * n,
            "run": [0] * n,
            "prefill_ms": [200.0] * n,
            "decode_ms": decode,
            "clock_start_ms": starts,
            "clock_end_ms": starts + 200 + decode,
        }
    )
    types = schema(Request)
    rows = rows.select(
        (pl.col(c) if c in rows.columns else pl.lit(None)).cast(types[c]).alias(c) for c in types
    )
    empty = Tables()

    began = datetime.now(UTC)
    level = Measures(rows, empty.intervals, empty.events, Setup()).overlap.requests["level"].mean()

    assert (datetime.now(UTC) - began).total_seconds() < 5
    assert level == pytest.approx(1 + 1_700 / 500, rel=0.1)
