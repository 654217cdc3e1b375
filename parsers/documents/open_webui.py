"""Open WebUI: exported chats (`chat-export-*.json`), whose answers keep what the engine said, and its API.

An answer has it as `usage`, until 0.4 as `info`: Ollama's numbers in nanoseconds, or llama.cpp's `timings`
among the tokens of the OpenAI API. Other engines tell no times there. What is missing is written as 0. Of an
answer with tool calls they are those of the last call; a regenerated answer is another one. Only `history` is
read: `messages` repeats a branch of it. Questions and answers are not looked at. Its own API answers with the
same `usage` of Ollama.

As in Ollama's own answers, `prompt_eval_count` may or may not include what was cached, so nothing is divided
by it unless `prompt_eval_cached_count` says how much that was; Open WebUI's own list of numbers lacks it so
far (04a8a879). The `timings` may be Ollama's too, whose `prompt_n` is the whole prompt. After tool calls
`prompt_tokens_details` are sums over all calls, which the other numbers aren't.

Read in open-webui: backend/open_webui/utils/response.py and middleware.py (04a8a879), and the web client's
``responseMessage.info``.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from parsers.documents.base import Document, has, items, member, number, text, utc, whole
from parsers.formats.base import At, Format, Reader, line
from parsers.formats.json_records import BODY, is_span, records, remember
from parsers.formats.ollama_timings import ENGINE as OLLAMA
from parsers.formats.ollama_timings import counts_whole_prompt, prompt_of
from parsers.records import Request

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from parsers.formats.process import Counts, Process

ENGINE = "open-webui"
_NS = 1e-6


def _detect(head: bytes) -> bool:
    return has(head, "chat", "history", "messages", "childrenIds")


def _rows(record: Any, counts: Counts) -> Iterator[Request]:
    chat = member(record, "chat") or record
    messages = member(chat, "history", "messages")
    told = list(messages.values()) if isinstance(messages, dict) else items(chat, "messages")
    for message in told:
        if text(message, "role") == "assistant":
            usage = member(message, "usage") or member(message, "info")
            row = _of_ollama(usage, counts) or _of_timings(usage, counts)
            if row is not None:
                row.request_id, row.model = text(message, "id"), text(message, "model")
                row.started_at = utc(number(message, "timestamp"))
                if row.started_at and row.total_ms is not None and number(usage, "total_duration"):
                    row.finished_at = row.started_at + timedelta(milliseconds=row.total_ms)
                yield row


def _of_ollama(usage: Any, counts: Counts) -> Request | None:
    """Ollama's six numbers; ``None`` where they are not there."""
    if not number(usage, "total_duration"):
        return None
    row = Request(engine=OLLAMA, prompt_tokens=whole(usage, "prompt_eval_count") or None)
    row.cached_tokens = _cached(usage)
    if row.cached_tokens is not None and row.prompt_tokens is not None:
        evaluated = row.prompt_tokens - row.cached_tokens
        row.prefill_tokens = evaluated if evaluated >= 0 else None
    row.total_ms, row.load_ms = _time(usage, "total_duration", counts), _time(usage, "load_duration", counts)
    row.prefill_ms = _time(usage, "prompt_eval_duration", counts)
    row.decode_ms = _time(usage, "eval_duration", counts)
    row.output_tokens = whole(usage, "eval_count") or None
    if row.output_tokens is not None:
        row.decode_steps = row.output_tokens - 1
    if row.prefill_ms is not None:
        row.ttft_ms, row.ttft_from = round((row.load_ms or 0.0) + row.prefill_ms, 6), "slot"
    return row


def _cached(usage: Any) -> int | None:
    """How much of the prompt was cached; a 0 among Open WebUI's own numbers may stand for what is missing."""
    cached = whole(usage, "prompt_eval_cached_count")
    return cached or (None if "approximate_total" in usage else cached)


def _of_timings(usage: Any, counts: Counts) -> Request | None:
    """The `timings` of llama-server, or of Ollama; ``None`` where they are not whole."""
    numbers = [number(usage, name) for name in ("prompt_n", "prompt_ms", "predicted_n", "predicted_ms")]
    if None in numbers:
        return None
    row = Request(engine="llama-server", prefill_tokens=whole(usage, "prompt_n"))
    row.prefill_ms, row.decode_ms = numbers[1], numbers[3]
    row.cached_tokens = whole(usage, "cache_n")
    if row.cached_tokens is not None and row.prefill_tokens is not None:
        row.prompt_tokens = row.cached_tokens + row.prefill_tokens
    if counts_whole_prompt({"timings": usage, "usage": usage}):
        row.engine, row.prefill_ms, row.decode_ms = OLLAMA, row.prefill_ms or None, row.decode_ms or None
        row.prompt_tokens, row.cached_tokens, row.prefill_tokens = prompt_of(usage, _of_one_call(usage))
    row.output_tokens = whole(usage, "predicted_n")
    if row.output_tokens is not None:
        row.decode_steps = max(row.output_tokens - 1, 0)
    row.draft_tokens, row.accepted_tokens = whole(usage, "draft_n"), whole(usage, "draft_n_accepted")
    for name in ("prefill_ms", "decode_ms"):
        if (ms := getattr(row, name)) is not None and not is_span(ms):
            setattr(row, name, None)
            counts.impossible_values += 1
    row.ttft_ms, row.ttft_from = row.prefill_ms, None if row.prefill_ms is None else "slot"
    if row.prefill_ms is not None and row.decode_ms is not None:
        row.total_ms = round(row.prefill_ms + row.decode_ms, 3)
    return row


def _of_one_call(usage: dict[str, Any]) -> dict[str, Any]:
    """The usage, without the details that are sums over several calls."""
    summed = usage.get("input_tokens") != usage.get("prompt_tokens")
    return {**usage, "prompt_tokens_details": None} if summed and "input_tokens" in usage else usage


def _time(usage: Any, name: str, counts: Counts) -> float | None:
    """Nanoseconds in ms; 0 stands for what was not told."""
    ns = number(usage, name)
    if ns is None or not ns:
        return None
    if not is_span(ns * _NS):
        counts.impossible_values += 1
        return None
    return round(ns * _NS, 6)


class AnswerReader(Reader):
    """Answers of its API, each told once."""

    engine = ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._told: dict[str, None] = {}

    def answer(self, m: re.Match[bytes], at: At) -> bool:
        """``{"id":"qwen3:8b-...","created":...,"usage":{"response_token/s":...,"total_duration":...}}``."""
        found = False
        for body in records(m["body"]):
            row = _of_ollama(member(body, "usage"), self.process.counts)
            found |= row is not None
            name = text(body, "id")
            if row is None or name in self._told:
                continue
            if name is not None:
                remember(self._told, name, None)
            row.line = row.first_line = at.number
            row.offset, row.model, row.finished_at = (
                at.offset,
                text(body, "model"),
                utc(number(body, "created")),
            )
            self.process.emit(row)
        return found


FORMAT = Format(
    engine=ENGINE,
    title="Open WebUI (exported chats, answers of its API)",
    versions="0.1 and newer; answers of Ollama and llama-server",
    grain="request",
    identify=(b'"response_token/s":',),
    lines=(line("answer", b'"response_token/s":', BODY, b'"usage":'),),
    reader=AnswerReader,
    splits="load, prefill, decode",
    documents=(Document(name="chat export of Open WebUI", detect=_detect, rows=_rows),),
)
