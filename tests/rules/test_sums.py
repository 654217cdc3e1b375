"""Requests that are only known by their sums: which rows count, what leads, and when waiting is the cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.attribution import NOTHING, PHASES, verdict
from rules.caveats import interval_lines, log_hides_timings, sums_only
from rules.queue import queue_wait
from rules.rule import Confidence, Finding, NotApplicable
from rules.sums import Split
from tests.rules.helpers import measures

if TYPE_CHECKING:
    from rules.measures import Measures

WHOLE = {
    "requests": 40,
    "total_ms": 100_000.0,
    "queue_ms": 30_000.0,
    "prefill_ms": 15_000.0,
    "decode_ms": 50_000.0,
}


def summed(*rows: dict[str, Any], engine: str = "vllm") -> Measures:
    return measures(aggregates=[{"engine": engine, "line": at, **row} for at, row in enumerate(rows, 1)])


def judged(**row: Any) -> tuple[str, float | None]:
    found = verdict(summed(row).sums.attribution)
    return found.phase, found.share


def test_the_phases_of_the_sums_and_what_they_leave() -> None:
    told = summed(WHOLE).sums.attribution
    assert told.phase_ms == {
        "queue": 30_000.0,
        "load": None,
        "prefill": 15_000.0,
        "decode": 50_000.0,
        "other": 5_000.0,
    }
    assert judged(**WHOLE) == ("decode", 0.5)
    assert judged(**{**WHOLE, "queue_ms": 41_000.0, "decode_ms": 42_000.0})[0] == "mixed"


def test_decode_may_lead_what_is_not_told_apart_but_not_the_other_way_round() -> None:
    assert judged(total_ms=100.0, decode_ms=60.0) == ("decode", 0.6)
    assert judged(total_ms=100.0, decode_ms=30.0) == ("unknown", None)
    assert judged(total_ms=100.0, queue_ms=70.0) == ("queue", 0.7)
    assert judged(total_ms=100.0, queue_ms=20.0) == ("unknown", None)
    assert judged(decode_ms=60.0) == ("unknown", None)


@given(st.lists(st.floats(0.0, 1e6), min_size=3, max_size=3), st.floats(0.0, 1e6))
def test_a_named_phase_is_at_least_forty_percent_and_no_other_is_larger(
    phases: list[float], more: float
) -> None:
    row = dict(zip(("queue_ms", "prefill_ms", "decode_ms"), phases, strict=True))
    phase, share = judged(total_ms=sum(phases) + more, **row)
    if phase in PHASES:
        assert share is not None
        assert share >= 0.4 - 1e-9
        assert row[f"{phase}_ms"] == max(phases)


def test_every_request_counts_once() -> None:
    start = {"kind": "since_start", "total_ms": 10.0, "requests": 1}
    later = {"kind": "since_start", "total_ms": 50.0, "requests": 5}
    added = {"kind": "between", "total_ms": 40.0, "requests": 4}
    again = {"kind": "since_start", "total_ms": 7.0, "requests": 2, "run": 1}
    assert summed(start).sums.total("requests") == 1
    assert summed(start, later, added).sums.total("requests") == 4
    assert summed(start, later, added, again).sums.total("requests") == 6
    idle = {"kind": "between", "total_ms": 0.0, "requests": 0}
    assert summed(later, later, idle).sums.total("requests") == 5
    others = {"kind": "since_start", "total_ms": 1.0, "requests": 3, "model": "small"}
    assert summed(start, later, added, others).sums.total("requests") == 7
    assert (
        summed({"kind": "benchmark", "requests": 8}, {"kind": "benchmark", "requests": 9}).sums.total(
            "requests"
        )
        == 17
    )


def test_what_was_watched_counts_from_every_start() -> None:
    one = {"kind": "between", "total_ms": 10.0, "prefill_ms": 7.0, "decode_ms": 3.0, "output_tokens": 4}
    after = {**one, "run": 1, "output_tokens": 8}
    m = summed(one, one, after)
    assert m.sums.total("output_tokens") == 16
    assert m.sums.attribution.wall_ms == 30.0
    assert m.sums.attribution.phase_ms["prefill"] == 21.0


def test_a_part_that_has_totals_does_not_stand_for_the_whole() -> None:
    """As of a llama-server whose slots work alone first, and then at once."""
    alone = {"kind": "between", "total_ms": 10.0, "prefill_ms": 7.0, "decode_ms": 3.0, "output_tokens": 4}
    at_once = {"kind": "between", "decode_ms": 500.0, "output_tokens": 60}
    idle = {"kind": "between", "decode_ms": 0.0, "output_tokens": 0}
    counted = {**at_once, "requests": 2}
    assert summed(alone, idle).sums.attribution.wall_ms == 10.0
    assert summed(alone, counted).sums.attribution.wall_ms == 10.0
    cases: list[list[dict[str, Any]]] = [
        [alone, at_once],
        [alone, at_once, idle],
        [at_once, {**alone, "run": 1}],
        [alone, {**at_once, "model": "b"}],
        [{**alone, "kind": "since_start"}, {**at_once, "kind": "since_start", "model": "b"}],
    ]
    for rows in cases:
        m = summed(*rows)
        assert m.sums.attribution == NOTHING
        assert m.sums.total("decode_ms") == sum(row["decode_ms"] for row in rows)
    made_up_for = summed(at_once, {**alone, "total_ms": 800.0}).sums.attribution
    assert (made_up_for.wall_ms, made_up_for.phase_ms["decode"]) == (800.0, 503.0)


def test_the_split_of_sums_that_come_one_after_the_other_is_that_of_all() -> None:
    rows = [
        {"kind": "between", "total_ms": ms, "decode_ms": ms / 2, "requests": 1} for ms in (10.0, 30.0, 5.0)
    ]
    whole, split = summed(*rows).sums, Split()
    for at in range(len(rows)):
        split.add(whole.rows[at : at + 1])
    assert split.attribution == whole.attribution


def test_requests_without_a_total_are_not_divided_by() -> None:
    m = summed({**WHOLE, "kind": "benchmark"}, {"requests": 20, "ttft_ms": 5_000.0, "kind": "benchmark"})
    assert (m.sums.timed_requests, m.sums.total("requests")) == (40, 60)


def test_a_mean_needs_every_row() -> None:
    one, other = (
        {"model": "a", "requests": 2, "ttft_ms": 300.0, "ttft_requests": 3},
        {"model": "b", "requests": 1},
    )
    assert summed(one).sums.per("ttft_ms", "ttft_requests") == 100.0
    assert summed(one, other).sums.per("ttft_ms", "ttft_requests") is None
    assert (
        summed({"requests": 0, "ttft_ms": 0.0, "ttft_requests": 0}).sums.per("ttft_ms", "ttft_requests")
        is None
    )


def test_waiting_that_takes_a_fifth_of_the_sums() -> None:
    found = queue_wait.check(summed(WHOLE))
    assert isinstance(found, Finding)
    assert (found.confidence, found.requests, found.saving) == (Confidence.LIKELY, 40, None)
    assert [e.value for e in found.evidence] == [0.3, 750.0]
    assert [ref.line for ref in found.evidence[0].lines] == [1]
    assert isinstance(queue_wait.check(summed({**WHOLE, "queue_ms": 19_000.0})), NotApplicable)
    assert isinstance(queue_wait.check(summed({**WHOLE, "requests": 4})), NotApplicable)


def test_what_the_caveats_say_of_sums() -> None:
    m = summed({**WHOLE, "kind": "since_start"})
    said = sums_only.check(m)
    assert said is not None
    assert "since" not in said.id
    assert "before and after" in said.text
    assert log_hides_timings.check(m) is None
    assert interval_lines.check(m) is None
    assert sums_only.check(measures([{"prefill_ms": 1.0, "decode_ms": 1.0}])) is None


def test_a_llama_server_whose_prompt_time_is_of_batches() -> None:
    m = summed({"prefill_tokens": 900, "decode_ms": 5_000.0}, engine="llama-server")
    said = sums_only.check(m)
    assert said is not None
    assert "once for each batch" in said.text
    assert verdict(m.sums.attribution).phase == "unknown"
    assert m.sums.attribution.wall_ms == pytest.approx(0.0)
