"""What LM Studio's statistics say of a request.

All of them give the time to first token and the tokens; not all give the same times beside them. The SDK's
(`lms log stream`) give the total: the rest of it is the answer's time, and the rate is that of the tokens
after the first. Beside llama-server's lines of the same request theirs is its prompt eval time, so its clock
starts at the slot. REST v0 gives `generation_time`, and a rate over all tokens or over those after the first:
where it is neither, the time means something else and is left out. REST v1 and `lms chat --stats` give the
rate alone. Where the clock of their time to first token starts is not documented; but v1's is shorter than
the load that came before it, so the total is the load and both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parsers.cut import json_object
from parsers.formats.base import line, number
from parsers.formats.clocks import at_epoch
from parsers.formats.json_values import count, text
from parsers.formats.lmstudio.fields import FIELD_OF
from parsers.formats.rates import agree, time_ms

if TYPE_CHECKING:
    from datetime import datetime

    from parsers.formats.process import Counts
    from parsers.records import Request

ENGINE = "lmstudio"
_BODY = rb"(?:data: ?)?(?P<body>\{(?s:.*)\})\s*,?$"
LINES = (
    line("body", b'"time_to_first_token', _BODY),
    line("body", b'"llm.prediction.output"', _BODY),
)

FAILED = ("failed", "modelUnloaded")
_REASONS = {
    "eosFound": "stop",
    "stopStringFound": "stop",
    "toolCalls": "stop",
    "maxPredictedTokensReached": "length",
    "contextLengthReached": "length",
    "userStopped": "abort",
}
_TIME_STEP_S, _LARGEST_STEP = 0.001, 0.01
_EXACT_DIGITS = 4


def fields_of_body(body: bytes) -> tuple[dict[str, str], str | None, datetime | None] | None:
    """The fields of an answer, its model, and when it was asked for; ``None`` for what is none."""
    answer = json_object(body)
    if answer is None:
        return None
    for inner in ("result", "data"):
        answer = answer[inner] if isinstance(answer.get(inner), dict) else answer
    stats, usage = answer.get("stats"), answer.get("usage")
    if not isinstance(stats, dict):
        return None
    known = {**(usage if isinstance(usage, dict) else {}), **stats}
    fields = {FIELD_OF[key]: str(value) for key, value in known.items() if key in FIELD_OF and _plain(value)}
    model = next(
        (name for key in ("model", "model_instance_id", "modelIdentifier") if (name := text(answer, key))),
        None,
    )
    return fields, model, _moment(answer)


def _plain(value: Any) -> bool:
    return isinstance(value, (int, float, str)) and not isinstance(value, bool)


def _moment(answer: dict[str, Any]) -> datetime | None:
    """`created` is when the request came in, in whole seconds."""
    seconds = count(answer, "created")
    return at_epoch(seconds) if seconds else None


def fill(row: Request, fields: dict[str, str], counts: Counts) -> bool:
    """Put the statistics into a row; false where they tell of no time."""
    ttft_s, rate = _number(fields, "ttft_s"), _number(fields, "rate")
    output, prompt = _count(fields, "output"), _count(fields, "prompt")
    if output is None or (ttft_s is None and rate is None):
        return False
    row.output_tokens = output
    row.prompt_tokens = prompt if prompt is not None else row.prompt_tokens
    row.ttft_ms = _ms(ttft_s)
    row.load_ms = _ms(_number(fields, "load_s"))
    row.finish_reason = _REASONS.get(fields.get("reason", ""), row.finish_reason)
    row.draft_tokens, row.accepted_tokens = _count(fields, "drafted"), _count(fields, "accepted")
    if output:
        row.decode_ms, row.decode_steps = _decode(fields, output, rate, counts)
    row.total_ms = _ms(_number(fields, "total_s"))
    row.ttft_from = "slot" if row.total_ms is not None and row.ttft_ms is not None else None
    if row.total_ms is None and row.ttft_ms is not None and row.decode_ms is not None:
        row.total_ms = round((row.load_ms or 0.0) + row.ttft_ms + row.decode_ms, 3)
    return True


def _decode(
    fields: dict[str, str], output: int, rate: float | None, counts: Counts
) -> tuple[float | None, int | None]:
    """The answer's time, and the tokens that it pays for."""
    total_s, ttft_s = _number(fields, "total_s"), _number(fields, "ttft_s")
    if total_s is not None and ttft_s is not None:
        if total_s < ttft_s:
            counts.impossible_values += 1
            return None, None
        return _ms(total_s - ttft_s), output - 1
    if (decode_s := _number(fields, "decode_s")) is not None:
        for steps in (output, output - 1):
            if rate is not None and agree(steps, decode_s, rate, _TIME_STEP_S, 0.0):
                return _ms(decode_s), steps
        counts.impossible_values += rate is not None
        return None, None
    return time_ms(output - 1, rate, _step(fields.get("rate", ""))), output - 1


def _step(printed: str) -> float:
    """What the last digit of a printed rate is worth; all digits of a float are none."""
    decimals = len(printed.partition(".")[2])
    return _LARGEST_STEP if decimals < _EXACT_DIGITS else 0.0


def _number(fields: dict[str, str], name: str) -> float | None:
    value = number(fields[name].removesuffix("s").encode()) if name in fields else None
    return value if value is not None and value >= 0 else None


def _count(fields: dict[str, str], name: str) -> int | None:
    value = fields.get(name, "")
    return int(value) if value.isdecimal() and value.isascii() else None


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 3) or None
