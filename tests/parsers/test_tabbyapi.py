"""TabbyAPI's records as Rich breaks them, and the times that follow from their rates."""

from __future__ import annotations

import io
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.markup import escape

from tests.parsers.reading import read

NAME = "0123456789abcdef0123456789abcdef"
WHOLE_WIDTH = 80
COARSE_RATE = 0.51


@dataclass(frozen=True)
class Told:
    """One request's numbers as the engine measured them."""

    cached: int
    new: int
    output: int
    queue_s: float
    prompt_s: float
    answer_s: float
    drafted: int
    cut: bool

    @property
    def record(self) -> str:
        """As TabbyAPI rounds and prints them."""
        prompt_s = round(self.prompt_s, 2)
        prompt_rate = round(self.new / prompt_s, 2) if prompt_s else "Indeterminate"
        answer_rate = round(self.output / self.answer_s, 2)
        total_s = round(self.queue_s + prompt_s + self.answer_s, 2)
        drafted = f", Draft: {self.drafted // 2} / {self.drafted} tokens accepted (50.00%)"
        return (
            f"Metrics (ID: {NAME}): {self.output} tokens generated in {total_s} seconds "
            f"(Queue: {round(self.queue_s, 2)} s, "
            f"Process: {self.cached} cached tokens and {self.new} new tokens at {prompt_rate} T/s, "
            f"Generate: {answer_rate} T/s, Context: {self.cached + self.new} tokens"
            f"{drafted if self.drafted else ''}) {'<-- Not accurate (truncated)' if self.cut else ''}"
        )


SECONDS = st.floats(0, 900)
TOLD = st.builds(
    Told,
    cached=st.integers(0, 200_000),
    new=st.integers(1, 200_000),
    output=st.integers(1, 30_000),
    queue_s=SECONDS,
    prompt_s=SECONDS,
    answer_s=st.floats(0.1, 900),
    drafted=st.integers(0, 5000),
    cut=st.booleans(),
)


def console(record: str, width: int) -> bytes:
    """What Rich writes, as TabbyAPI has it write."""
    out = io.StringIO()
    head = "[grey37]2026-09-10 15:01:39.976[/grey37] [green]INFO[/green]:     "
    Console(file=out, width=width).print(head + escape(record))
    return out.getvalue().encode()


@given(told=TOLD, width=st.integers(WHOLE_WIDTH, 300))
def test_a_record_comes_back_however_wide_the_terminal_is(told: Told, width: int) -> None:
    [row] = read(console(told.record, width)).requests
    assert (row.cached_tokens, row.prefill_tokens, row.output_tokens) == (told.cached, told.new, told.output)
    assert (row.request_id, row.draft_tokens, row.truncated) == (NAME, told.drafted or None, told.cut or None)
    assert row.queue_ms == pytest.approx(1000 * told.queue_s, abs=5.1)
    for time_ms, tokens, seconds in (
        (row.prefill_ms, told.new, round(told.prompt_s, 2)),
        (row.decode_ms, told.output, told.answer_s),
    ):
        rate = tokens / seconds if seconds else 0.0
        if time_ms is None:
            assert rate < COARSE_RATE
        else:
            assert time_ms == pytest.approx(1000 * seconds, abs=0.1 + 1000 * seconds * 0.0051 / rate)


@given(told=TOLD, width=st.integers(30, WHOLE_WIDTH - 1))
def test_in_a_narrower_one_it_is_whole_or_nothing(told: Told, width: int) -> None:
    for row in read(console(told.record, width)).requests:
        assert (row.cached_tokens, row.prefill_tokens, row.output_tokens) == (
            told.cached,
            told.new,
            told.output,
        )


def test_rates_that_do_not_add_up_to_the_total_give_no_split() -> None:
    told = Told(0, 405, 76, 0.03, 1.13, 2.75, 0, cut=False)
    wrong = told.record.replace(f"{round(76 / 2.75, 2)} T/s", f"{round(76 / 3.91, 2)} T/s")
    log = read(console(wrong, 300))
    [row] = log.requests
    assert (row.prefill_ms, row.decode_ms, row.ttft_ms, row.total_ms) == (None, None, None, 3910.0)
    assert log.stream.counts.impossible_values == 1


def test_tokens_without_the_cached_split_are_those_of_the_rate() -> None:
    record = (
        "INFO:     Metrics: 196 tokens generated in 14.98 seconds "
        "(Queue: 0.01 s, Process: 5436 tokens at 474.76 T/s, Generate: 55.68 T/s, Context: 5500 tokens)\n"
    )
    [row] = read(record.encode()).requests
    assert (row.prompt_tokens, row.cached_tokens, row.prefill_tokens) == (5500, None, 5436)
    assert (row.prefill_ms, row.decode_ms) == (11450.0, 3520.1)


def test_a_record_without_a_head_is_text_where_others_have_one() -> None:
    bare = b"Response: 40 tokens generated in 2.05 seconds (19.51 T/s)\n"
    headed = b"INFO:     Metrics: 120 tokens generated in 6.11 seconds (19.64 T/s, context 900 tokens) \n"
    assert [row.output_tokens for row in read(headed + bare).requests] == [120]
    assert [row.output_tokens for row in read(bare).requests] == [40]
