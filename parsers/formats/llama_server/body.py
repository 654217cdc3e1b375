"""Answers of llama-server with a `timings` object, as its clients log them: whole, or as stream events.

A stream repeats the timings in more than one chunk of the same answer; those of its end count. In the
server's own log (`-v`) the slot lines tell of the same request, so there bodies say nothing new. Ollama's
answers have `timings` too, which mean something else: see `ollama_timings.py`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from parsers.cut import json_object
from parsers.formats.base import line
from parsers.formats.clocks import at_epoch
from parsers.formats.json_values import count, text
from parsers.formats.llama_server.pretty import PrettyTimings
from parsers.formats.ollama_timings import OllamaAnswers, counts_whole_prompt, says_ollama
from parsers.records import Request

if TYPE_CHECKING:
    import re
    from datetime import datetime

    from parsers.formats.base import At
    from parsers.formats.process import Process

_Known = TypeVar("_Known")

LINES = (line("body", b'"timings":', rb"(?:data: ?)?(?P<body>\{(?s:.*)\})\s*,?$"),)

_MAX_OPEN = 64
_MAX_MS = 1e12
_RATE_ERROR = 0.01
"""Clients round the rates as they like."""


class Bodies:
    """Answers, each told once; of a stream, the timings so far until its end comes.

    Args:
        process: takes the requests, and counts the streams that never ended.

    Attributes:
        pretty: those printed over many lines.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._open: dict[str, At] = {}
        self._told: dict[str, None] = {}
        self._ollamas = OllamaAnswers(process.emit)
        self.pretty = PrettyTimings(self._take)

    def take(self, m: re.Match[bytes], at: At) -> bool:
        """One body or chunk; false where its timings are another program's."""
        self.pretty.flush()
        body = json_object(m["body"])
        timings = body.get("timings") if body else None
        if (
            body is None
            or says_ollama(body)
            or not isinstance(timings, dict)
            or not {"prompt_ms", "predicted_ms"} <= timings.keys()
        ):
            return False
        self._take(body, at, at)
        return True

    def _take(self, body: dict[str, Any], first: At, last: At) -> None:
        if counts_whole_prompt(body):
            self._ollamas.take(body, first, last)
            return
        row = request_of(body, first, last)
        if row is None or row.request_id in self._told:
            return
        self._process.counts.impossible_values += _take_back(row, body["timings"])
        over = row.finish_reason is not None or body.get("stop", "choices" not in body) is True
        if row.request_id is None:
            if over:
                self._process.emit(row)
            return
        first = self._open.pop(row.request_id, first)
        row.first_line, row.offset = first.number, first.offset
        if over:
            _remember(self._told, row.request_id, None)
            self._process.emit(row)
        elif _remember(self._open, row.request_id, first):
            self._process.counts.incomplete_requests += 1

    def close(self) -> None:
        """No more will come."""
        self.pretty.flush()
        self._process.counts.incomplete_requests += len(self._open)
        self._open.clear()


def _take_back(row: Request, timings: dict[str, Any]) -> int:
    """Make a phase unknown whose rate contradicts its time and count; how many those were."""
    was_ms = row.prefill_ms, row.decode_ms
    if not _fits(timings, "prompt", row.prefill_tokens, row.prefill_ms, 0):
        row.prefill_ms = row.prefill_tokens = row.prompt_tokens = row.cached_tokens = None
        row.ttft_ms = row.ttft_from = None
    if not _fits(timings, "predicted", row.output_tokens, row.decode_ms, 1):
        row.decode_ms = row.output_tokens = row.decode_steps = None
    false = sum(ms is not None for ms in was_ms) - sum(
        ms is not None for ms in (row.prefill_ms, row.decode_ms)
    )
    if false:
        row.total_ms = row.started_at = None
    return false


def _fits(timings: dict[str, Any], phase: str, tokens: int | None, ms: float | None, first: int) -> bool:
    """Builds since b10406 rate a decode without its `first` token."""
    rate = _ms(timings, f"{phase}_per_second")
    if not rate or not ms or tokens is None:
        return True
    return any(
        abs(1000 * count - rate * ms) <= _RATE_ERROR * rate * ms + 1 for count in {tokens, tokens - first}
    )


def _remember(known: dict[str, _Known], key: str, value: _Known) -> bool:
    """Keep one more; true where the oldest had to go."""
    known[key] = value
    full = len(known) > _MAX_OPEN
    if full:
        known.pop(next(iter(known)))
    return full


def request_of(body: dict[str, Any], first: At, last: At) -> Request | None:
    """The request that a body tells of; ``None`` where its timings are not whole."""
    timings = body.get("timings")
    if not isinstance(timings, dict):
        return None
    prefill_tokens, output_tokens = count(timings, "prompt_n"), count(timings, "predicted_n")
    prefill_ms, decode_ms = _ms(timings, "prompt_ms"), _ms(timings, "predicted_ms")
    if prefill_tokens is None or output_tokens is None or prefill_ms is None or decode_ms is None:
        return None
    prompt, cached = _prompt(body, count(timings, "cache_n"), prefill_tokens)
    total_ms = round(prefill_ms + decode_ms, 3)
    finished_at = _created(body)
    return Request(
        line=last.number,
        engine="llama-server",
        request_id=text(body, "id"),
        slot=count(body, "id_slot"),
        model=text(body, "model"),
        started_at=finished_at and finished_at - timedelta(milliseconds=total_ms),
        finished_at=finished_at,
        prompt_tokens=prompt,
        cached_tokens=cached,
        prefill_tokens=prefill_tokens,
        prefill_ms=prefill_ms,
        output_tokens=output_tokens,
        decode_ms=decode_ms,
        decode_steps=max(output_tokens - 1, 0),
        ttft_ms=prefill_ms,
        ttft_from="slot",
        total_ms=total_ms,
        draft_tokens=count(timings, "draft_n"),
        accepted_tokens=count(timings, "draft_n_accepted"),
        context_tokens=count(body, "tokens_cached"),
        truncated=body["truncated"] if isinstance(body.get("truncated"), bool) else None,
        finish_reason=_finish_reason(body),
        first_line=first.number,
        offset=first.offset,
    )


def _prompt(body: dict[str, Any], cached: int | None, evaluated: int) -> tuple[int | None, int | None]:
    """Tokens of the whole prompt and of its cached part; before b6399 only the whole one is said."""
    if cached is not None:
        return cached + evaluated, cached
    usage = body.get("usage")
    prompt = count(usage, "prompt_tokens") if isinstance(usage, dict) else count(body, "tokens_evaluated")
    return (None, None) if prompt is None or prompt < evaluated else (prompt, prompt - evaluated)


def _finish_reason(body: dict[str, Any]) -> str | None:
    choices = body.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return text(choices[0], "finish_reason")
    if (stop_type := text(body, "stop_type")) is not None:
        return _STOP_TYPES.get(stop_type)
    return next((reason for said, reason in _STOPPED.items() if body.get(said) is True), None)


_STOP_TYPES = {"eos": "stop", "word": "stop", "limit": "length"}
_STOPPED = {"stopped_limit": "length", "stopped_eos": "stop", "stopped_word": "stop"}
"""What `/completion` calls the ends of an answer, and what it called them before."""


def _created(body: dict[str, Any]) -> datetime | None:
    """`created` is set when the answer is put together, so at its end; whole seconds."""
    seconds = count(body, "created")
    return at_epoch(seconds) if seconds else None


def _ms(values: dict[str, Any], key: str) -> float | None:
    value = values.get(key)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= _MAX_MS else None
