"""Where the time went, and when a phase may be named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.attribution import attribute, interval_verdict, verdict
from tests.rules.helpers import measures, requests

PHASES = ("queue", "load", "prefill", "decode")


def judged(**row: Any) -> tuple[str, float | None]:
    found = verdict(attribute(requests(row)))
    return found.phase, found.share


def test_the_worked_examples() -> None:
    assert judged(prefill_ms=500.0, decode_ms=7_500.0) == ("decode", 0.9375)
    phase, share = judged(prefill_ms=8_000.0, decode_ms=12_500.0)
    assert phase == "decode"
    assert share == pytest.approx(1 - 0.3902, abs=1e-4)


def test_ten_points_are_a_lead_also_in_floating_point() -> None:
    assert judged(prefill_ms=50.0, decode_ms=40.0, total_ms=100.0)[0] == "prefill"
    assert judged(prefill_ms=50.0, decode_ms=41.0, total_ms=100.0)[0] == "mixed"
    assert judged(prefill_ms=39.0, decode_ms=20.0, total_ms=80.0, queue_ms=21.0)[0] == "prefill"
    assert judged(prefill_ms=39.0, decode_ms=20.0, total_ms=100.0, queue_ms=21.0)[0] == "mixed"


def test_the_remainder_makes_it_mixed_and_is_never_the_answer() -> None:
    assert judged(prefill_ms=10.0, decode_ms=20.0, total_ms=100.0) == ("mixed", 0.7)


def test_loading_can_be_named_where_prefill_and_decode_cannot() -> None:
    assert judged(load_ms=73.0, total_ms=100.0) == ("load", 0.73)
    assert judged(load_ms=10.0, total_ms=100.0) == ("unknown", None)
    assert judged(total_ms=100.0) == ("unknown", None)


def test_a_request_without_a_total_is_not_in_the_shares() -> None:
    rows = requests(
        {"prefill_ms": 10.0, "decode_ms": 90.0}, {"prefill_ms": None, "decode_ms": 9_000.0, "total_ms": None}
    )
    found = attribute(rows)
    assert found.wall_ms == 100.0
    assert found.phase_share["decode"] == pytest.approx(0.9)


@given(st.lists(st.tuples(*[st.none() | st.floats(0, 1e6)] * 4, st.floats(0, 1e6)), min_size=1, max_size=8))
def test_shares_are_shares(rows: list[tuple[float | None, ...]]) -> None:
    made = [
        {f"{p}_ms": ms for p, ms in zip(PHASES, row, strict=False)}
        | {"total_ms": sum(ms or 0.0 for ms in row)}
        for row in rows
    ]
    found = attribute(requests(*made))
    told = [share for share in found.phase_share.values() if share is not None]
    assert all(0 <= share <= 1 + 1e-9 for share in told)
    assert not told or sum(told) == pytest.approx(1, abs=1e-6)


def test_windows_of_which_nobody_knows_what_they_did_decide_nothing() -> None:
    """A prompt of 20 s is told when it is done: until then, short windows don't tell what was done."""
    known = [{"phase": "decode", "running": 1, "span_ms": 500.0}] * 20
    silent = [{"phase": "unknown", "running": 1, "span_ms": 500.0}] * 40
    nothing = [{"phase": "unknown", "running": 0, "span_ms": 500.0}] * 40
    assert interval_verdict(measures(intervals=[*known, *nothing]).intervals).phase == "decode"
    assert interval_verdict(measures(intervals=[*known, *silent]).intervals).phase == "unknown"
