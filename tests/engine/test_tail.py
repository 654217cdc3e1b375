"""`phasewise tail` beside a real llama-server, by its log and by its addresses at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.advisor.test_tail import Tail, tailing

from .client import Request, ask
from .server import ServerOptions, running_server, wait_for_line

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

pytestmark = pytest.mark.engine

SECOND, PRINTED_TO_MS = 1.0, 0.005 + 1e-9


def test_every_request_is_told_within_a_second_as_the_server_told_its_client(
    model_path: Path, tmp_path: Path
) -> None:
    with (
        running_server(model_path, tmp_path, ServerOptions(n_parallel=2, metrics=True)) as server,
        tailing(server.log_path, "--format", "json") as by_log,
        tailing(server.address, "--format", "json") as by_address,
    ):
        wait_for_line(server.log_path, "listening")
        time.sleep(4)  # both are looking by now
        answers, late_s, rows = [], [], []
        for number in range(5):
            asked = Request(f"r{number}", [{"role": "user", "content": "Count. " * 40}], 20 + number)
            answers.append(ask(server.address, asked))
            ended_s = time.monotonic()
            rows.append(_next(by_log, "request"))
            late_s.append(time.monotonic() - ended_s)
        sums = _sums(by_address, output_tokens=sum(a.timings["predicted_n"] for a in answers))
    assert max(late_s) < SECOND
    for row, answer in zip(rows, answers, strict=True):
        expected = answer.expected_row()
        assert {name: row[name] for name in expected} == pytest.approx(expected, abs=PRINTED_TO_MS)
    told = {"prefill_tokens": "prompt_n", "output_tokens": "predicted_n"}
    for column, timing in told.items():
        assert sums[column] == sum(answer.timings[timing] for answer in answers)
    for column, timing in {"prefill_ms": "prompt_ms", "decode_ms": "predicted_ms"}.items():
        assert sums[column] == pytest.approx(sum(answer.timings[timing] for answer in answers), abs=5)


def _next(tail: Tail, kind: str) -> dict[str, Any]:
    while True:
        (row,) = tail.rows(1)
        if row["type"] == kind:
            return row


def _sums(tail: Tail, output_tokens: float) -> dict[str, float]:
    """The columns of the rows of sums, added up until all tokens are told."""
    columns = ("prefill_tokens", "output_tokens", "prefill_ms", "decode_ms")
    sums = dict.fromkeys(columns, 0.0)
    while sums["output_tokens"] < output_tokens:
        row = _next(tail, "aggregate")
        for column in columns:
            sums[column] += row[column] or 0
    return sums
