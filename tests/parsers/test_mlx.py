"""MLX servers: times out of printed rates, and prompts that are read at the same time."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.formats.rates import agree, time_ms
from tests.parsers.reading import join, read

MS = st.integers(1, 5_000_000)


@given(tokens=st.integers(1, 1_000_000), ms=st.integers(1, 50_000_000))
def test_tokens_by_a_printed_rate_are_the_time(tokens: int, ms: int) -> None:
    rate = round(1000 * tokens / ms, 3)
    found = time_ms(tokens, rate, 0.001)
    if rate >= 0.05:
        assert found == pytest.approx(ms, rel=0.0101, abs=1e-3)
    else:
        assert found is None


@given(tokens=st.integers(1, 100_000), ms=st.integers(1, 10_000_000))
def test_what_was_measured_together_agrees_and_another_count_does_not(tokens: int, ms: int) -> None:
    seconds, rate = round(ms / 1000, 3), round(1000 * tokens / ms, 1)
    assert agree(tokens, seconds, rate, 0.001, 0.1)
    assert not agree(3 * tokens + 3 + round(seconds), seconds, rate, 0.001, 0.1)


@dataclass(frozen=True)
class Streamed:
    """A streamed answer of oMLX as it was measured."""

    ttft_ms: int
    decode_ms: int
    output: int

    @property
    def line(self) -> str:
        total_s, rate = (self.ttft_ms + self.decode_ms) / 1000, 1000 * self.output / self.decode_ms
        return (
            "2026-09-13 09:00:00,000 - omlx.server - INFO - [-] - Chat completion: model=m, "
            f"{self.output} tokens in {total_s:.2f}s ({rate:.1f} tok/s), prompt: 99, finish_reason=stop"
        )


@given(st.builds(Streamed, ttft_ms=MS, decode_ms=MS, output=st.integers(2, 10_000)))
def test_an_omlx_line_is_split_only_where_its_digits_tell(told: Streamed) -> None:
    [row] = read(join([told.line])).requests
    assert row.total_ms == pytest.approx(told.ttft_ms + told.decode_ms, abs=5.1) or row.total_ms is None
    if row.decode_ms is not None:
        assert row.decode_ms == pytest.approx(told.decode_ms, rel=0.0101)
    if row.ttft_ms is not None:
        assert row.ttft_ms == pytest.approx(told.ttft_ms, rel=0.06, abs=6)


@given(
    prompts=st.lists(st.integers(2, 50_000), min_size=1, max_size=6, unique=True),
    together=st.booleans(),
)
def test_prompts_that_are_read_together_have_no_time(prompts: list[int], together: bool) -> None:
    def logged(ms: int, text: str) -> str:
        return f"2026-04-19 08:{ms // 60_000:02}:{ms // 1000 % 60:02},{ms % 1000:03} - INFO - {text}"

    def done(number: int, ms: int) -> list[str]:
        half, whole = (f"Prompt processing progress: {n}/{number}" for n in (number // 2, number))
        return [logged(ms, half), logged(ms + 250, whole)]

    lines = []
    if together and len(prompts) > 1:
        lines += [logged(n, "Prompt Cache: 0 sequences, 0.00 GB") for n in range(len(prompts))]
        halves, wholes = zip(*(done(number, 1000) for number in prompts), strict=True)
        lines += [*halves, *wholes]
    else:
        for n, number in enumerate(prompts):
            lines += [logged(2000 * n, "Prompt Cache: 0 sequences, 0.00 GB"), *done(number, 2000 * n + 750)]
    rows = read(join(lines)).requests
    assert [row.prefill_tokens for row in rows] == prompts
    expected = None if together and len(prompts) > 1 else 1000.0
    assert {row.prefill_ms for row in rows} == {expected}
    assert all(row.decode_ms is None for row in rows)
