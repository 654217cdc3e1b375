"""Two halves of one log: no difference between them is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from rules.comparison import SPEEDS, compare
from rules.measures import Measures
from tests.rules.helpers import LOGS, read
from tests.rules.made_logs import Engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

MOST_OF_100 = 1
REAL = [
    log
    for log in (
        "conversations/client_trims_history",
        "conversations/large_host_cache",
        "conversations/small_host_cache",
        "conversations/two_chats_one_slot",
        "conversations/two_chats_two_slots",
        "llama-server-b11434/d_parallel4_12req",
        "llama-server-mid2025/d_parallel4_12req",
        "llama-server-mid2025/d_parallel4_12req_logts",
        "pairs/rag_chunks/before",
        "pairs/threads/before",
    )
    if (LOGS / log).exists()
]


def claims(m: Measures, before: NDArray[np.bool_]) -> list[str]:
    """What a comparison of one part of a log with the rest claims."""
    parts = (
        Measures(m.requests.filter(pl.Series(rows)), m.intervals, m.events, m.setup, m.setups)
        for rows in (before, ~before)
    )
    found = compare(*parts).quantities
    alike = [f"{q.name} at like work" for q in found if q.name not in SPEEDS and q.alike and q.alike.sign]
    return [q.name for q in found if q.sign] + alike


def halves(n: int, rng: np.random.Generator, drawn: int) -> Iterator[NDArray[np.bool_]]:
    yield np.arange(n) % 2 == 0
    yield np.arange(n) < n // 2
    for _ in range(drawn):
        yield rng.permutation(n) < n // 2


@pytest.mark.parametrize("drift", [0.0, 0.4])
def test_halves_of_a_made_log_do_not_differ(drift: float) -> None:
    rng = np.random.default_rng(17)
    engines = [Engine(kind, drift=drift) for kind in ("chat", "rag", "api", "queued")]
    logs = [engine.log(n, seed) for seed, (engine, n) in enumerate((e, n) for e in engines for n in (12, 60))]

    split = [claims(log, rows) for log in logs for rows in halves(log.requests.height, rng, 5)]

    assert len(split) == 56
    assert sum(map(bool, split)) <= MOST_OF_100, split


def test_halves_of_a_real_log_do_not_differ() -> None:
    rng = np.random.default_rng(18)

    split = [claims(m, rows) for m in map(read, REAL) for rows in halves(m.requests.height, rng, 8)]

    assert len(split) == 10 * len(REAL)
    assert sum(map(bool, split)) <= MOST_OF_100, split
