"""What scripts print of ``LLM.generate``: the metrics of a `RequestOutput`, or those alone.

V0's `RequestMetrics` has times of day: prefill goes from the first scheduling to the first token, decode from
there to the end (``last_token_time`` was that of the arrival until vllm#11376). V1's `RequestStateStats` has
the arrival as a time of day and everything else on the engine's own clock: only those are subtracted from
each other, and the time to first token is the front end's own. A time of 0 or ``None`` was not reached.

A `RequestOutput` that is not finished is one of a stream, which is printed again. Prompts and answers are
Python strings: they are taken out before anything is looked for, and a line whose quotes do not match is left
alone. vllm#4968 and vllm-ascend#5027 show both kinds.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from parsers.formats.base import line, number
from parsers.formats.json_records import is_span, moment, remember
from parsers.formats.vllm.record import WRAPPED
from parsers.records import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers.formats.base import At
    from parsers.formats.process import Process

_ANY = rb"(?!" + WRAPPED + rb"|\{)(?P<text>[^\n]*)$"
PRINTED = (
    line("printed", b"RequestMetrics(arrival_time=", _ANY),
    line("printed", b"RequestStateStats(num_generation_tokens=", _ANY),
)

_STRING = re.compile(rb"(?:'(?:[^'\\]+|\\.)*+(?P<end>')?|\"(?:[^\"\\]+|\\.)*+(?P<close>\")?)")
"""Also one that does not end: it is met once, and not again from each quote in it."""
_METRICS = re.compile(rb"(?P<kind>RequestMetrics|RequestStateStats)\((?P<fields>[^()]*)\)")
_OUTPUT = re.compile(rb"RequestOutput\(request_id=")
_FIELD = re.compile(rb"\b(\w+)=(-?[\d.]+(?:e[+-]?\d+)?)(?=[,)]|$)")
_ID = re.compile(rb"request_id=(?P<id>\w+|'[\w.:-]{1,100}'|\"[\w.:-]{1,100}\")")
_PROMPT_IDS = re.compile(rb"prompt_token_ids=\[([\d, ]*)\]")
_OUTPUT_IDS = re.compile(rb"[, ]token_ids=[\[(]([\d, ]*)[\])]")
_REASON = re.compile(rb"finish_reason=(\w+)")
_CACHED = re.compile(rb"num_cached_tokens=(\d{1,12})")


class Printed:
    """Requests as scripts print them, each told once, in its last state.

    Args:
        process: takes the requests.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._told: dict[str, None] = {}
        self._row: Request | None = None
        self._key = ""

    def take(self, m: re.Match[bytes], at: At) -> None:
        """A line with one or more reprs."""
        masked = _STRING.sub(_short, m["text"])
        if re.search(rb"['\"]", re.sub(rb"'[\w.:-]*'|\"[\w.:-]*\"", b"", masked)):
            return
        for metrics, output in _found(masked):
            fields = {name.decode(): number(value) for name, value in _FIELD.findall(metrics["fields"])}
            key = f"{fields.get('arrival_time')}"
            if output is not None and b"finished=True" not in output:
                continue
            row = Request(line=at.number, engine="vllm", first_line=at.number, offset=at.offset)
            timed = _v0 if metrics["kind"] == b"RequestMetrics" else _v1
            if key in self._told:
                continue
            if not timed(row, fields):
                self._process.counts.incomplete_requests += 1
                continue
            if output is not None:
                _describe(row, output)
            self._hold(key, row)

    def _hold(self, key: str, row: Request) -> None:
        """Keep the row until another request's comes: the next line may print the same one again."""
        if key == self._key and self._row is not None:
            row.request_id = row.request_id or self._row.request_id
            row.prompt_tokens = row.prompt_tokens or self._row.prompt_tokens
            row.cached_tokens = self._row.cached_tokens if row.cached_tokens is None else row.cached_tokens
            row.finish_reason = row.finish_reason or self._row.finish_reason
            row.first_line, row.offset = self._row.first_line, self._row.offset
            row.output_tokens = row.output_tokens or self._row.output_tokens
        else:
            self.flush()
        _complete(row)
        self._key, self._row = key, row

    def flush(self) -> None:
        """Emit the row that is kept."""
        row, self._row = self._row, None
        if row is not None:
            remember(self._told, self._key, None)
            self._process.emit(row)


def _short(found: re.Match[bytes]) -> bytes:
    """A string's place: ids keep their text, all else loses it; one that does not end leaves a quote."""
    if not (found["end"] or found["close"]):
        return b"'"
    return found[0] if re.fullmatch(rb"['\"][\w.:-]{1,100}['\"]", found[0]) else b"''"


def _found(masked: bytes) -> Iterator[tuple[re.Match[bytes], bytes | None]]:
    """The metrics in a line, each with the `RequestOutput` around it, if there is one."""
    last = 0
    for metrics in _METRICS.finditer(masked):
        before = masked[last : metrics.start()]
        starts = [found.start() for found in _OUTPUT.finditer(before)]
        end = masked.find(b"RequestOutput(", metrics.end())
        rest = masked[metrics.end() : end if end >= 0 else len(masked)]
        yield metrics, before[starts[-1] :] + rest if starts else None
        last = metrics.end()


def _v0(row: Request, fields: dict[str, float | None]) -> bool:
    """Times of day, in seconds."""
    arrival, scheduled, first, end = (
        fields.get(name)
        for name in ("arrival_time", "first_scheduled_time", "first_token_time", "finished_time")
    )
    if not arrival or not scheduled or not first or not end:
        return False
    last = fields.get("last_token_time") or end
    queue_s = fields.get("time_in_queue")
    row.queue_ms = _ms(queue_s if queue_s is not None else scheduled - arrival)
    row.prefill_ms, row.ttft_ms = _ms(first - scheduled), _ms(first - arrival)
    row.decode_ms = _ms((last if last > first else end) - first)
    row.total_ms = _ms(end - arrival)
    row.ttft_from = "arrival"
    row.started_at, row.finished_at = moment(arrival), moment(end)
    return _is_possible(row)


def _v1(row: Request, fields: dict[str, float | None]) -> bool:
    """The engine's own clock, in seconds, and the arrival as a time of day."""
    queued, scheduled, first, last = (
        fields.get(name) for name in ("queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts")
    )
    if not queued or not scheduled or not first or not last:
        return False
    row.queue_ms, row.prefill_ms, row.decode_ms = (
        _ms(scheduled - queued),
        _ms(first - scheduled),
        _ms(last - first),
    )
    seen_s = fields.get("first_token_latency")
    row.ttft_ms = _ms(seen_s) if seen_s else _ms(first - queued)
    row.ttft_from = "arrival"
    row.total_ms = round((row.ttft_ms or 0.0) + (row.decode_ms or 0.0), 3)
    row.clock_start_ms, row.clock_end_ms = _ms(queued), _ms(last)
    generated = fields.get("num_generation_tokens")
    row.output_tokens = int(generated) if generated else None
    row.started_at = moment(fields.get("arrival_time"))
    if row.started_at is not None and is_span(row.total_ms):
        row.finished_at = row.started_at + timedelta(milliseconds=row.total_ms)
    return _is_possible(row)


def _is_possible(row: Request) -> bool:
    return all(map(is_span, (row.queue_ms, row.prefill_ms, row.decode_ms, row.ttft_ms, row.total_ms)))


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 3)


def _describe(row: Request, output: bytes) -> None:
    """What the `RequestOutput` says besides its metrics; of several answers, no count."""
    if name := _ID.search(output):
        row.request_id = name["id"].strip(b"'\"").decode()
    if prompt := _PROMPT_IDS.search(output):
        row.prompt_tokens = len(prompt[1].split(b",")) if prompt[1].strip() else None
    if cached := _CACHED.search(output):
        row.cached_tokens = int(cached[1])
    answers = _OUTPUT_IDS.findall(output.replace(b"prompt_token_ids=", b""))
    if len(answers) == 1:
        row.output_tokens = row.output_tokens or len([i for i in answers[0].split(b",") if i.strip()])
        reason = _REASON.search(output)
        row.finish_reason = reason[1].decode() if reason and reason[1] != b"None" else None
    elif answers:
        row.output_tokens = None


def _complete(row: Request) -> None:
    """What follows from the counts."""
    if row.prompt_tokens is not None and row.cached_tokens is not None:
        row.prefill_tokens = max(row.prompt_tokens - row.cached_tokens, 0)
    row.decode_steps = row.output_tokens - 1 if row.output_tokens else None
