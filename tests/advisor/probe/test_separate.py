"""What is made of answers whose times are known to the ms."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from advisor.probe import prefill, separate
from advisor.probe.client import Sample
from advisor.probe.plan import Kind, Plan, Planned
from advisor.probe.rows import rows_of
from advisor.probe.target import Api, Target
from advisor.probe.waiting import waits
from advisor.report.probe import _of_prefill as phases_of
from parsers.records import Request

TARGET = Target("unknown", None, None, None, "tiny", Api.CHAT)


def sample(
    kind: Kind,
    tokens: int,
    ttft_ms: float,
    step_ms: float = 10,
    output: int = 11,
    sent_ms: float = 0,
    name: str = "",
) -> Sample:
    first_s = (sent_ms + ttft_ms) / 1000
    came_s = tuple(first_s + n * step_ms / 1000 for n in range(output))
    planned = Planned(kind, name, tokens)
    return Sample(planned, datetime(2026, 11, 30, tzinfo=UTC), sent_ms / 1000, came_s, tokens, None, output)


def line_of(fixed_ms: float, ms_a_token: float) -> list[Sample]:
    return [sample(Kind.LENGTH, n, fixed_ms + ms_a_token * n) for n in (100, 400, 1600, 100, 400, 1600, 100)]


def test_the_line_and_its_lengths() -> None:
    samples = line_of(50, 2)
    samples[1] = sample(Kind.LENGTH, 400, 5000)  # one was held up
    line = prefill.fit(samples)
    assert line is not None
    assert line.tok_s is not None
    assert line.tok_s.value == pytest.approx(500, rel=0.01)
    assert line.fixed_ms.value == pytest.approx(50, rel=0.05)
    assert line.tok_s.low <= line.tok_s.value <= (line.tok_s.high or 0)
    short, _, long = separate.lengths(samples, line)
    assert (short.ttft_ms, long.ttft_ms) == (250, 3250)
    assert long.prefill_ms == pytest.approx(3200, rel=0.01)
    assert (short.requests, short.prefill_from) == (3, "stream")
    told = (short.decode_ms, short.tpot_ms, short.decode_tok_s)
    assert told == pytest.approx((100, 10, 100))


def test_no_line_of_one_length_or_without_counts() -> None:
    assert prefill.fit([sample(Kind.LENGTH, 100, 200 + n) for n in range(6)]) is None
    assert prefill.fit([replace(one, prompt_tokens=None) for one in line_of(5, 1)]) is None
    assert prefill.fit([]) is None


RTX_4090 = 0.1318, 0.01414e-3
"""ms a token and ms a squared token, Llama 3 8B in Q4_K_M: see `advisor.probe.prefill`."""


def test_attention_is_not_taken_for_a_cheaper_start() -> None:
    weights_ms, attention_ms = RTX_4090
    random, trials, held, curved = np.random.default_rng(1), 60, 0, 0
    for _ in range(trials):
        tokens = [n for n in (128, 512, 2048) for _ in range(3)]
        ttft_ms = [
            (15 + weights_ms * n + attention_ms * n * n) * np.exp(random.normal() * 0.02) for n in tokens
        ]
        line = prefill.fit([sample(Kind.LENGTH, n, ms) for n, ms in zip(tokens, ttft_ms, strict=True)])
        assert line is not None
        held += line.fixed_ms.low <= 15 <= (line.fixed_ms.high or 0)
        curved += line.tok_s is None
    assert held / trials > 0.85
    assert curved / trials > 0.9


def test_where_attention_counts_each_length_has_its_rate() -> None:
    samples = [
        sample(Kind.LENGTH, n, 15 + 0.1 * n + 2e-5 * n * n) for n in (500, 2000, 8000) for _ in range(3)
    ]
    line = prefill.fit(samples)
    assert line is not None
    assert line.tok_s is None
    assert line.fixed_ms.value == pytest.approx(15, rel=0.01)
    told = separate.lengths(samples, line)
    true = [1000 / (0.1 + 2e-5 * n) for n in (500, 2000, 8000)]
    assert [one.prefill_tok_s for one in told] == pytest.approx(true, rel=0.01)
    (said,) = phases_of(line, told)
    assert said.startswith("Prefill: 9,091 tok/s at 500, 7,143 tok/s at 2,000, 3,846 tok/s at 8,000 prompt")


@pytest.mark.parametrize(("first", "output", "steps"), [(4, 32, 28), (1, 33, 32)])
def test_tokens_that_came_with_the_first_are_not_decoded_after_it(
    first: int, output: int, steps: int
) -> None:
    """Four tokens an event, 10 ms apart; the first event has them all, or one alone."""
    one = replace(
        sample(Kind.LENGTH, 512, 140, output=1 + (output - first) // 4),
        output_tokens=output,
        first_tokens=first,
    )
    assert one.decode_steps == steps
    found = separate.decode([one])
    assert found is not None
    assert found.tpot_ms == pytest.approx(2.5)
    assert found.itl_p50_ms is None


def test_shares_of_what_ran_alone() -> None:
    samples = line_of(50, 2)
    found = separate.shares(samples, TARGET, prefill.fit(samples))
    assert found is not None
    assert found.share.queue is None
    prefill_ms = 2 * (3 * 100 + 2 * 400 + 2 * 1600)
    assert found.wall_ms == pytest.approx(prefill_ms + 7 * (50 + 100))
    assert (found.share.prefill or 0) * found.wall_ms == pytest.approx(prefill_ms, rel=0.01)
    assert (found.share.other or 0) * found.wall_ms == pytest.approx(7 * 50, rel=0.1)
    assert found.phase == "prefill"


def together(*ttft_ms: float) -> list[Sample]:
    return [sample(Kind.AT_ONCE, 100, ms, name=str(ms)) for ms in ttft_ms]


def test_one_lane_by_the_stream() -> None:
    samples = [*line_of(50, 2), *together(950, 250, 1300, 600)]
    found = waits(samples)
    assert found is not None
    assert (found.served, found.source, found.alone_ms) == (1, "stream", 250)
    assert [one.ttft_ms for one in found.samples] == [250, 600, 950, 1300]
    assert found.ms == pytest.approx((0, 350, 700, 1050))
    shares = separate.shares(found.samples, TARGET, prefill.fit(samples), found)
    assert shares is not None
    assert shares.share.load is None
    assert shares.share.model_dump(exclude={"load"}) == pytest.approx(
        {"queue": 0.6, "prefill": 800 / 3500, "decode": 400 / 3500, "other": 200 / 3500}, rel=0.02
    )
    assert shares.phase == "queue"


def test_two_lanes_that_share_are_not_called_a_wait() -> None:
    found = waits([*line_of(50, 2), *together(450, 452, 960, 962)])
    assert found is not None
    assert found.served == 2
    assert found.ms[:2] == (None, None)
    assert found.ms[2:] == pytest.approx((550, 552))


def test_all_at_once_tell_nothing_of_waiting() -> None:
    found = waits([*line_of(50, 2), *together(800, 801, 802, 803)])
    assert found is not None
    assert (found.served, found.source, found.ms) == (4, None, (None,) * 4)
    shares = separate.shares(found.samples, TARGET, prefill.fit(line_of(50, 2)), found)
    assert shares is not None
    assert (shares.share.queue, shares.share.prefill) == (None, None)
    assert shares.phase in ("mixed", "unknown", "decode")


def owned(one: Sample, prefill_ms: float) -> Sample:
    return replace(one, own=Request(prefill_ms=prefill_ms, load_ms=1.0, decode_ms=90.0, decode_steps=9))


def test_the_servers_clock_goes_before_the_streams() -> None:
    alone = [owned(one, one.ttft_ms - 6) for one in line_of(50, 2)]
    burst = [owned(one, 244.0) for one in together(250, 600, 950, 1300)]
    found = waits([*alone, *burst])
    assert found is not None
    assert found.source == "server"
    assert found.ms == pytest.approx((0, 350, 700, 1050))
    assert {one.prefill_from for one in separate.lengths(alone, None)} == {"server"}
    waited = rows_of([*alone, *burst], TARGET, "http://here", found)[-4:]
    assert [row.queue_ms for row in waited] == pytest.approx([0, 350, 700, 1050])
    (row, *_) = rows_of(alone, TARGET, "http://here", found)
    assert (row.prefill_ms, row.load_ms, row.decode_ms, row.decode_steps) == (244.0, 1.0, 90.0, 9)
    assert (row.ttft_ms, row.queue_ms, row.cached_tokens, row.prefill_tokens) == (250.0, None, None, None)


def test_whether_a_repeat_was_cached() -> None:
    assert [cached(line_of(50, 2), 850, ms) for ms in (90, 680, 840)] == [True, None, False]
    assert [cached(line_of(50, 2), 850, 840, 399), cached(line_of(50, 2), 850, 90, 0)] == [True, False]
    assert separate.cached(line_of(50, 2), None) is None


def test_what_every_request_costs_hides_no_cache() -> None:
    """120 ms of network, 20 ms of prefill: a repeat takes 0.86 of the first time."""
    fast = line_of(120, 0.05)
    assert [cached(fast, 140, ms) for ms in (121, 139.8)] == [True, False]
    uncounted = [replace(one, prompt_tokens=None) for one in fast]
    assert [cached(uncounted, 140, ms) for ms in (121, 139.8, 60)] == [None, None, True]
    scattered = [*fast, sample(Kind.LENGTH, 400, 152), sample(Kind.LENGTH, 400, 131)]
    assert [cached(scattered, 140, ms) for ms in (121, 139.8)] == [None, None]


def cached(
    samples: list[Sample], first_ms: float, again_ms: float, counted: int | None = None
) -> bool | None:
    """What is made of a prompt of 400 tokens that is sent again."""
    first = sample(Kind.LENGTH, 400, first_ms, name="again")
    again = replace(sample(Kind.REPEAT, 400, again_ms, name="again"), cached_tokens=counted)
    found = separate.cached([*samples, first, again, again], prefill.fit(samples))
    assert found is not None
    return found.is_cached


def test_each_length_comes_equally_early_and_no_text_twice() -> None:
    plan = Plan((10, 20, 30), nonce="n")
    turns = [step[0].tokens for step in plan.steps()[1:10]]
    places = {n: sum(i for i, tokens in enumerate(turns) if tokens == n) for n in plan.lengths}
    assert len(set(places.values())) == 1
    names = [one.name for step in plan.steps() for one in step]
    assert len(names) == plan.requests == 17
    assert len(set(names)) == 15
    assert Plan().nonce != Plan().nonce
    assert plan.within(96 + 12).lengths == (10,)
