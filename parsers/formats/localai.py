"""LocalAI: the two times in its answers' usage, which it adds where the client sends `Extra-Usage`.

They are the backend's own, in ms; the prompt's count is that of the whole prompt, and how much of it a cache
had is not said. In its log stand the lines of the engines that it runs: those are read as theirs, whichever
of its log's layouts is around them.

Read in LocalAI of 2026-08-22 (82c191a).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parsers.cut import json_object
from parsers.formats.base import Format, Reader, line
from parsers.formats.clocks import at_epoch
from parsers.formats.json_values import count, text
from parsers.records import Request

if TYPE_CHECKING:
    import re
    from datetime import datetime

    from parsers.formats.base import At

_ENGINE = "localai"
_MOST_MS = 1e12
_PHASES = ("prompt_processing", "token_generation")

_LOGGED = rb"[\d:]{4,5}[AP]M (?:DBG|INF|WRN|ERR|TRC) "

LINES = (
    line("body", b'"timing_token_generation":', rb"(?:data: ?)?(?P<body>\{(?s:.*)\})\s*,?$"),
    line(
        "texted", b" DBG ", _LOGGED + rb"(?:Prompt \(after templating\)|Template found, input modified to): "
    ),
    *(line("logged", needle, _LOGGED) for needle in (b"M DBG ", b"M INF ")),
)


class UsageReader(Reader):
    """Each answer is a row; of a stream the last chunk that has both times."""

    engine = _ENGINE

    def body(self, m: re.Match[bytes], at: At) -> bool:
        """``{"id":"...","usage":{"prompt_tokens":30,"timing_prompt_processing":120.5,...}}``."""
        answer = json_object(m["body"])
        usage = answer.get("usage") if answer else None
        if answer is None or not isinstance(usage, dict):
            return False
        prefill_ms, decode_ms = (_ms(usage, f"timing_{phase}") for phase in _PHASES)
        output = count(usage, "completion_tokens")
        if prefill_ms is None or decode_ms is None or output is None:
            return False
        if _goes_on(answer):
            return True
        if prefill_ms < 0 or decode_ms < 0:
            self.process.counts.impossible_values += 1
            return True
        row = Request(line=at.number, engine=_ENGINE, first_line=at.number, offset=at.offset)
        row.request_id, row.model = text(answer, "id"), text(answer, "model")
        row.started_at = _moment(answer)
        row.prompt_tokens, row.output_tokens = count(usage, "prompt_tokens"), output
        row.prefill_ms, row.ttft_ms, row.ttft_from = prefill_ms, prefill_ms, "slot"
        row.decode_ms, row.decode_steps = decode_ms, max(output - 1, 0)
        row.total_ms = round(prefill_ms + decode_ms, 3)
        self.process.emit(row)
        return True

    def texted(self, m: re.Match[bytes], at: At) -> None:
        """``2:41PM DBG Prompt (after templating): ...``: the prompt, many lines."""
        self.process.quote(at, _ENGINE, inside=False)

    def logged(self, m: re.Match[bytes], at: At) -> bool:
        """``2:41PM DBG ...``: whatever it says, no text goes on."""
        self.process.unquote()
        return False


def _goes_on(answer: dict[str, Any]) -> bool:
    """A chunk of a stream whose end is still to come repeats the times so far."""
    choices = answer.get("choices")
    if answer.get("object") != "chat.completion.chunk" or not isinstance(choices, list):
        return False
    return any(isinstance(choice, dict) and not choice.get("finish_reason") for choice in choices)


def _moment(answer: dict[str, Any]) -> datetime | None:
    """`created` is set when the request is taken in; whole seconds."""
    seconds = count(answer, "created")
    return at_epoch(seconds) if seconds else None


def _ms(values: dict[str, Any], key: str) -> float | None:
    value = values.get(key)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if abs(value) <= _MOST_MS else None


FORMAT = Format(
    engine=_ENGINE,
    title="LocalAI (answers with Extra-Usage)",
    versions="2025 and newer; its log is read as that of the engines inside",
    grain="request",
    identify=(
        b'"timing_token_generation":',
        b" DBG Prompt (after templating): ",
        b" DBG Template found, input modified to: ",
    ),
    lines=LINES,
    reader=UsageReader,
    splits="prefill, decode",
)
