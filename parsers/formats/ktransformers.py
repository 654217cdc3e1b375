"""KTransformers' own server and `local_chat`, until 0.4; since then SGLang serves, and is read as such.

One line for each answer, with all digits: two rates and three times, so the tokens follow. The answer's
counter and its clock begin after the first token. The prompt's depends on who prints the line: the plain
backend counts what was not in its cache and times no queue; `balance_serve` counts the whole prompt, and its
clock starts when the request is queued, so its time is the time to first token. Neither names the request.

`local_chat` prints what looks like ``ollama run --verbose`` without its first line, with all digits of its
floats: Go's durations have nine at most. A block is one where each rate is the count by the time. Each prompt
is read whole, and the counter of the answer, but not its clock, begins with the first token.

Read in ktransformers v0.1.4 to v0.4.1 and of 2026-08-21 (95009ea6): archive/ktransformers/util/utils.py,
local_chat.py, server/backend/base.py, interfaces/{transformers,balance_serve}.py and config/log.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import At, Format, Reader, line
from parsers.formats.clocks import STAMP, wall_clock
from parsers.records import Request

if TYPE_CHECKING:
    import re

    from parsers.formats.process import Process

_ENGINE = "ktransformers"
_WHOLE = 1e-6
_FLOAT_DIGITS = 10
_NEXT_LINES = 3
_FLOAT = rb"[\d.]+(?:e[+-]?\d+)?"
_DIGITS = rb"(?P<value>\d+\.\d{9,20})"
_RANK = rb"(?P<rank>\[rank:\d+\])?"
_CHAT = (
    ("prompt_time", b"prompt eval duration: ", _DIGITS + rb"s\s*$"),
    ("prompt_rate", b"prompt eval rate: ", rb" {4}" + _DIGITS + rb" tokens/s\s*$"),
    ("answer", b"eval count: ", rb" {10}(?P<value>\d{1,9}) token\(s\)\s*$"),
    ("answer_time", b"eval duration: ", rb" {7}" + _DIGITS + rb"s\s*$"),
    ("answer_rate", b"eval rate: ", rb" {11}" + _DIGITS + rb" tokens/s\s*$"),
)
"""The lines of a block after the first, whose count is the product of the next two."""

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
    *(line(name, needle, _RANK + needle + rest) for name, needle, rest in _CHAT),
    line("asked", b"Chat: ", rb"Chat: "),
    line("left", b"Chat: ", rb'content = input\("Chat: '),
    line("left", b"Exit all rank with ", rb"Exit all rank with KeyboardInterrupt!\s*$"),
)


class KReader(Reader):
    """One line of the server is a request, or a block of the chat."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._block: list[float] = []
        self._first = self._last = At(0, 0, None, b"", 0)
        self._told_at: int | None = None

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

    # --- local_chat

    def prompt_time(self, m: re.Match[bytes], at: At) -> bool:
        """``prompt eval duration: 0.5234689712524414s``: the answer was printed, a block begins."""
        if m["rank"] is None and len(m["value"].partition(b".")[2]) < _FLOAT_DIGITS:
            return False
        self.process.unquote()
        self._block, self._first, self._last = [], at, at
        return self._add(0, m, at)

    def prompt_rate(self, m: re.Match[bytes], at: At) -> bool:
        """``prompt eval rate:     22.923994846 tokens/s``."""
        return self._add(1, m, at)

    def answer(self, m: re.Match[bytes], at: At) -> bool:
        """``eval count:           128 token(s)``."""
        return self._add(2, m, at)

    def answer_time(self, m: re.Match[bytes], at: At) -> bool:
        """``eval duration:        9.416513919830322s``."""
        return self._add(3, m, at)

    def answer_rate(self, m: re.Match[bytes], at: At) -> bool:
        """``eval rate:            13.593141059 tokens/s``: the last line."""
        if not self._add(4, m, at):
            return False
        self._tell(*self._block)
        self._block, self._told_at = [], at.own_number
        return True

    def asked(self, _m: re.Match[bytes], at: At) -> bool:
        """``Chat: ``, after a block: somebody's text and the answer follow."""
        if self._told_at is None or at.own_number - self._told_at > _NEXT_LINES:
            return False
        self.process.quote(at, _ENGINE)
        return True

    def left(self, _m: re.Match[bytes], _at: At) -> None:
        """Ctrl-C or Ctrl-D at the prompt: the chat is over, and older ones say so in a traceback."""
        self.process.unquote()
        self._told_at = None

    def _add(self, place: int, m: re.Match[bytes], at: At) -> bool:
        if len(self._block) != place or at.own_number - self._last.own_number > 1:
            return False
        self._block.append(float(m["value"]))
        self._last = at
        return True

    def _tell(self, prompt_s: float, prompt_rate: float, output: float, answer_s: float, rate: float) -> None:
        prompt = round(prompt_s * prompt_rate)
        if not (_same(prompt_s * prompt_rate, prompt) and _same(answer_s * rate, output)) or not output:
            self.process.counts.incomplete_requests += 1
            return
        row = Request(line=self._last.number, engine=_ENGINE, finished_at=self._last.time)
        row.first_line, row.offset = self._first.number, self._first.offset
        row.prompt_tokens, row.prefill_tokens, row.cached_tokens = prompt, prompt, 0
        row.prefill_ms = row.ttft_ms = round(1000 * prompt_s, 6)
        row.ttft_from, row.output_tokens = "slot", int(output)
        if output > 1:
            row.decode_ms, row.decode_steps = round(1000 * answer_s, 6), int(output) - 1
            row.total_ms = round(row.prefill_ms + row.decode_ms, 6)
        self.process.emit(row)


def _same(product: float, count: float) -> bool:
    return abs(product - count) <= _WHOLE * max(count, 1.0)


def _tokens(rate: bytes, seconds: bytes) -> int | None:
    """How many tokens a rate and its time are of; ``None`` where they contradict each other."""
    tokens = float(rate) * float(seconds)
    return round(tokens) if _same(tokens, round(tokens)) else None


FORMAT = Format(
    engine=_ENGINE,
    title="KTransformers (its own server, local_chat)",
    versions="0.1 to 0.4; newer ones are read as SGLang",
    grain="request",
    identify=(b"Performance(T/s): prefill ", b"prompt eval duration: "),
    lines=LINES,
    reader=KReader,
    splits="prefill (balance_serve: time to first token, queue in it), decode",
)
