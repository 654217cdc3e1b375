"""Ollama's answers of the OpenAI API with `timings` as llama-server calls them, which count something else.

Since 0.35.1 the last chunk of a stream that asked for its usage has them. `prompt_n` is the whole prompt and
`prompt_ms` the time of what of it was not cached, so their quotient is no rate. How much was cached stands in
`usage.prompt_tokens_details`, and is left out where the engine didn't say. Times are whole ms, cut off; a 0
is also what was not told. As with llama-server they begin at the slot: loading and waiting are in none of
them. A chat stream's `created` is when its first piece came; elsewhere it is the end. There are 999 ids, so
an answer said twice is one where all of it is the same.

Read in openai/openai.go and middleware/openai.go: ``ToTimings`` (16b4376ae, as a fork has it), ``ToUsage``
(ollama#17943), ids and `created` (fb30760).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parsers.formats.json_records import is_span, moment, part
from parsers.formats.json_values import count, text
from parsers.records import Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from parsers.formats.base import At

ENGINE = "ollama"
_FINGERPRINT = "fp_ollama"
_TIMES = ("prompt_ms", "predicted_ms")
_CREATED_AT_END = ("chat.completion", "text_completion")
_REMEMBERED = 64


def says_ollama(body: dict[str, Any]) -> bool:
    """Whether the answer names Ollama."""
    return body.get("system_fingerprint") == _FINGERPRINT


def counts_whole_prompt(body: dict[str, Any]) -> bool:
    """Whether these are Ollama's timings.

    Where the answer names nobody they have no `cache_n`, and either the usage says that `prompt_n` has the
    cached part in it, or both times are whole numbers, as llama.cpp prints none.
    """
    timings = body.get("timings")
    if not isinstance(timings, dict):
        return False
    if says_ollama(body):
        return True
    usage = part(body, "usage")
    tells_cached = isinstance(usage.get("prompt_tokens_details"), dict)
    whole = tells_cached and usage.get("prompt_tokens") == timings.get("prompt_n")
    return "cache_n" not in timings and (whole or all(isinstance(timings.get(at), int) for at in _TIMES))


def prompt_of(timings: dict[str, Any], usage: dict[str, Any]) -> tuple[int | None, int | None, int | None]:
    """Tokens of the whole prompt, of its cached part, and of what was evaluated."""
    cached = count(part(usage, "prompt_tokens_details"), "cached_tokens")
    alone = None if "cache_n" in timings else count(timings, "prompt_n")
    prompt = count(usage, "prompt_tokens") or alone or None
    evaluated = None if prompt is None or cached is None else prompt - cached
    return prompt, cached, None if evaluated is None or evaluated < 0 else evaluated


class OllamaAnswers:
    """Answers, each told once.

    Args:
        emit: takes the requests.
    """

    def __init__(self, emit: Callable[[Request], None]) -> None:
        self._emit = emit
        self._told: dict[str, None] = {}

    def take(self, body: dict[str, Any], first: At, last: At) -> bool:
        """One answer or the end of one; false where it has no such timings."""
        timings = body.get("timings")
        if not isinstance(timings, dict) or not {*_TIMES} <= timings.keys():
            return False
        said = repr((body.get("id"), body.get("created"), timings))
        if _goes_on(body) or (body.get("id") and said in self._told):
            return True
        self._told[said] = None
        if len(self._told) > _REMEMBERED:
            self._told.pop(next(iter(self._told)))
        self._emit(_row(body, timings, first, last))
        return True


def _goes_on(body: dict[str, Any]) -> bool:
    choices = body.get("choices")
    return bool(isinstance(choices, list) and choices) and _finish_reason(body) is None


def _row(body: dict[str, Any], timings: dict[str, Any], first: At, last: At) -> Request:
    prompt, cached, evaluated = prompt_of(timings, part(body, "usage"))
    output = count(timings, "predicted_n") or None
    prefill_ms, decode_ms = (_told_ms(timings, name) for name in _TIMES)
    ttft_ms = prefill_ms if is_span(prefill_ms) else None
    total_ms = ttft_ms + decode_ms if ttft_ms and decode_ms and is_span(decode_ms) else None
    return Request(
        line=last.number,
        engine=ENGINE,
        request_id=text(body, "id"),
        model=text(body, "model"),
        finished_at=moment(body.get("created")) if body.get("object") in _CREATED_AT_END else None,
        prompt_tokens=prompt,
        cached_tokens=cached,
        prefill_tokens=evaluated,
        prefill_ms=prefill_ms,
        output_tokens=output,
        decode_ms=decode_ms,
        decode_steps=output - 1 if output else None,
        ttft_ms=ttft_ms,
        ttft_from="slot" if ttft_ms else None,
        total_ms=total_ms,
        finish_reason=_finish_reason(body),
        first_line=first.number,
        offset=first.offset,
    )


def _told_ms(timings: dict[str, Any], key: str) -> float | None:
    value = timings.get(key)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and value else None


def _finish_reason(body: dict[str, Any]) -> str | None:
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return text(first, "finish_reason") if isinstance(first, dict) else None
