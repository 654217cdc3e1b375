"""llama-swap's list has rates and no times: a phase is told only where one reading of them can be true."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.reading import join, read

COUNTS = st.integers(1, 40_000)
US = st.integers(1_000, 900_000_000)


def entry(tokens: dict[str, Any], duration_ms: int) -> str:
    told = {"cache_tokens": -1, "draft_tokens": -1, "draft_acc_tokens": -1, **tokens}
    return json.dumps(
        {
            "id": 1,
            "timestamp": "2026-08-22T16:29:57Z",
            "model": "m",
            "req_path": "/v1/chat/completions",
            "resp_status_code": 200,
            "tokens": told,
            "duration_ms": duration_ms,
        },
        separators=(",", ":"),
    )


def rate(tokens: int, us: int) -> float:
    """As llama-server works it out."""
    return 1e3 / (us / 1e3) * tokens


@given(COUNTS, st.integers(0, 40_000), COUNTS, US, US, st.booleans(), st.integers(0, 60_000))
def test_what_is_told_is_true(
    evaluated: int,
    cached: int,
    output: int,
    prefill_us: int,
    decode_us: int,
    counts_first: bool,
    more_ms: int,
) -> None:
    steps = output if counts_first else output - 1
    tokens = {
        "cache_tokens": cached,
        "input_tokens": evaluated,
        "output_tokens": output,
        "prompt_per_second": rate(evaluated, prefill_us),
        "tokens_per_second": rate(steps, decode_us),
    }
    (row,) = read(join([entry(tokens, (prefill_us + decode_us) // 1000 + more_ms)])).requests
    assert row.prefill_ms in (None, prefill_us / 1000)
    assert row.decode_ms in (None, decode_us / 1000)
    if row.prefill_ms is not None:
        assert (row.prefill_tokens, row.cached_tokens, row.prompt_tokens) == (
            evaluated,
            cached,
            evaluated + cached,
        )
    if row.decode_ms is not None:
        assert row.decode_steps == output - 1


@given(COUNTS, COUNTS, st.floats(1e-3, 1e5), st.floats(1e-3, 1e5), st.integers(0, 100_000))
def test_rates_of_no_clock_give_no_phase(
    prompt: int, output: int, first: float, after: float, duration_ms: int
) -> None:
    tokens = {
        "input_tokens": prompt,
        "output_tokens": output,
        "prompt_per_second": first,
        "tokens_per_second": after,
    }
    (row,) = read(join([entry(tokens, duration_ms)])).requests
    parts = [ms for ms in (row.prefill_ms, row.decode_ms) if ms is not None]
    assert row.total_ms is None or sum(parts) < row.total_ms + 1


def test_a_page_read_twice_is_told_once() -> None:
    one = entry(
        {"input_tokens": 5, "output_tokens": 6, "tokens_per_second": -1, "prompt_per_second": -1}, 700
    )
    assert len(read(join([one, f'{{"data":[{one},{one}],"page":1}}'])).requests) == 1


def test_an_id_that_is_no_number_is_none() -> None:
    tokens = {"input_tokens": 42, "output_tokens": 128, "tokens_per_second": 100.0}
    told = json.loads(entry(tokens, 2000))
    ids = [1, "\ud800", None, [1], {}, True]
    log = read(join(json.dumps([told | {"id": one, "timestamp": 1 + at}]) for at, one in enumerate(ids)))
    assert [row.request_id for row in log.requests] == ["1", None, None, None, None, None]
