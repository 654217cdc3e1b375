"""vllm.rs (xInfer): two lines for each streamed request, one for the prompt and one for the answer.

The prompt's clock starts when the sequence is made, so the wait for a place in the batch is in it: it is the
time to first token, and prefill alone can't be told from it. The answer's clock starts when the prompt is
done, so it pays for one token less than it counts. The prompt's tokens include those from the cache.

Answers that are not streamed are summed over the choices of a request: ``[1 requests]`` is one, more can't be
told apart. The batch of the command line (``tokens/s``) is a sum too, and is not read; it ends the prompts
and answers that are printed there.

Read in src/server/server.rs, claude_server.rs, core/engine.rs and main.rs of vllm.rs at 1b00e271 (2026-05).
Times are whole milliseconds there and are printed in hundredths of a second; the rate beside them gives them
back.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from parsers.formats.base import At, Format, Reader, line
from parsers.formats.rates import agree
from parsers.records import Request
from parsers.times import parse_iso

if TYPE_CHECKING:
    import re

    from parsers.formats.process import Process

_ENGINE = "vllm-rs"
_DIGIT = 0.01
"""Of seconds and of tokens per second, as they are printed."""

_MOST_OPEN = 1024
_CLOCK_EMOJI = "⏱️ ".encode()

_RECORD = rb"(?:(?P<clock>\d{4}-\d\d-\d\dT[\d:.]+Z) )?(?: *(?:INFO|WARN) +[\w:]+: )?"
_HEAD = _RECORD + rb"\[(?:Seq (?P<id>\d{1,18})|1 requests)\] " + _CLOCK_EMOJI
_TIMED = rb" in (?P<seconds>\d+\.\d+)s \((?P<rate>\d+\.\d+) t/s\)\s*$"

_SPELLINGS = (_CLOCK_EMOJI, b"\\u23f1\\ufe0f ")
"""The emoji, and how JSON may write it."""

_ASKS, _ASKED, _ANSWERS = ("🤖✨ Enter a".encode(), "📚✨ Prompt ".encode(), "📄✨ Response: ".encode())
TEXTS = (
    line("text", _ASKS, _ASKS + rb"(?:nother| new) prompt "),
    line("text", _ASKED, _RECORD + rb"\[seq_id \d{1,18}\] " + _ASKED + rb"\d+: "),
    line("text", _ANSWERS, _RECORD + rb"\[seq_id \d{1,18}\] " + _ANSWERS),
    line(
        "told", _CLOCK_EMOJI, _RECORD + _CLOCK_EMOJI + rb"Prompt tokens: \d+ in [\d.]+s \(\S+ tokens/s\)\s*$"
    ),
)
"""What stands before texts on the command line, and after them."""

LINES = TEXTS + tuple(
    entry
    for spelled in _SPELLINGS
    for entry in (
        line(
            "prompt",
            spelled,
            _HEAD + rb"Prompt(?: tokens)?: (?P<tokens>\d{1,12})(?: tokens)?"
            rb"(?:" + _TIMED[:-4] + rb"| \((?:cached|cached context)\))\s*$",
            b"Prompt",
        ),
        line(
            "decoded",
            spelled,
            _HEAD + rb"Decoded(?: tokens)?: (?P<tokens>\d{1,12})(?: tokens)?" + _TIMED,
            b"Decoded",
        ),
    )
)


class VllmRsReader(Reader):
    """The prompts whose answer has not been told."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._open: dict[bytes | None, Request] = {}

    def text(self, _m: re.Match[bytes], at: At) -> None:
        """``🤖✨ Enter a new prompt``, ``[seq_id 0] 📄✨ Response: ``: somebody's text begins."""
        self.process.quote(at, _ENGINE)

    def told(self, _m: re.Match[bytes], _at: At) -> None:
        """``⏱️ Prompt tokens: 12 in 0.02s (600.00 tokens/s)``: it is over."""
        self.process.unquote()

    def prompt(self, m: re.Match[bytes], at: At) -> None:
        """``[Seq 4] ⏱️ Prompt: 41653 tokens in 18.84s (2210.41 t/s)``."""
        self._forget(m["id"])
        row = Request(
            line=at.number,
            engine=_ENGINE,
            request_id=m["id"].decode() if m["id"] else None,
            prompt_tokens=int(m["tokens"]),
            first_line=at.number,
            offset=at.offset,
        )
        if m["seconds"] and (prompt_ms := self._ms(m)) is not None:
            row.ttft_ms, row.ttft_from = prompt_ms, "arrival"
        self._open[m["id"]] = row
        if len(self._open) > _MOST_OPEN:
            self._forget(next(iter(self._open)))

    def decoded(self, m: re.Match[bytes], at: At) -> None:
        """``[Seq 4] ⏱️ Decoded: 450 tokens in 22.81s (19.73 t/s)``: the request is done."""
        row = self._open.pop(m["id"], None)
        if row is None:
            self.process.counts.incomplete_requests += 1
            return
        row.line, row.finished_at = at.number, parse_iso(m["clock"]) or at.time
        row.output_tokens = int(m["tokens"])
        row.decode_ms = self._ms(m)
        row.decode_steps = max(row.output_tokens - 1, 0)
        if row.ttft_ms is not None and row.decode_ms is not None:
            row.total_ms = round(row.ttft_ms + row.decode_ms, 1)
            row.started_at = row.finished_at and row.finished_at - timedelta(milliseconds=row.total_ms)
        self.process.emit(row)

    def _ms(self, m: re.Match[bytes]) -> float | None:
        """The time behind a rate; ``None`` where the printed seconds and the rate contradict each other."""
        tokens, seconds, rate = int(m["tokens"]), float(m["seconds"]), float(m["rate"])
        if not tokens or not rate:
            return round(1000 * seconds, 1)
        if not agree(tokens, seconds, rate, _DIGIT, _DIGIT):
            self.process.counts.impossible_values += 1
            return None
        exact_s, error_s = tokens / rate, tokens * _DIGIT / 2 / rate**2
        return round(1000 * (exact_s if error_s < _DIGIT / 2 else seconds), 1)

    def _forget(self, name: bytes | None) -> None:
        self.process.counts.incomplete_requests += self._open.pop(name, None) is not None

    def close(self) -> None:
        """The source or the process ends here; prompts without an answer were cut off."""
        self.process.counts.incomplete_requests += len(self._open)
        self._open.clear()


FORMAT = Format(
    engine=_ENGINE,
    title="vllm.rs (xInfer)",
    versions="2025-09 and newer",
    grain="request",
    identify=(*_SPELLINGS, _ASKS, _ASKED, _ANSWERS),
    lines=LINES,
    reader=VllmRsReader,
    splits="time to first token (queue in it), decode",
    ends=("incomplete",),
)
