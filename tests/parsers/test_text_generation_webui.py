"""text-generation-webui's line alone, broken by Rich, and beside the timings of the engine inside."""

from __future__ import annotations

import io
import logging

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.logging import RichHandler

from tests.parsers.reading import bytewise, read

BLOCK = """prompt eval time =     100.00 ms /    50 tokens (    2.00 ms per token,   500.00 tokens per second)
       eval time =      90.00 ms /    10 tokens (    9.00 ms per token,   111.11 tokens per second)
      total time =     190.00 ms /    60 tokens
"""


def line(total_cs: int, output: int, prompt: int, seed: int) -> str:
    seconds = total_cs / 100
    return (
        f"Output generated in {seconds:.2f} seconds ({output / seconds:.2f} tokens/s, {output} tokens, "
        f"context {prompt}, seed {seed})"
    )


def logged(message: str, width: int) -> bytes:
    """What its handler writes."""
    out = io.StringIO()
    handler = RichHandler(
        show_time=True, omit_repeated_times=False, show_level=True, show_path=False, markup=False,
        log_time_format="%H:%M:%S-%f", console=Console(file=out, width=width),
    )  # fmt: skip
    handler.handle(logging.LogRecord("textgen", logging.INFO, "", 0, message, None, None))
    return out.getvalue().encode()


@given(
    total_cs=st.integers(1, 100_000),
    output=st.integers(0, 5000),
    prompt=st.integers(0, 200_000),
    seed=st.integers(0, 2**31),
    width=st.integers(80, 160),
)
def test_its_line_comes_back_broken_or_bare(
    total_cs: int, output: int, prompt: int, seed: int, width: int
) -> None:
    message = line(total_cs, output, prompt, seed)
    for data in (logged(message, width), f"{message}\n".encode()):
        [row] = read(data).requests
        assert (row.total_ms, row.output_tokens, row.prompt_tokens) == (10.0 * total_cs, output, prompt)
        assert (row.prefill_ms, row.decode_ms, row.ttft_ms, row.decode_steps) == (None, None, None, None)


@given(st.lists(st.booleans(), min_size=1, max_size=8))
def test_a_request_that_the_engine_inside_tells_of_is_told_once(inside: list[bool]) -> None:
    data = "".join((BLOCK if told else "") + line(25, 10, 50, 7) + "\n" for told in inside).encode()
    log = read(data)
    assert [row.engine for row in log.requests] == [
        "llama-server" if told else "text-generation-webui" for told in inside
    ]
    assert bytewise(data).told() == log.told()
