"""What Ollama's clients print: the API's last answer, and the text of ``ollama run --verbose``.

Both carry the same numbers. `prompt_eval_count` counts the whole prompt since 0.4, what came from the
cache included, while `prompt_eval_duration` covers only what ran; before 0.4 it counts only that. A body
doesn't say which version made it, so alone it gives the prompt's length and no count to divide by. Since
0.33.3 (ollama#17943) `prompt_eval_cached_count` says how much came from the cache, and the rest is what
ran: llama-server's `cache_n`, what MLX restored, or what a cloud model told. JSON has it as 0 too, and
leaves it out where the engine didn't say; the text leaves out a 0. The text's prompt rate is of what ran.
MLX leaves the prompt's last token to the decode, which a body can't tell.

`eval_duration` begins with the first token in every version, so it pays for one token less than
`eval_count`. `load_duration` is the wait until the scheduler hands over a model; a wait for a parallel
slot comes later and is only in `total_duration`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from parsers.cut import json_object
from parsers.formats.base import line, number
from parsers.formats.json_values import count, text
from parsers.formats.ollama.durations import go_duration_ms, nanoseconds_ms, plausible
from parsers.formats.rates import agree
from parsers.records import Request
from parsers.times import parse_iso

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from parsers.formats.base import At

_JSON_FIELD = (
    rb' +"(?P<key>(?:total|load|prompt_eval|eval)_duration|eval_count|prompt_eval(?:_cached)?_count)": ?'
    rb"(?P<value>\d{1,19}),?$"
)
_JSON_WORD = rb' +"(?P<key>created_at|done_reason)": ?"(?P<value>[^"\\]+)",?$'
_TEXT_FIELD = (
    rb" *(?P<key>(?:total|load|(?:prompt )?eval) duration|(?:prompt )?eval (?:count|rate)"
    rb"|prompt eval cached): +(?P<value>\S{1,24})(?: token\(s\)| tokens/s)?\s*$"
)

LINES = (
    line("body", b'_duration":', rb"(?:data: ?)?(?P<body>\{(?s:.*)\})\s*,?$", b'"total_duration":'),
    line("openai", b'"timings":', rb"(?:data: ?)?(?P<body>\{(?s:.*)\})\s*,?$", b'"fp_ollama"'),
    line("field", b'_duration":', _JSON_FIELD),
    line("field", b'eval_count":', _JSON_FIELD),
    line("field", b'eval_cached_count":', _JSON_FIELD),
    line("field", b'"created_at":', _JSON_WORD),
    line("field", b'"done_reason":', _JSON_WORD),
    line("field", b" duration:", _TEXT_FIELD),
    line("field", b"eval count:", _TEXT_FIELD),
    line("field", b"eval cached:", _TEXT_FIELD),
    line("field", b"eval rate:", _TEXT_FIELD),
    line("asked", b">>> ", rb">>> (?!/|Send a message)"),
)

_OPENS = "total_duration"
_WORK = ("eval_count", "eval_duration", "prompt_eval_duration")
_NEXT_LINES = 2
_CACHED = "prompt_eval_cached_count"
_IN_JSON = {"prompt_eval_cached": _CACHED}
"""What the text calls otherwise."""
_SECONDS_STEP, _RATE_STEP = 1e-9, 0.01


class Bodies:
    """Answers on one line, and those whose fields follow each other line by line.

    Args:
        emit: takes the requests.
        impossible: counts a value that contradicts others.
    """

    def __init__(self, emit: Callable[[Request], None], impossible: Callable[[], None]) -> None:
        self._emit = emit
        self._impossible = impossible
        self._before: dict[str, Any] = {}
        self._fields: dict[str, Any] = {}
        self._at: At | None = None
        self._first: At | None = None
        self._told: At | None = None

    def body(self, m: re.Match[bytes], at: At) -> bool:
        """``{"model":"llama3.2:3b","created_at":"...","done":true,"total_duration":...}``."""
        answer = json_object(m["body"])
        if answer is None or (row := request_of(answer, at, at)) is None:
            return False
        if answer.get("done") is not False:
            self._emit(row)
        return True

    def field(self, m: re.Match[bytes], at: At) -> None:
        """One field; ``total_duration`` opens a block, its neighbours follow on the next lines."""
        key, value, in_json = m["key"].decode().replace(" ", "_"), m["value"], m[0].lstrip().startswith(b'"')
        key = _IN_JSON.get(key, key)
        known = _json_value(key, value) if in_json else _text_value(key, value)
        if key in ("created_at", "done_reason"):
            self.flush()
            self._before[key] = known
            return
        if key == _OPENS:
            self.flush()
            self._fields, self._first = {**(self._before if in_json else {}), key: known}, at
            self._before = {}
        elif self._at is None or at.own_number - self._at.own_number > _NEXT_LINES or key in self._fields:
            self.flush()
            return
        else:
            self._fields[key] = known
        self._at = at
        if key == "eval_rate" or (key == "eval_duration" and in_json):
            self.flush()

    def just_told(self, at: At) -> bool:
        """Whether a block has ended just before this line."""
        return self._told is not None and at.own_number - self._told.own_number <= _NEXT_LINES

    def flush(self) -> None:
        """Emit the block that stands open, if it tells of any work: embeddings have a total and no more."""
        fields, first, last = self._fields, self._first, self._at
        self._told = last or self._told
        self._fields, self._first, self._at = {}, None, None
        if first is None or last is None or not any(key in fields for key in _WORK):
            return
        for phase in ("prompt_eval", "eval"):
            if _contradicts(fields, phase):
                self._impossible()
                fields = {key: value for key, value in fields.items() if not key.startswith(phase)}
        if (row := request_of(fields, first, last)) is not None:
            self._emit(row)


def _json_value(key: str, value: bytes) -> Any:
    return value.decode("utf-8", "replace") if key in ("created_at", "done_reason") else int(value)


def _text_value(key: str, value: bytes) -> float | None:
    """A field of the text as the API gives it: durations in nanoseconds; rates it has none."""
    if key.endswith("_rate"):
        return number(value)
    if key.endswith("_duration"):
        duration_ms = go_duration_ms(value)
        return None if duration_ms is None else round(duration_ms * 1e6)
    return int(value) if value.isdigit() else None


def _contradicts(fields: dict[str, Any], phase: str) -> bool:
    """Whether a phase's printed rate can't be of its tokens and its time, whichever of them is wrong."""
    tokens, duration, rate = (fields.get(f"{phase}_{what}") for what in ("count", "duration", "rate"))
    if tokens is None or duration is None or rate is None:
        return False
    ran = tokens - (fields.get(_CACHED) or 0) if phase == "prompt_eval" else tokens
    return not agree(ran, duration / 1e9, rate, _SECONDS_STEP, _RATE_STEP)


def request_of(answer: dict[str, Any], first: At, last: At) -> Request | None:
    """The request an answer tells of; ``None`` without a total."""
    total_ms = nanoseconds_ms(count(answer, "total_duration"))
    if total_ms is None:
        return None
    row = Request(line=last.number, engine="ollama", first_line=first.number, offset=first.offset)
    row.model, row.finish_reason = text(answer, "model"), text(answer, "done_reason")
    row.finished_at = plausible(parse_iso((text(answer, "created_at") or "").encode()))
    row.started_at = row.finished_at and row.finished_at - timedelta(milliseconds=total_ms)
    row.total_ms = total_ms
    row.load_ms = nanoseconds_ms(count(answer, "load_duration"))
    row.prompt_tokens = count(answer, "prompt_eval_count")
    if "embeddings" in answer:
        row.kind = "embedding"
        return row
    row.cached_tokens = count(answer, _CACHED)
    if row.cached_tokens is not None and row.prompt_tokens is not None:
        evaluated = row.prompt_tokens - row.cached_tokens
        row.prefill_tokens = evaluated if evaluated >= 0 else None
    row.prefill_ms = nanoseconds_ms(count(answer, "prompt_eval_duration"))
    row.output_tokens = count(answer, "eval_count")
    row.decode_ms = nanoseconds_ms(count(answer, "eval_duration"))
    if row.output_tokens is not None:
        row.decode_steps = max(row.output_tokens - 1, 0)
    if row.prefill_ms is not None and row.load_ms is not None:
        row.ttft_ms, row.ttft_from = round(row.load_ms + row.prefill_ms, 6), "slot"
    return row
