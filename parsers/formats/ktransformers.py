"""KTransformers' own server, until 0.4; since then SGLang serves, and its log is read as SGLang's.

One line for each answer, with all digits: two rates and three times, so the tokens follow. The answer's
counter and its clock begin after the first token. The prompt's depends on who prints the line: the plain
backend counts what was not in its cache and times no queue; `balance_serve` counts the whole prompt, and its
clock starts when the request is queued, so its time is the time to first token. Neither names the request.

What `local_chat` prints looks like ``ollama run --verbose`` without its first line and is not read.

Read in ktransformers of 2026-08-21 (95009ea6): archive/ktransformers/server/backend/base.py,
interfaces/{transformers,balance_serve}.py and config/log.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import At, Format, Reader, line
from parsers.formats.clocks import STAMP, wall_clock
from parsers.records import Request

if TYPE_CHECKING:
    import re

_ENGINE = "ktransformers"
_WHOLE = 1e-6
_FLOAT = rb"[\d.]+(?:e[+-]?\d+)?"

LINES = (
    line(
        "performance",
        b"Performance(T/s): prefill ",
        rb"(?:(?P<time>" + STAMP + rb") \w+ (?P<path>\S+)\[\d+\](?: \w+)?: )?"
        rb"Performance\(T/s\): prefill (?P<prompt_rate>" + _FLOAT + rb"), "
        rb"decode (?P<rate>" + _FLOAT + rb")\. "
        rb"Time\(s\): tokenize " + _FLOAT + rb", prefill (?P<prompt>" + _FLOAT + rb"), "
        rb"decode (?P<answer>" + _FLOAT + rb")\s*$",
    ),
)


class PerformanceReader(Reader):
    """One line is a request."""

    engine = _ENGINE

    def performance(self, m: re.Match[bytes], at: At) -> None:
        """``Performance(T/s): prefill 50.1, decode 9.5. Time(s): tokenize 0.01, prefill 5.2, decode 2.1``."""
        prompt, steps = _tokens(m["prompt_rate"], m["prompt"]), _tokens(m["rate"], m["answer"])
        self.process.counts.impossible_values += (prompt is None) + (steps is None)
        row = Request(line=at.number, engine=_ENGINE, first_line=at.number, offset=at.offset)
        row.finished_at = wall_clock(m["time"], at)
        first_ms = round(1000 * float(m["prompt"]), 6)
        if m["path"] is not None and m["path"].endswith(b"balance_serve.py"):
            row.prompt_tokens, row.ttft_from = prompt, "arrival"
        elif m["path"] is not None:
            row.prefill_tokens, row.prefill_ms, row.ttft_from = prompt, first_ms, "slot"
        row.ttft_ms = first_ms
        if steps is not None:
            row.output_tokens = steps + 1
        if steps:
            row.decode_ms, row.decode_steps = round(1000 * float(m["answer"]), 6), steps
            row.total_ms = round(first_ms + row.decode_ms, 6)
        self.process.emit(row)


def _tokens(rate: bytes, seconds: bytes) -> int | None:
    """How many tokens a rate and its time are of; ``None`` where they contradict each other."""
    tokens = float(rate) * float(seconds)
    return round(tokens) if abs(tokens - round(tokens)) <= _WHOLE * max(tokens, 1.0) else None


FORMAT = Format(
    engine=_ENGINE,
    title="KTransformers (its own server)",
    versions="0.2 to 0.4; newer ones are read as SGLang",
    grain="request",
    identify=(b"Performance(T/s): prefill ",),
    lines=LINES,
    reader=PerformanceReader,
    splits="prefill (balance_serve: time to first token, queue in it), decode",
)
