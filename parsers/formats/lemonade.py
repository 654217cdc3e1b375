"""Lemonade Server: what it prints after each answer, on one line or on four, whichever engine gave it.

Four numbers: the tokens that went in and out, the time to the first token, and the answer's rate. What they
mean is the engine's affair. llama.cpp's are its own timings, so what went in is what was evaluated, and the
time is the prefill's. Elsewhere it is the whole prompt, and the time is that of the first piece as Lemonade
saw it. Which engine runs is told only where the log says what was loaded (``recipe: llamacpp``; until v9, and
with ``--log-level debug``); otherwise the count is not read, and where its clock starts stays open. The rate
may count the first token or not, so the answer's time is read only where that is 1 % at most.

Where llama-server's own lines are in the log as well, they tell of the same requests, and these are not read.

Read in lemonade v8.2.2, v9.1.0, v10.0.0 and main of 2026-08-22 (e385039): src/cpp/include/lemon/
streaming_proxy.h, src/cpp/server/{streaming_proxy,server,router}.cpp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import At, Format, Reader, line, number, text
from parsers.formats.clocks import STAMP, wall_clock
from parsers.formats.rates import time_ms
from parsers.records import Request

if TYPE_CHECKING:
    import re
    from datetime import datetime

    from parsers.formats.process import Process

_ENGINE, _LLAMA = "lemonade", "llama-server"
_STEP = 0.01
_FEWEST_TOKENS = 100
_NEXT_LINES = 8
_HEAD = rb"(?:(?P<time>" + STAMP + rb") \[\w+\] \(\w+\) |\[[A-Z][A-Za-z]+\] )?"
_MODEL = rb"(?P<model>\S.{0,200}?)"

LINES = (
    line(
        "inference",
        b"Inference completed: model=",
        _HEAD + rb"Inference completed: model=" + _MODEL + rb", tokens=\d+ "
        rb"\(in=(?P<prompt>\d+), out=(?P<output>\d+)\), ttft=(?P<ttft>[\d.]+)s, tps=(?P<rate>[\d.]+)\s*$",
    ),
    line("begin", b"=== Telemetry ===", _HEAD + rb"=== Telemetry ===\s*$"),
    line("prompt", b"nput tokens:  ", _HEAD + rb"Input tokens:  (?P<value>\d+)\s*$"),
    line("output", b"utput tokens: ", _HEAD + rb"Output tokens: (?P<value>\d+)\s*$"),
    line("ttft", b"TTFT (s):      ", _HEAD + rb"TTFT \(s\):      (?P<value>[\d.]+)\s*$"),
    line("rate", b"TPS:           ", _HEAD + rb"TPS:           (?P<value>[\d.]+)\s*$"),
    line(
        "loading",
        b", recipe: ",
        _HEAD + rb"Loading model: " + _MODEL + rb" \(checkpoint: .*, recipe: (?P<recipe>[\w-]+), type: ",
        b"Loading model: ",
    ),
)


class LemonadeReader(Reader):
    """The block that is being printed, and which engines serve which models."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._recipes: dict[str | None, str] = {}
        self._first: At | None = None
        self._values: dict[str, bytes] = {}
        self._last_line: At | None = None

    def loading(self, m: re.Match[bytes], at: At) -> None:
        """``[Router] Loading model: m (checkpoint: org/m:f.gguf, recipe: llamacpp, type: llm, ...)``."""
        model = text(m["model"])
        self._recipes[model] = m["recipe"].decode()
        self.process.event(_ENGINE, at._replace(time=_time(m, at)), "model_load", model)

    def inference(self, m: re.Match[bytes], at: At) -> None:
        """``Inference completed: model=m, tokens=662 (in=630, out=32), ttft=2.403s, tps=84.82``."""
        self._drop()
        self._last_line = at
        values = {name: m[name] for name in ("prompt", "output", "ttft", "rate")}
        self._emit(values, text(m["model"]), at, at, _time(m, at))

    def begin(self, m: re.Match[bytes], at: At) -> None:
        """``=== Telemetry ===``: with debug messages on, the line before said the same."""
        self._drop()
        told = self._last_line is not None and at.own_number - self._last_line.own_number <= 1
        self._first = None if told else at

    def prompt(self, m: re.Match[bytes], at: At) -> None:
        """``Input tokens:  630``."""
        self._value("prompt", m, at)

    def output(self, m: re.Match[bytes], at: At) -> None:
        """``Output tokens: 32``."""
        self._value("output", m, at)

    def ttft(self, m: re.Match[bytes], at: At) -> None:
        """``TTFT (s):      2.403``."""
        self._value("ttft", m, at)

    def rate(self, m: re.Match[bytes], at: At) -> None:
        """``TPS:           84.82`` is the last of them."""
        self._value("rate", m, at)
        first, values, self._first, self._values = self._first, self._values, None, {}
        if first is not None and len(values) == 4:
            self._emit(values, None, first, at, _time(m, at))
        elif first is not None:
            self.process.counts.incomplete_requests += 1

    def _value(self, name: str, m: re.Match[bytes], at: At) -> None:
        if self._first is not None and at.own_number - self._first.own_number <= _NEXT_LINES:
            self._values[name] = m["value"]

    def _emit(
        self, values: dict[str, bytes], model: str | None, first: At, last: At, time: datetime | None
    ) -> None:
        if any(reader.engine == _LLAMA for reader in self.process.readers):
            return
        row = Request(line=last.number, engine=_ENGINE, first_line=first.number, offset=first.offset)
        row.model, row.finished_at = model, time
        row.output_tokens = int(values["output"])
        row.ttft_ms = round(1000 * float(values["ttft"]), 3) or None
        recipes = {self._recipes[model]} if model in self._recipes else set(self._recipes.values())
        if recipes == {"llamacpp"}:
            row.prefill_tokens, row.prefill_ms = int(values["prompt"]), row.ttft_ms
            row.ttft_from = None if row.ttft_ms is None else "slot"
        elif recipes and "llamacpp" not in recipes:
            row.prompt_tokens = int(values["prompt"])
            row.ttft_from = None if row.ttft_ms is None else "arrival"
        if row.output_tokens >= _FEWEST_TOKENS:
            row.decode_ms = time_ms(row.output_tokens, number(values["rate"]), _STEP)
            row.decode_steps = None if row.decode_ms is None else row.output_tokens
        if row.prefill_ms is not None and row.decode_ms is not None:
            row.total_ms = round(row.prefill_ms + row.decode_ms, 3)
        self.process.emit(row)

    def _drop(self) -> None:
        self.process.counts.incomplete_requests += self._first is not None
        self._first, self._values = None, {}

    def close(self) -> None:
        """The source or the process ends here."""
        self._drop()


def _time(m: re.Match[bytes], at: At) -> datetime | None:
    return wall_clock(m["time"], at) if m["time"] else at.time


FORMAT = Format(
    engine=_ENGINE,
    title="Lemonade Server",
    versions="8.2 and newer",
    grain="request",
    identify=(b"Inference completed: model=", b"=== Telemetry ===", b", recipe: "),
    lines=LINES,
    reader=LemonadeReader,
    splits="time to first token, decode of long answers; prefill where llama.cpp is known to serve",
    ends=("incomplete",),
)
