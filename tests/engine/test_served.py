"""A real llama-server watched through its own addresses: the rows add up to what its clients were told."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from advisor.sources.served import Served
from parsers.records import Aggregate, Interval

from .client import Request, ask
from .scenarios import SHARED_SYSTEM
from .server import ServerOptions, running_server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from parsers.records import Row

    from .client import Answer

pytestmark = pytest.mark.engine

SIX_DIGITS = 1e-5
"""llama-server prints six significant digits."""

SEEN_WITHIN_S = 1.0


def chat(label: str, question: str, tokens: int) -> Request:
    messages = [{"role": "system", "content": SHARED_SYSTEM}, {"role": "user", "content": question}]
    return Request(label, messages, max_tokens=tokens)


REQUESTS = [
    chat("cold", "Where do I find a book of maps?", 24),
    chat("repeat", "Where do I find a book of maps?", 8),
    chat("shared prefix", "And one about rivers?", 40),
    chat("one token", "Count to ten.", 1),
]


def read_until(served: Served, rows: list[Row], enough: Callable[[], bool], within_s: float) -> float:
    """Read until enough has come; returns how long that took."""
    began_s = time.monotonic()
    while not enough():
        assert time.monotonic() - began_s < within_s, (rows, served.notes())
        rows += served.read(0.05) or []
    return time.monotonic() - began_s


def total(rows: list[Row], column: str) -> float:
    return sum(getattr(row, column) or 0 for row in rows if isinstance(row, Aggregate))


def truth(answers: list[Answer], name: str) -> float:
    return sum(answer.timings[name] for answer in answers)


def check_sums(rows: list[Row], answers: list[Answer], *, prefill: bool) -> None:
    assert total(rows, "prefill_tokens") == truth(answers, "prompt_n")
    assert total(rows, "cached_tokens") == truth(answers, "cache_n")
    assert total(rows, "output_tokens") == truth(answers, "predicted_n")
    times = {"decode_ms": "predicted_ms", **({"prefill_ms": "prompt_ms"} if prefill else {})}
    for column, timing in times.items():
        expected = truth(answers, timing)
        assert total(rows, column) == pytest.approx(expected, rel=SIX_DIGITS, abs=len(answers)), column


def test_one_slot_request_by_request(model_path: Path, tmp_path: Path) -> None:
    with running_server(model_path, tmp_path, ServerOptions(metrics=True)) as server:
        before = ask(server.address, REQUESTS[0])
        served = Served(server.address)
        rows: list[Row] = []
        answers: list[Answer] = []
        read_until(served, rows, lambda: served.engine is not None, 10.0)
        late_s = []
        for request in REQUESTS:
            answers.append(ask(server.address, request))
            tokens = truth(answers, "predicted_n")
            seen = read_until(served, rows, lambda: total(rows, "output_tokens") >= tokens, 10.0)  # noqa: B023
            late_s.append(seen)
        served.close()
    assert max(late_s) < SEEN_WITHIN_S
    check_sums(rows, answers, prefill=True)
    assert total(rows, "output_tokens") < truth([before, *answers], "predicted_n")
    setup = served.setups[0]
    assert (setup.engine, setup.slots, setup.context) == ("llama-server", 1, 4096)
    assert setup.origin["model"] == "/props"
    assert served.notes() == []
    windows = [row for row in rows if isinstance(row, Interval)]
    assert sum(row.decode_tokens or 0 for row in windows) == pytest.approx(
        truth(answers, "predicted_n"), rel=0.2
    )


def test_several_slots_at_once(model_path: Path, tmp_path: Path) -> None:
    from advisor.sources.served import Served

    asked = [chat(f"at once {n}", f"Which book is about {topic}?", 12 + n) for n, topic in enumerate("abcd")]
    with running_server(model_path, tmp_path, ServerOptions(n_parallel=2, metrics=True)) as server:
        served = Served(server.address, every_s=0.1)
        rows: list[Row] = []
        read_until(served, rows, lambda: served.engine is not None, 10.0)
        with ThreadPoolExecutor(len(asked)) as clients:
            coming = [clients.submit(ask, server.address, request) for request in asked]
            while not all(one.done() for one in coming):
                rows += served.read(0.05) or []
            answers = [one.result() for one in coming]
        tokens = truth(answers, "predicted_n")
        read_until(served, rows, lambda: total(rows, "output_tokens") >= tokens, SEEN_WITHIN_S)
        served.close()
    check_sums(rows, answers, prefill=False)
    windows = [row for row in rows if isinstance(row, Interval)]
    assert max(row.running or 0 for row in windows) == 2
    assert {"decode"} <= {row.phase for row in windows} <= {"prefill", "decode", "mixed", "queue", "idle"}


def test_without_metrics_the_slots_tell_who_runs(model_path: Path, tmp_path: Path) -> None:
    with running_server(model_path, tmp_path, ServerOptions()) as server:
        served = Served(server.address, every_s=0.05)
        rows: list[Row] = []
        read_until(served, rows, lambda: served.engine is not None, 10.0)
        with ThreadPoolExecutor(1) as client:
            coming = client.submit(ask, server.address, REQUESTS[1])
            while not coming.done():
                rows += served.read(0.05) or []
        notes = served.notes()
        served.close()
    assert len(notes) == 1
    assert "--metrics" in notes[0]
    assert {row.running for row in rows if isinstance(row, Interval)} >= {1}
    assert not [row for row in rows if isinstance(row, Aggregate)]
