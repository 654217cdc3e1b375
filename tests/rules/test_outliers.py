"""Groups: whose rows they hold, and which of them stands out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.among import Among, Sampled
from rules.groups import By, group
from rules.outliers import FAMILY, LEAST_REQUESTS, Outliers, outliers
from rules.testing import measures
from tests.rules.made_logs import Engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rules.measures import Measures

CHAT, RAG = Engine("chat"), Engine("rag", prompt_tokens=3_500, output_tokens=60)
EIGHT = [f"gpu{number:02d}" for number in range(1, 9)]


def fleet(
    engines: Sequence[Engine], requests: int = 40, seed: int = 1, names: Sequence[str] = EIGHT
) -> Measures:
    """A log of each engine, in a folder of its own."""
    rows = [
        {**row, "source": f"logs/{name}/server.log", "run": run, "line": line}
        for run, (name, engine) in enumerate(zip(names, engines, strict=False))
        for line, row in enumerate(engine.rows(requests, 100 * seed + run), 1)
    ]
    return measures(rows, setups=[{} for _ in engines])


def with_one(engine: Engine, other: Engine, at: int = 4, among: int = 8) -> list[Engine]:
    return [other if number == at else engine for number in range(among)]


def found(m: Measures, by: By = "host") -> Outliers:
    return outliers(group(m, by))


def told(of: Outliers) -> list[tuple[str | None, str, int | None]]:
    return [(one.group, one.quantity.name, one.quantity.sign) for one in of.found]


# --- who stands out


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("engine", [CHAT, RAG])
def test_a_host_that_is_slow_in_one_phase_is_told_with_that_phase(engine: Engine, phase: str) -> None:
    of = found(fleet(with_one(engine, engine.slower(**{phase: 1.5}))))

    assert of.groups == ["gpu05"]
    assert told(of)[0] == ("gpu05", phase, 1)
    assert {name for _, name, _ in told(of)} <= {phase, "ttft", "total"}
    effect = of.found[0].quantity.alike
    assert effect is not None
    assert effect.low < 1.5 < effect.high
    assert of.found[0].cost_ms is not None
    assert of.found[0].cost_ms > 0


def test_a_host_where_requests_wait_is_told_with_the_queue() -> None:
    rng = np.random.default_rng(1)
    queued = fleet([replace(CHAT, kind="queued")] * 8, 60)
    waits = [row["source"] for row in queued.requests.iter_rows(named=True)]
    rows = [
        {
            **row,
            "queue_ms": (wait := float(rng.exponential(6_000 if "gpu03" in source else 40))),
            "load_ms": 0.0,
            "ttft_ms": row["prefill_ms"] + wait,
            "total_ms": row["prefill_ms"] + row["decode_ms"] + wait,
        }
        for source, row in zip(waits, queued.requests.iter_rows(named=True), strict=True)
    ]
    of = found(measures(rows, setups=[{}] * 8))

    assert told(of)[0] == ("gpu03", "queue", 1)
    assert of.groups == ["gpu03"]


def test_longer_prompts_are_a_longer_wait_and_no_slower_phase() -> None:
    of = found(fleet(with_one(RAG, replace(RAG, prompt_tokens=14_000))))

    assert of.groups == ["gpu05"]
    assert {name for _, name, _ in told(of)} <= {"ttft", "total"}


def test_shorter_prompts_are_nothing_to_look_at() -> None:
    assert not found(fleet(with_one(RAG, replace(RAG, prompt_tokens=900)))).found


def test_a_faster_host_is_told_too() -> None:
    assert told(found(fleet(with_one(CHAT, CHAT.slower(decode=0.5)))))[0] == ("gpu05", "decode", -1)


def test_two_slow_hosts_are_both_told() -> None:
    engines = with_one(CHAT, CHAT.slower(decode=1.6))
    engines[6] = CHAT.slower(decode=1.9)
    of = found(fleet(engines))

    assert set(of.groups) == {"gpu05", "gpu07"}
    ratios = {one.group: one.quantity.alike for one in of.found if one.quantity.name == "decode"}
    for name, ratio in (("gpu05", 1.6), ("gpu07", 1.9)):
        effect = ratios[name]
        assert effect is not None
        assert effect.low < ratio < effect.high


def test_two_kinds_of_machines_have_no_outlier() -> None:
    of = found(fleet([CHAT] * 4 + [CHAT.slower(decode=1.6)] * 4))
    assert not of.found
    assert "decode" in of.mixed


def test_machines_that_differ_by_a_few_percent_have_no_outlier() -> None:
    """At 200 requests each of these is told apart from the others; none is another kind of machine."""
    speeds = np.exp(0.03 * np.random.default_rng(3).normal(size=8))
    assert not found(fleet([RAG.slower(decode=speed, prefill=speed) for speed in speeds], 200)).found


def test_of_two_the_slower_one_is_told() -> None:
    of = found(fleet([CHAT, CHAT.slower(decode=1.5)]))
    assert told(of)[0] == ("gpu02", "decode", 1)
    assert of.groups == ["gpu02"]


def by_turns(m: Measures) -> Measures:
    """The same in one file, where hosts alternate."""
    rows = m.requests.sort("line", "run").with_columns(
        line=pl.int_range(1, pl.len() + 1), source=pl.lit("all.log")
    )
    labels = [{"label": f"gpu{run + 1:02d}"} for run in range(len(m.setups))]
    return measures(rows.iter_rows(named=True), setups=labels)


@pytest.mark.parametrize("hosts", [2, 4])
def test_of_hosts_that_alternate_each_is_sampled(monkeypatch: pytest.MonkeyPatch, hosts: int) -> None:
    monkeypatch.setattr("rules.among.MOST_OTHERS", 60)
    monkeypatch.setattr("rules.among.MOST_ROWS", 40 * hosts)
    monkeypatch.setattr("rules.among.LEAST_ROWS", 1)
    of = found(by_turns(fleet([CHAT.slower(decode=1.5), *[CHAT] * (hosts - 1)], 80)))
    assert of.groups == ["gpu01"]
    assert len(of.judged) == hosts
    assert of.sampled == Sampled(40 * hosts, 79 * hosts, 60)


def test_only_what_is_told_makes_the_next_test_easier() -> None:
    """Prefill is of two kinds, so that none of it is told."""
    names = [f"gpu{number:02d}" for number in range(16)]
    kinds = [CHAT.slower(prefill=2 if number < 8 else 1) for number in range(16)]
    kinds[8] = kinds[8].slower(decode=1.5)
    hosts = group(fleet(kinds, 30, names=names), "host")
    of = outliers(hosts)
    assert "prefill" in of.mixed
    decode = next(one for one in of.found if one.quantity.name == "decode")

    among = Among(hosts.whole, {one.name: one.measures for one in hosts.groups})
    others: list[str | None] = [name for name in names if name != decode.group]
    tests = 16 * len(among.quantities)
    assert decode.quantity == among.compare("decode", "gpu08", others, FAMILY / tests)
    assert decode.quantity != among.compare("decode", "gpu08", others, FAMILY / (tests - 1))


# --- what is not judged


def test_few_requests_are_never_judged() -> None:
    engines = with_one(CHAT, CHAT.slower(decode=3.0, prefill=3.0))
    of = found(fleet(engines, LEAST_REQUESTS - 1))
    assert (of.found, of.judged, len(of.too_few)) == ([], [], 8)


def test_a_host_like_no_other_is_not_judged_and_is_counted() -> None:
    m = fleet([CHAT] * 3 + [replace(CHAT, prompt_tokens=60_000)], 20)
    alone = pl.col("run") == 3
    waits = {name: pl.when(~alone).then(name) for name in ("ttft_ms", "total_ms", "queue_ms", "load_ms")}
    of = found(measures(m.requests.with_columns(**waits).iter_rows(named=True), setups=[{}] * 4))
    assert (of.judged, of.untold) == (["gpu01", "gpu02", "gpu03"], ["gpu04"])


def test_a_host_whose_decode_has_no_samples_is_told_as_unseen() -> None:
    m = fleet([*[CHAT] * 3, CHAT.slower(decode=3)], 30)
    short = pl.col("run") == 3
    one = [pl.when(short).then(1).otherwise(name).alias(name) for name in ("output_tokens", "decode_steps")]
    of = found(measures(m.requests.with_columns(one).iter_rows(named=True), setups=[{}] * 4))
    assert of.unseen == {"prefill": [], "decode": ["gpu04"]}
    assert of.visible["decode"] < 1


def test_what_would_be_seen_would_be_on_each_host() -> None:
    m = fleet([CHAT] * 4, 60)
    few = m.requests.filter((pl.col("run") < 3) | (pl.col("line") <= LEAST_REQUESTS + 1))
    of = found(measures(few.iter_rows(named=True), setups=[{}] * 4))
    assert of.visible["decode"] > 1.2 * found(m).visible["decode"]


def test_what_nothing_tells_is_not_judged() -> None:
    began = datetime(2026, 11, 29, 13, tzinfo=UTC)
    rows = fleet([CHAT] * 2 + [CHAT.slower(decode=3)], 30).requests.with_columns(
        finished_at=pl.when(pl.col("run") < 2).then(pl.lit(began) + pl.duration(hours=pl.col("run")))
    )
    of = found(measures(rows.iter_rows(named=True), setups=[{}] * 3), "hour")
    assert (set(of.judged), of.found) == ({"2026-11-29 13:00", "2026-11-29 14:00"}, [])


def test_equal_groups_seldom_have_an_outlier() -> None:
    """None of 100 fleets of eight; here some of them, so that a looser test would show."""
    named = sum(bool(found(fleet([CHAT] * 8, 20, seed)).found) for seed in range(6))
    assert named <= 1


@settings(max_examples=4, deadline=None)
@given(st.permutations(EIGHT))
def test_it_does_not_matter_what_hosts_are_called(names: list[str]) -> None:
    engines = with_one(CHAT, CHAT.slower(decode=1.5))
    of = found(fleet(engines, 25, names=names))
    assert of.groups == [names[4]]
    assert {name for _, name, _ in told(of)} >= {"decode"}


# --- whose rows they hold


def test_hours_are_those_of_the_clock_and_what_has_none_is_a_group() -> None:
    began = datetime(2026, 11, 29, 13, 30, tzinfo=UTC)
    rows: list[dict[str, Any]] = [
        {"prefill_ms": 1.0, "decode_ms": 1.0, "finished_at": began + timedelta(minutes=20 * i)}
        for i in range(6)
    ]
    grouping = group(measures([*rows, {"prefill_ms": 1.0, "decode_ms": 1.0}]), "hour")
    sizes = [(one.name, one.measures.generations.height) for one in grouping.groups]
    assert sizes == [("2026-11-29 13:00", 2), ("2026-11-29 14:00", 3), ("2026-11-29 15:00", 1), (None, 1)]


def test_models_and_engines_are_those_of_the_rows_else_of_their_process() -> None:
    rows: list[dict[str, Any]] = [
        {"model": "a", "run": 0},
        {"model": None, "run": 1},
        {"model": None, "run": 0},
        {"run": 2},
    ]
    m = measures([{**row, "total_ms": 1.0} for row in rows], setups=[{"model": "a"}, {"model": "b"}, {}])
    sizes = {one.name: one.measures.requests.height for one in group(m, "model").groups}
    assert sizes == {"a": 2, "b": 1, None: 1}
    assert [one.name for one in group(m, "engine").groups] == ["llama-server"]


def test_every_row_is_in_one_group() -> None:
    m = fleet([CHAT] * 3, 12)
    for by in ("host", "model", "engine", "hour"):
        parts = group(m, by).groups
        assert sum(one.measures.requests.height for one in parts) == m.requests.height
        assert sum(one.measures.wall_ms for one in parts) == pytest.approx(m.wall_ms)
