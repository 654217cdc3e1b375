"""Text Generation Inference: one ``Success`` line for each request, as text or as JSON.

The router times validation, queue and inference, and divides inference by the generated tokens. Prefill is
part of that quotient, so the phases can't be told apart: queue and total are given, prefill and decode not.

The number of generated tokens isn't logged, but only one gives the printed ``time_per_token``: both durations
are whole nanoseconds, printed in full, and the division rounds down.

Read in router/src/server.rs and logging.rs of v0.8.0 to v3.3.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from parsers.formats.base import At, Format, Reader, line
from parsers.formats.ollama.durations import go_duration_ms
from parsers.records import Request
from parsers.times import parse_iso

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

    from parsers.formats.process import Process

_ENGINE = "tgi"
_TIMES = ("total_time", "validation_time", "queue_time", "inference_time", "time_per_token")
_HEAD = rb"(?:(?P<clock>\d{4}-\d\d-\d\dT[\d:.]+Z) )? *INFO "
_VALUES = b" ".join(b'%b="(?P<%b>[^"\\\\]+)"' % (key, key) for key in map(str.encode, _TIMES))
_DUMP = (
    rb"(?:\d{4}-\d\d-\d\dT[\d:.]+Z )? *DEBUG \S.*?[ :]text_generation_router(?:::\w{1,40}){0,3}"
    rb"(?:: router/src/[\w/]{1,40}\.rs:\d+)?"
)

LINES = (
    line(
        "success",
        b'time_per_token="',
        _HEAD + rb"\S.*[{ ]" + _VALUES + rb' seed="[^"\\]*"\}: text_generation_router\S*: '
        rb"(?:router/src/\S+\.rs:\d+: )?Success\s*$",
    ),
    line(
        "success_json",
        b'"message":"Success"',
        rb'(?P<json>\{"timestamp":"(?P<clock>[^"]+)","level":"INFO","message":"Success",.*\})\s*$',
        b'"time_per_token":',
    ),
    line(
        "arguments",
        b"text_generation_launcher: Args ",
        _HEAD + rb'text_generation_launcher: Args \{(?: model_id: "(?P<model>[^"\\]+)",)?',
    ),
    line("model", b' model_id: "', rb' +model_id: "(?P<model>[^"\\]+)",'),
    *(line("dump", name, _DUMP + name) for name in (b": Input: ", b": Output: ")),
)
"""Strings in a span, such as a client's stop words, are escaped: no quote of theirs follows ``=``. With
``LOG_LEVEL=debug`` prompts and answers are printed as they are, line after line."""


class TgiReader(Reader):
    """One line is a request."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._arguments: At | None = None

    def success(self, m: re.Match[bytes], at: At) -> None:
        """``... generate{parameters=... total_time="4.06s" ... seed="None"}: ...: Success``."""
        self.process.unquote()
        self._emit({key: m[key].decode("utf-8", "replace") for key in _TIMES}, m["clock"], at)

    def success_json(self, m: re.Match[bytes], at: At) -> None:
        """``{"timestamp":"...","level":"INFO","message":"Success",...,"span":{...}}``."""
        try:
            span = json.loads(m["json"])["span"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        if isinstance(span, dict) and all(key in span for key in _TIMES):
            self._emit(span, m["clock"], at)

    def dump(self, _m: re.Match[bytes], at: At) -> None:
        """``... DEBUG generate{...}: text_generation_router::server: ...: Input: why is``: a text begins."""
        self.process.quote(at, _ENGINE)

    def arguments(self, m: re.Match[bytes], at: At) -> None:
        """The launcher starts; its arguments stand on this line or, one each, on the next."""
        self.process.start(at)
        self._arguments = at
        if m["model"]:
            self.model(m, at)

    def model(self, m: re.Match[bytes], at: At) -> None:
        """``    model_id: "acme/Dense-8B",``, the first of the arguments."""
        if self._arguments is not None and at.own_number - self._arguments.own_number <= 1:
            self.process.learn(at, engine=_ENGINE, model=m["model"].decode("utf-8", "replace"))

    def _emit(self, span: Mapping[str, Any], clock: bytes | None, at: At) -> None:
        total, _, queue, inference, per_token = (_duration_ms(span[key]) for key in _TIMES)
        row = Request(line=at.number, engine=_ENGINE, first_line=at.number, offset=at.offset)
        row.finished_at = parse_iso(clock) or at.time
        row.queue_ms, row.total_ms = queue, total
        row.output_tokens = _generated(inference, per_token)
        if row.finished_at is not None and total is not None:
            row.started_at = row.finished_at - timedelta(milliseconds=total)
        self.process.emit(row)


def _duration_ms(printed: object) -> float | None:
    """A Rust duration, which looks like a Go one with a single part: ``4.0655s``, ``89µs``."""
    return go_duration_ms(printed.encode()) if isinstance(printed, str) else None


def _generated(inference_ms: float | None, per_token_ms: float | None) -> int | None:
    """The only number of tokens by which inference gives the time per token; ``None`` without just one."""
    if not inference_ms or not per_token_ms:
        return None
    inference_ns, per_token_ns = round(inference_ms * 1e6), round(per_token_ms * 1e6)
    most, fewest = inference_ns // per_token_ns, inference_ns // (per_token_ns + 1) + 1
    return most if most == fewest else None


FORMAT = Format(
    engine=_ENGINE,
    title="Text Generation Inference",
    versions="0.8 and newer",
    grain="request",
    identify=(b'time_per_token="', b'"time_per_token":"', b"text_generation_launcher: Args"),
    lines=LINES,
    reader=TgiReader,
    splits="queue; prefill and decode together",
)
