"""A running engine watched over HTTP: its sums, each counted once."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.sources.served.engines import look
from advisor.sources.served.llama_server import Rising
from advisor.sources.served.round import Round
from advisor.sources.served.watch import Watch
from advisor.sources.served.web import Answer
from parsers.formats import FORMATS
from parsers.formats.prometheus.scrape import scrapers
from parsers.records import Aggregate
from tests.advisor.stand import (
    Stand,
    answered,
    has_sums,
    llama,
    rows_of,
    standing,
    summed,
    watching,
)


def sglang(
    *, requests: int, queued: int, ms: tuple[float, float, float], tokens: tuple[int, int, int]
) -> bytes:
    """SGLang's sums; ``queued`` requests have left the queue, more than have ended."""
    queue, prefill, total = (value / 1000 for value in ms)
    labels = '{model_name="m"}'
    lines = [
        "# TYPE sglang:e2e_request_latency_seconds histogram",
        f"sglang:e2e_request_latency_seconds_count{labels} {requests}",
        f"sglang:e2e_request_latency_seconds_sum{labels} {total!r}",
        f"sglang:queue_time_seconds_count{labels} {queued}",
        f"sglang:queue_time_seconds_sum{labels} {queue!r}",
        f'sglang:per_stage_req_latency_seconds_count{{model_name="m",stage="prefill_forward"}} {queued}',
        f'sglang:per_stage_req_latency_seconds_sum{{model_name="m",stage="prefill_forward"}} {prefill!r}',
        f"sglang:prompt_tokens_total{labels} {tokens[0] + tokens[1]}",
        f"sglang:cached_tokens_total{labels} {tokens[1]}",
        f"sglang:generation_tokens_total{labels} {tokens[2]}",
    ]
    return ("\n".join(lines) + "\n").encode()


@given(st.data())
def test_the_rows_add_up_to_the_last_minus_the_first(data: st.DataObject) -> None:
    """Also where a request's queue is counted before the request: then its row comes later."""
    steps = st.tuples(
        st.integers(0, 5), st.integers(0, 3), *[st.integers(0, 10_000)] * 3, *[st.integers(0, 999)] * 3
    )
    known, watch, seen, rows = scrapers(FORMATS), Watch("s"), [], []
    requests, ms, tokens = 7, [10.5, 20.25, 99.125], [100, 50, 30]
    drawn = [(0,) * 8, *data.draw(st.lists(steps, max_size=12)), (0,) * 8]
    queued = requests
    for n, (ended, inside, *added) in enumerate(drawn):
        requests = queued if n == len(drawn) - 1 else requests + ended
        queued = max(queued, requests + inside)
        more = [value / 7 for value in added[:3]]
        ms = [before + value for before, value in zip(ms, (more[0], more[1], sum(more)), strict=True)]
        tokens = [before + value for before, value in zip(tokens, added[3:], strict=True)]
        body = sglang(
            requests=requests,
            queued=queued,
            ms=(ms[0], ms[1], ms[2]),
            tokens=(tokens[0], tokens[1], tokens[2]),
        )
        pages = {"/metrics": Answer(200, "", body)}
        looked = look(lambda path: pages.get(path, Answer(404, "", b"")), known) if not n else None  # noqa: B023
        rows += watch.take(Round(datetime.now(UTC), n / 2, pages, looked))
        seen.append((requests, *ms, *tokens))
    first, last = seen[0], seen[-1]
    names = (
        "requests",
        "queue_ms",
        "prefill_ms",
        "total_ms",
        "prefill_tokens",
        "cached_tokens",
        "output_tokens",
    )
    for at, name in enumerate(names):
        told, expected = summed(rows, name), last[at] - first[at]
        exact = not name.endswith("_ms")
        assert told == (expected if exact else pytest.approx(expected, rel=1e-9, abs=1e-6)), name
    assert all(
        getattr(row, name) is None or getattr(row, name) >= 0
        for row in rows
        for name in names
        if isinstance(row, Aggregate)
    )
    assert watch.counts.impossible_values == 0


def test_a_model_that_is_named_only_when_it_first_counts() -> None:
    with standing() as stand:
        stand.says("/metrics", b"# TYPE sglang:e2e_request_latency_seconds histogram\n")
        with watching(stand) as served:
            answered(served, 2)
            stand.says("/metrics", sglang(requests=2, queued=2, ms=(1.0, 2.0, 5.0), tokens=(10, 5, 7)))
            rows = rows_of(served, has_sums)
    assert summed(rows, "requests") == 2
    assert summed(rows, "output_tokens") == 7


@pytest.mark.parametrize(("busy", "alone"), [(1.1, True), (1.5, False)])
def test_prefill_is_of_requests_where_slots_were_alone_since_we_looked(busy: float, *, alone: bool) -> None:
    """Two slots were busy in each of the first 100 batches; then there are 900 more."""

    def say(stand: Stand, average: float, batches: int, prompt: int) -> None:
        llama(stand, prompt=prompt, output=prompt)
        page = stand.pages["/metrics"]
        assert not callable(page)
        more = f"llamacpp:n_busy_slots_per_decode {average}\nllamacpp:n_decode_total {batches}\n"
        stand.says("/metrics", page[1] + f"llamacpp:prompt_tokens_cached_total 0\n{more}".encode())

    with standing() as stand:
        say(stand, 2.0, 100, 100)
        with watching(stand) as served:
            answered(served, 2)
            say(stand, busy, 1000, 300)
            (row,) = [row for row in rows_of(served, has_sums) if isinstance(row, Aggregate)]
    assert row.prefill_tokens == 200
    assert (row.prefill_ms is not None) is alone


def test_two_answers_that_do_not_fit_add_nothing_twice() -> None:
    count = Rising()
    assert [count.added(value) for value in (5, 8, 3, 9)] == [0, 3, 0, 1]
    assert [count.added(value) for value in (4, 4, 6)] == [0, 0, 2]
