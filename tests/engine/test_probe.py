"""The probe against a real llama-server: what it sees in the stream is what the server says of itself."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from advisor.probe.asking import ask_all
from advisor.probe.found import found
from advisor.probe.plan import AT_ONCE, Kind, Plan
from advisor.probe.target import find
from advisor.sources.served.web import Web
from parsers import read_rows

from .server import ServerOptions, running_server

if TYPE_CHECKING:
    from pathlib import Path

    from advisor.probe.asking import Asked
    from advisor.probe.result import Probe

pytestmark = pytest.mark.engine

PRINTED_TO_MS = 0.005 + 1e-9
WITHIN = 0.10


def probed(model: Path, folder: Path, slots: int, plan: Plan) -> tuple[Probe, Asked]:
    options = ServerOptions(n_parallel=slots, n_ctx=1024 * slots, threads=1)
    with running_server(model, folder, options) as server:
        with closing(Web(server.address)) as web:
            target = find(web, None)
        asked = ask_all(target, plan, lambda: Web(server.address, answer_s=120), lambda _: None)
        return found(asked, plan, server.address), asked


def test_one_slot(model_path: Path, tmp_path: Path) -> None:
    probe, asked = probed(model_path, tmp_path, 1, Plan((32, 80, 256), 16))
    assert (probe.engine, probe.slots, probe.context, probe.requests) == ("llama-server", 1, 1024, 16)
    assert probe.is_complete
    by_length = "One rate of prefill: "  # where the short lengths happen to show what attention costs
    assert [said for said in probe.unknown if not said.startswith(by_length)] == []

    assert probe.server is not None
    assert probe.prefill is not None
    assert probe.decode is not None
    assert probe.server.stream_prefill_tok_s == pytest.approx(probe.server.prefill_tok_s, rel=WITHIN)
    assert probe.server.stream_decode_tok_s == pytest.approx(probe.server.decode_tok_s, rel=WITHIN)
    assert probe.decode.tokens_per_event == pytest.approx(1, abs=0.1)
    assert [one.prefill_from for one in probe.lengths] == ["server"] * 3

    assert probe.cached is not None
    assert probe.cached.is_cached
    assert probe.cached.repeat_ttft_ms < probe.cached.first_ttft_ms

    assert probe.queue is not None
    assert (probe.queue.served_at_once, probe.queue.waited_from) == (1, "server")
    assert probe.queue.waited_ms[-1] is not None
    assert probe.queue.waited_ms[-1] > 2 * probe.queue.alone_ttft_ms
    assert probe.together is not None
    assert probe.together.phase == "queue"

    rows = read_rows(tmp_path / "server.log").requests.to_dicts()[1:]
    ours = sorted(asked.samples, key=lambda one: one.came_s[-1])
    assert len(rows) == len(ours)
    for row, one in zip(rows, ours, strict=True):
        assert (row["prompt_tokens"], row["cached_tokens"]) == (one.prompt_tokens, one.cached_tokens)
        assert row["output_tokens"] == one.output_tokens == 16
        assert one.own is not None
        assert row["prefill_ms"] == pytest.approx(one.own.prefill_ms, abs=PRINTED_TO_MS)
        assert one.ttft_ms >= row["prefill_ms"]


def test_two_slots(model_path: Path, tmp_path: Path) -> None:
    probe, asked = probed(model_path, tmp_path, 2, Plan((32,), 16))
    assert (probe.slots, probe.is_complete) == (2, True)
    assert probe.queue is not None
    assert probe.queue.served_at_once == 2
    waited = [ms for ms in probe.queue.waited_ms if ms is not None]
    assert len(waited) == AT_ONCE
    assert waited[1] < probe.queue.alone_ttft_ms < waited[2]
    assert sum(one.planned.kind is Kind.AT_ONCE for one in asked.samples) == AT_ONCE
