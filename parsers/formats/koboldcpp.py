r"""KoboldCpp: one line for each request when it ends, after the progress lines it draws over with ``\r``.

The line gives times in seconds and rates; counts came later. Those of the prompt and of the answer stand in
the progress lines: ``Processing Prompt [BLAS] (1038 / 1038 tokens)`` is what was evaluated, without what
was reused. A count worked out of a rate is worth nothing: for a while the rate of an answer that stopped
early was that of the longest one allowed (koboldcpp#852).

The time before the prompt (`Init`: tokenizing, shifting the context) is printed since 1.73 and is part of
the printed total only where the counts are. Here it always is. A time of ``0.00s`` is too short to be
known, and what follows ``Output: `` is the answer, which may quote a log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import Format, Reader, integer, line, text
from parsers.formats.rates import agree
from parsers.records import Request

if TYPE_CHECKING:
    import re

    from parsers.formats.base import At
    from parsers.formats.process import Process

_ENGINE = "koboldcpp"
_BLOCK_ENGINE = "llama-cli"
_READ_TO_THE_END = 60_000
_HALF_A_DIGIT_MS = 50.0
_MOST_ROUNDING = 1.5
_ROUNDED_TWICE = 1.02

_CLOCK = rb"(?:\[\d\d:\d\d:\d\d\] )?"
_RATE = rb"(?: \((?:[\d.]+ms/T = )?(?P<rate>\d+\.\d\d)T/s\)| \([^,]{1,60}\))?"
_PROMPT_RATE = (
    rb"(?: \((?:(?P<each>\d+(?:\.\d+)?)ms/T(?: = )?)?(?:(?P<prompt_rate>\d+\.\d\d)T/s\)|[^,]{0,60}\)))?"
)
_LIMIT = _CLOCK + rb"(?:ContextLimit|CtxLimit): ?(?P<context>\d+)/(?P<limit>\d+), "
_TIMES = (
    rb"Process(?:ing)?:(?P<prefill>\d+\.\d+)s" + _PROMPT_RATE + rb", "
    rb"Generat(?:e|ion):(?P<decode>\d+\.\d+)s" + _RATE + rb", Total:(?P<total>\d+\.\d+)s"
)
_DRAWN = rb"\((?P<done>\d+) / (?P<all>\d+) tokens\)"
_COUNTED = (
    rb"Init:(?P<init>\d+\.\d+)s, Processed:(?P<prompt>\d+) in (?P<prefill>\d+\.\d+)s" + _PROMPT_RATE + rb", "
    rb"Generated:(?P<output>\d+)/(?P<most>\d+) in (?P<decode>\d+\.\d+)s"
    + _RATE
    + rb", Total:(?P<total>\d+\.\d+)s"
)
_AMOUNT = rb"(?:Amt:(?P<output>\d+)/(?P<most>\d+), )?(?:Init:(?P<init>\d+\.\d+)s, )?"

LINES = (
    line("prompt", b"Processing Prompt", rb"Processing Prompt(?: \[\w+\])? " + _DRAWN),
    line("answer", b"Generating (", rb"Generating " + _DRAWN),
    line("ended", b"Time Taken - Processing:", rb"Time Taken - " + _TIMES),
    line("ended", b"ContextLimit: ", _LIMIT + _TIMES),
    line("ended", b"CtxLimit:", _LIMIT + _AMOUNT + _TIMES, b"Total:"),
    line("ended", b"CtxLimit:", _LIMIT + _COUNTED, b"Processed:"),
    line(
        "shifted",
        b"[Context Shifting: ",
        rb"\[Context Shifting: Erased (?P<erased>\d+) tokens at position \d+\]",
    ),
    line("failed", b"Failed to predict at ", rb"Failed to predict at token position (?P<position>\d+)!"),
    line("told", b"Output: ", rb"Output: "),
    line("asked", b"Input", rb"(?:\[\d\d:\d\d:\d\d\] Input Received|Input: \{)"),
    line("welcome", b"Welcome to KoboldCpp", rb"Welcome to KoboldCpp - Version (?P<version>[\w.]+)"),
)


class KoboldReader(Reader):
    """The progress of the request that is running; one runs at a time."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._largest_limit = 0
        self._quoting = self._asks = self._asked = False
        self._hook()
        self._begin()

    def _hook(self) -> None:
        if self.process.on_request is None:
            self.process.on_request = self._take

    def _begin(self) -> None:
        self._opened: At | None = None
        self._evaluated: int | None = None
        self._generated: int | None = None

    def _open(self, at: At) -> None:
        if self._opened is None:
            self._opened = at
            self._hook()

    def _take(self, row: Request) -> None:
        """With ``--debugmode`` libllama's timing block tells of the same request before its own line does."""
        if row.engine != _BLOCK_ENGINE:
            self.process.release(row)

    @property
    def _quotes(self) -> bool:
        """Inside an answer; or, where requests say that they have arrived, before one has."""
        return self._quoting or (self._asks and not self._asked)

    # --- progress

    def prompt(self, m: re.Match[bytes], at: At) -> None:
        """``Processing Prompt [BLAS] (1038 / 1038 tokens)``: all but the last piece is evaluated."""
        if self._quotes:
            return
        if self._generated is not None:
            self._drop()
        self._open(at)
        self._evaluated = int(m["all"]) if m["done"] == m["all"] else None

    def answer(self, m: re.Match[bytes], at: At) -> None:
        """``Generating (78 / 387 tokens)``, drawn for every token; past the limit it is counted wrong.

        Of a line so long that its end may not have been read the last count is not known.
        """
        if self._quotes:
            return
        self._open(at)
        done = int(m["done"])
        whole = done <= int(m["all"]) and done * (len(m[0]) + 1) < _READ_TO_THE_END
        self._generated = done if whole else None

    def told(self, m: re.Match[bytes], at: At) -> None:
        """``Output: ...``: the answer in full, many lines."""
        self._quoting = True
        self.process.quote(at, _ENGINE)

    def asked(self, m: re.Match[bytes], at: At) -> None:
        """``[21:04:33] Input Received``, ``Input: {...``: a request is taken up; the one before is over."""
        self._drop()
        self._over()
        self._asks = self._asked = True

    def _over(self) -> None:
        self._quoting = False
        self.process.unquote()

    # --- the end

    def ended(self, m: re.Match[bytes], at: At) -> None:
        """``CtxLimit:1116/4096, Amt:78/387, Init:0.01s, Process:25.05s (...), Generate:...``."""
        if self._quotes:
            return
        self._asked = False
        said = m.groupdict()
        row = Request(line=at.number, engine=_ENGINE, finished_at=at.time)
        if not self._is_progress_of(said):
            self._drop()
        first = self._opened or at
        row.first_line, row.offset = first.number, first.offset
        row.prefill_ms, row.decode_ms = _ms(m["prefill"]), _ms(m["decode"])
        row.output_tokens = self._generated if said.get("output") is None else integer(m["output"])
        row.prefill_tokens = self._evaluated if said.get("prompt") is None else integer(m["prompt"])
        init_ms, total_ms = _ms(said.get("init")) or 0.0, _ms(m["total"])
        if total_ms is not None:
            row.total_ms = total_ms if said.get("prompt") else round(init_ms + total_ms, 1)
        self._check(row, said)
        if not row.output_tokens:
            row.decode_ms = row.decode_ms if row.output_tokens is None else None
        elif row.decode_ms is not None:
            row.decode_steps = row.output_tokens - 1
        if row.prefill_ms is not None:
            row.ttft_ms, row.ttft_from = round(init_ms + row.prefill_ms, 1), "slot"
        elif row.output_tokens == 0:
            row.prefill_tokens = None
        if said.get("context"):
            self._count_context(row, at, int(m["context"]), int(m["limit"]))
        self.process.emit(row)
        self._begin()

    def _check(self, row: Request, said: dict[str, bytes | None]) -> None:
        """Take back a phase whose count contradicts its rate, which may be that of the longest answer."""
        if said.get("prompt") and not _agree(row.prefill_tokens, said["prefill"], said["prompt_rate"]):
            row.prefill_tokens = row.prefill_ms = None
            self.process.counts.impossible_values += 1
        if said.get("output") and row.output_tokens is not None:
            most = integer(said["most"]) or 0
            rates = any(_agree(count, said["decode"], said["rate"]) for count in (row.output_tokens, most))
            if row.output_tokens > most or not rates:
                row.output_tokens = row.decode_ms = None
                self.process.counts.impossible_values += 1

    def _is_progress_of(self, said: dict[str, bytes | None]) -> bool:
        """False where the time per token shows that another prompt than the one drawn was evaluated."""
        each, prefill_ms = said.get("each"), _ms(said["prefill"])
        if prefill_ms is None or not self._evaluated:
            return True
        if each is None:
            return said.get("prompt") is not None or _agree(
                self._evaluated, said["prefill"], said.get("prompt_rate")
            )
        half_a_digit: float = 0.5 * 0.1 ** len(each.partition(b".")[2])
        error_ms = _MOST_ROUNDING * (half_a_digit + _HALF_A_DIGIT_MS / self._evaluated)
        return abs(prefill_ms / self._evaluated - float(each)) <= error_ms

    def _count_context(self, row: Request, at: At, context: int, limit: int) -> None:
        """What the context holds at the end is the prompt and the answer. A client may ask for less of it."""
        row.context_tokens = context
        if limit > self._largest_limit:
            self._largest_limit = limit
            self.process.learn(at, context=limit)
        if row.output_tokens and context - row.output_tokens >= (row.prefill_tokens or 1):
            row.prompt_tokens = context - row.output_tokens
            if row.prefill_tokens is not None:
                row.cached_tokens = row.prompt_tokens - row.prefill_tokens

    def shifted(self, m: re.Match[bytes], at: At) -> None:
        """``[Context Shifting: Erased 240 tokens at position 1238]``: the prompt's start has moved on."""
        if not self._quoting:
            erased = int(m["erased"])
            self.process.event(_ENGINE, at, "context_shift", f"{erased} tokens dropped", value=float(erased))

    def failed(self, m: re.Match[bytes], at: At) -> None:
        """``Failed to predict at token position 512!``: the running request gets no line."""
        if self._opened is not None:
            self.process.counts.failed_requests += 1
            self.process.event(_ENGINE, at, "error", f"evaluation failed at token {int(m['position'])}")
            self._begin()

    def welcome(self, m: re.Match[bytes], at: At) -> None:
        """``Welcome to KoboldCpp - Version 1.76``: a process starts."""
        self._over()
        self.process.start(at)
        self.process.learn(at, engine_version=text(m["version"]))

    def _drop(self) -> None:
        """What is open has lost its end."""
        if self._opened is not None:
            self.process.counts.incomplete_requests += 1
            self._begin()

    def close(self) -> None:
        """The source or the process ends here; what is open was cut off."""
        self._drop()
        self._largest_limit = 0
        self._quoting = self._asks = self._asked = False


def _agree(tokens: int | None, seconds: bytes | None, rate: bytes | None) -> bool:
    """Whether a count, a time and a rate as printed can be of one measurement; unknown ones can."""
    if tokens is None or seconds is None or rate is None:
        return True
    digits = 0.1 ** len(seconds.partition(b".")[2])
    return agree(tokens, float(seconds), float(rate), digits * _ROUNDED_TWICE, 0.01 * _ROUNDED_TWICE)


def _ms(seconds: bytes | None) -> float | None:
    """Milliseconds of a printed time; ``None`` for one too short to be printed."""
    return round(1000 * float(seconds), 1) or None if seconds is not None else None


FORMAT = Format(
    engine=_ENGINE,
    title="KoboldCpp",
    versions="1.0.9 and newer",
    grain="request",
    identify=(
        b"Welcome to KoboldCpp",
        b"Processing Prompt",
        b"Time Taken - Processing:",
        b"ContextLimit: ",
        b"CtxLimit:",
        b"[Context Shifting: Erased ",
    ),
    lines=LINES,
    reader=KoboldReader,
    splits="prefill, decode",
    ends=("failed", "incomplete"),
)
