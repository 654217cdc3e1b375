"""KoboldCpp's line in each layout that states counts or draws them, and answers that quote it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.reading import read

LAYOUTS = ("1.57", "1.71", "1.76", "clock", "counted")
QUOTED = "CtxLimit:19/20, Amt:9/10, Init:0.00s, Process:3.71s (2.0T/s), Generate:2.20s (2.0T/s), Total:5.91s"


@dataclass(frozen=True)
class Asked:
    """One request, and what is true of it. Times are hundredths of a second, as they are printed."""

    cached: int
    evaluated: int
    output: int
    limit: int
    init_cs: int
    prefill_cs: int
    decode_cs: int
    answer: str

    @property
    def context(self) -> int:
        return self.cached + self.evaluated + self.output


def progress(asked: Asked, batch: int) -> str:
    """What is drawn over and over while it runs."""
    steps = [*range(0, asked.evaluated, batch), asked.evaluated]
    prompt = "".join(f"\rProcessing Prompt [BLAS] ({done} / {asked.evaluated} tokens)" for done in steps)
    answer = "".join(f"\rGenerating ({done} / {asked.limit} tokens)" for done in range(1, asked.output + 1))
    return f"\n{prompt}\n{answer}"


def printed(layout: str, asked: Asked) -> str:
    context = f"{asked.context}/65536, "
    prefill, decode, init = (f"{cs / 100:.2f}s" for cs in (asked.prefill_cs, asked.decode_cs, asked.init_cs))
    sums = f"{(asked.prefill_cs + asked.decode_cs) / 100:.2f}s"
    amount, rate = f"Amt:{asked.output}/{asked.limit}, ", f"{100 * asked.output / asked.decode_cs:.2f}T/s"
    read_rate = f"{100 * asked.evaluated / asked.prefill_cs:.2f}T/s"
    prompt_rate = f"({10 * asked.prefill_cs / asked.evaluated:.1f}ms/T = {read_rate})"
    phases = f"Process:{prefill} {prompt_rate}, Generate:{decode} (1.0ms/T = {rate}), Total:{sums}"
    counted = (
        f"Processed:{asked.evaluated} in {prefill} ({read_rate}), "
        f"Generated:{asked.output}/{asked.limit} in {decode} ({rate}), "
        f"Total:{(asked.init_cs + asked.prefill_cs + asked.decode_cs) / 100:.2f}s"
    )
    return {
        "1.57": f"CtxLimit: {context}{phases} (9.99T/s)",
        "1.71": f"CtxLimit:{context}{amount}{phases} (9.99T/s)",
        "1.76": f"CtxLimit:{context}{amount}Init:{init}, {phases} (infT/s)",
        "clock": f"[09:15:06] CtxLimit:{context}{amount}Init:{init}, {phases}",
        "counted": f"[09:15:06] CtxLimit:{context}Init:{init}, {counted}",
    }[layout]


def session(layout: str, asked: list[Asked], batch: int) -> bytes:
    parts = [
        f"\nInput: {{}}\n{progress(one, batch)}\n{printed(layout, one)}\nOutput: {one.answer}\n"
        for one in asked
    ]
    return "".join(parts).encode()


COUNTS = st.integers(1, 3000)
REQUESTS = st.builds(
    Asked,
    cached=st.integers(0, 3000),
    evaluated=COUNTS,
    output=st.integers(1, 60),
    limit=st.integers(60, 400),
    init_cs=st.integers(0, 300),
    prefill_cs=st.integers(1, 100_000),
    decode_cs=st.integers(1, 100_000),
    answer=st.sampled_from(["Yes.", f"It said\n{QUOTED}", "Generating (3 / 4 tokens)\n" + QUOTED]),
)


@given(layout=st.sampled_from(LAYOUTS), asked=st.lists(REQUESTS, max_size=4), batch=st.integers(64, 2048))
def test_requests_come_back_exactly(layout: str, asked: list[Asked], batch: int) -> None:
    log = read(session(layout, asked, batch))
    inits = {one: one.init_cs if layout in ("1.76", "clock", "counted") else 0 for one in asked}
    assert [
        (row.cached_tokens, row.prefill_tokens, row.output_tokens, row.context_tokens) for row in log.requests
    ] == [(one.cached, one.evaluated, one.output, one.context) for one in asked]
    assert [(row.prefill_ms, row.decode_ms, row.ttft_ms, row.total_ms) for row in log.requests] == [
        (
            10.0 * one.prefill_cs,
            10.0 * one.decode_cs,
            10.0 * (inits[one] + one.prefill_cs),
            10.0 * (inits[one] + one.prefill_cs + one.decode_cs),
        )
        for one in asked
    ]
    assert log.stream.counts.incomplete_requests == 0


@pytest.mark.parametrize(("output", "known"), [(1500, 1500), (3000, None)])
def test_a_progress_line_too_long_to_be_read_to_its_end_gives_no_count(
    output: int, known: int | None
) -> None:
    asked = Asked(0, 40, output, 4000, 0, 100, 900, "")
    [row] = read(session("1.57", [asked], 512)).requests
    assert (row.prefill_tokens, row.output_tokens, row.decode_ms) == (40, known, 9000.0)
