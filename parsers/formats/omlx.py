"""oMLX: one line for each answer, and what the scheduler says of the prompt's cached part.

The line gives the answer's tokens, the time of the whole request, a rate and the prompt's tokens. The rate
of a streamed answer is that of the time after its first token, of any other that of the whole request
(omlx#1170): where it is the whole request's, the phases can't be told apart. The rate has one digit, so its
time is only taken where that leaves no more than 1 % open.

`prefix cache:` tells how much of a prompt had to be read again. It is tied to an answer by the prompt's
length, and only where no other prompt has that length.

Read in omlx/server.py as of 2026-05 and 2026-09, and in logs of versions 0.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import Format, Reader, line, number, text
from parsers.formats.clocks import STAMP, wall_clock
from parsers.formats.rates import agree, time_ms
from parsers.records import Request

if TYPE_CHECKING:
    import re

    from parsers.formats.base import At
    from parsers.formats.process import Process

_ENGINE = "omlx"
_SECONDS_STEP, _RATE_STEP = 0.01, 0.1
_MOST_ERROR = 0.05
_MOST_PROMPTS = 256
_LOGGED = rb"(?P<time>" + STAMP + rb") - omlx\.[\w.]+ - INFO - (?:\[[^\]]*\] - )?"

LINES = (
    line(
        "answered",
        b"ompletion: ",
        _LOGGED + rb"(?:Chat c|C)ompletion: (?:model=(?P<model>.+?), )?(?P<output>\d+) tokens in "
        rb"(?P<seconds>\d+\.\d\d)s \((?P<rate>\d+\.\d) tok/s\)"
        rb"(?:, prompt: (?P<prompt>\d+))?(?:, finish_reason=(?P<reason>\w+))?",
        b" tok/s)",
    ),
    line(
        "cached",
        b" re-prefills ",
        _LOGGED + rb"prefix cache: request \S+ re-prefills (?P<new>\d+) of (?P<prompt>\d+) tokens "
        rb"\(reused (?P<cached>\d+)\)",
    ),
)


class OmlxReader(Reader):
    """The prompts that were looked up in the cache and not answered yet, by their length."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._cached: dict[int, int | None] = {}

    def cached(self, m: re.Match[bytes], at: At) -> None:
        """``prefix cache: request 2da900bb re-prefills 8280 of 163928 tokens (reused 155648); ...``."""
        prompt, cached = int(m["prompt"]), int(m["cached"])
        if int(m["new"]) + cached != prompt:
            self.process.counts.impossible_values += 1
            return
        self._cached[prompt] = None if prompt in self._cached else cached
        if len(self._cached) > _MOST_PROMPTS:
            self._cached.pop(next(iter(self._cached)))

    def answered(self, m: re.Match[bytes], at: At) -> None:
        """``Chat completion: model=M, 870 tokens in 60.33s (16.6 tok/s), prompt: 4235, ...``."""
        output, seconds = int(m["output"]), float(m["seconds"])
        row = Request(line=at.number, engine=_ENGINE, first_line=at.number, offset=at.offset)
        row.model, row.finish_reason = text(m["model"]), text(m["reason"])
        row.finished_at, row.output_tokens = wall_clock(m["time"], at), output
        row.total_ms = round(1000 * seconds, 1) or None
        if m["prompt"]:
            row.prompt_tokens = int(m["prompt"])
            row.cached_tokens = self._cached.pop(row.prompt_tokens, None)
            if row.cached_tokens is not None:
                row.prefill_tokens = row.prompt_tokens - row.cached_tokens
        self._split(row, output, seconds, number(m["rate"]) or 0.0)
        self.process.emit(row)

    def _split(self, row: Request, output: int, seconds: float, rate: float) -> None:
        """The answer's time, if the rate is its own; the rest is the time to first token."""
        if output < 2 or agree(output, seconds, rate, _SECONDS_STEP, _RATE_STEP):
            return
        decode_ms = time_ms(output, rate, _RATE_STEP)
        if decode_ms is None:
            return
        ttft_ms = 1000 * seconds - decode_ms
        error_ms = decode_ms * _RATE_STEP / 2 / rate + 1000 * _SECONDS_STEP / 2
        if ttft_ms < -error_ms:
            self.process.counts.impossible_values += 1
            return
        row.decode_ms, row.decode_steps = decode_ms, output - 1
        if error_ms <= ttft_ms * _MOST_ERROR:
            row.ttft_ms, row.ttft_from = round(ttft_ms, 1), "arrival"

    def close(self) -> None:
        """The source or the process ends here."""
        self._cached.clear()


FORMAT = Format(
    engine=_ENGINE,
    title="oMLX",
    versions="streamed answers since 2026-05",
    grain="request",
    identify=(b" - omlx.server - ", b" - omlx.scheduler - "),
    lines=LINES,
    reader=OmlxReader,
    splits="time to first token and decode of streamed answers",
)
