"""Snapshots in files of their own: one server's give what came between, different servers stay apart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.helpers import measures

if TYPE_CHECKING:
    from rules.sums import Sums

AT = datetime(2026, 3, 1, tzinfo=UTC)


def snapshot(source: str, requests: int, **more: Any) -> dict[str, Any]:
    sums = {"requests": requests, "output_tokens": 30 * requests, "total_ms": 2000.0 * requests}
    return {
        "source": source,
        "engine": "vllm",
        "line": 1,
        **sums,
        "decode_ms": 1500.0 * requests,
        "ttft_p50_ms": 400.0,
        **more,
    }


def sums(*rows: dict[str, Any]) -> Sums:
    return measures(aggregates=list(rows)).sums


def told(*rows: dict[str, Any]) -> list[tuple[str, int | None]]:
    return sums(*rows).rows.sort("source", "requests").select("kind", "requests").rows()


@pytest.mark.parametrize("order", list(permutations((3, 15, 27))))
def test_files_of_one_server_give_what_came_between_in_any_order(order: tuple[int, ...]) -> None:
    found = sums(*(snapshot(f"{n}.txt", n) for n in order))
    (row,) = found.rows.to_dicts()
    assert (row["kind"], row["requests"], row["total_ms"], row["decode_ms"]) == (
        "between",
        24,
        48_000.0,
        36_000.0,
    )
    assert row["ttft_p50_ms"] is None
    assert row["source"] == "27.txt"


def test_nothing_new_is_counted_once() -> None:
    assert told(snapshot("a", 15), snapshot("b", 15)) == [("since_start", 15)]


def test_servers_that_differ_stay_apart() -> None:
    assert told(snapshot("a", 3), snapshot("b", 15, model="m")) == [("since_start", 3), ("since_start", 15)]
    assert told(snapshot("a", 3), snapshot("b", 15, engine="sglang")) == [
        ("since_start", 3),
        ("since_start", 15),
    ]
    started = [snapshot("a", 3, since=AT), snapshot("b", 15, since=AT + timedelta(seconds=1))]
    assert told(*started) == [("since_start", 3), ("since_start", 15)]
    assert told(snapshot("a", 3, decode_ms=1e9), snapshot("b", 15)) == [
        ("since_start", 3),
        ("since_start", 15),
    ]


def test_sums_that_fell_are_of_a_new_start() -> None:
    rows = snapshot("a", 15, time=AT), snapshot("b", 3, time=AT + timedelta(minutes=1))
    assert told(*rows) == [("since_start", 15), ("since_start", 3)]


def test_two_servers_twice_each() -> None:
    rows = [
        snapshot(f"{name}{n}", n, since=since) for name, since in (("a", AT), ("b", None)) for n in (3, 15)
    ]
    rows[2]["since"] = rows[3]["since"] = AT + timedelta(days=1)
    assert told(*rows) == [("between", 12), ("between", 12)]


def test_the_time_between_is_told() -> None:
    rows = snapshot("a", 3, time=AT), snapshot("b", 15, time=AT + timedelta(minutes=1))
    assert sums(*rows).rows["span_ms"].to_list() == [60_000.0]


@given(st.lists(st.integers(0, 50), min_size=2, max_size=5))
def test_no_request_is_counted_twice(counts: list[int]) -> None:
    found = sums(*(snapshot(f"{at}", n) for at, n in enumerate(counts)))
    assert (found.total("requests") or 0) <= max(counts)
