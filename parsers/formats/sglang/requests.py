"""Finished requests, and the numbers SGLang keeps of each: its ``meta_info``.

It stands in three places: in the text of ``--log-requests`` (from level 1 on in old versions), in its JSON,
and flattened in the files of ``--export-metrics-to-file``. Queue and phases are in it only with
``--enable-metrics``: since 0.5.12 as times of day, in 0.5.9 as the time the prefill ended and how long all
of it took. ``--enable-request-time-stats-logging`` gives a line of its own, with the queue and the sum of
both phases.

The first token is made by the prefill, so decode time pays for one token less. A request that was retracted
waits and reads its prompt again in the middle: its queue and decode times are not given.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from parsers.formats.base import line
from parsers.formats.sglang.record import HEAD
from parsers.records import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers.formats.base import At

_MAYBE_HEAD = rb"(?:" + HEAD + rb")?"

FINISHED = (
    line("finished", b"Finish: obj=", _MAYBE_HEAD + rb"Finish: obj=(?P<text>\w+\(.*)"),
    line(
        "finished_json",
        b'"event": "request.finished"',
        _MAYBE_HEAD + rb'(?P<json>\{"timestamp": "[^"]*", "event": "request\.finished", .*)',
    ),
    line("exported", b'{"request_parameters": "', rb'(?P<json>\{"request_parameters": ".*)'),
)
RECEIVED = (
    line("received", b"Receive: obj=", HEAD + rb"Receive: obj="),
    line(
        "received",
        b'"event": "request.received"',
        HEAD + rb'\{"timestamp": "[^"]*", "event": "request\.received", ',
    ),
)
TIME_STATS = line(
    "time_stats",
    b"Stats(rid=",
    HEAD + rb"Req ?Time ?Stats\(rid=(?P<rid>[^,()]+), input[ _]len=(?P<input>\d+), "
    rb"(?:cached_input_len=(?P<cached>\d+), )?output[ _]len=(?P<output>\d+), "
    rb"(?:attempts=(?P<attempts>\d+), )?type=unified\): queue_duration=(?P<queue>-?[\d.]+)ms, "
    rb"forward_duration=(?P<forward>-?[\d.]+)ms",
)
"""Servers that only prefill or only decode (disaggregated) print other durations, which are not read."""

_LITERAL = rb"'(?:[^'\\]+|\\.)*+'|\"(?:[^\"\\]+|\\.)*+\""
_STRING = re.compile(_LITERAL)
_WHOLE = re.compile(rb"(?:[^'\"]+|" + _LITERAL + rb")*+")
_WORD = re.compile(rb"'[\w.:/-]{1,100}'")
_NUMBER = re.compile(rb"'(\w+)': (-?\d[\d.e+-]*)(?=[,}])")
_ID = re.compile(rb"'id': '([^']+)'")
_REASON = re.compile(rb"'finish_reason': \{'type': '(\w+)'")
_REFUSED = re.compile(rb"'status_code': (?!None\b)")
_HEALTH_CHECK = "HEALTH_CHECK"
_TOLERANCE_S = 0.002
_LONGEST_MS = 86_400_000.0 * 7
_MAX_COUNT = 1 << 53


def meta_of_text(printed: bytes) -> dict[str, Any] | None:
    """The ``meta_info`` of a ``Finish:`` line; ``None`` where the line doesn't reach it.

    Strings are emptied before anything is looked for: they may hold whole prompts, and prompts anything.
    """
    if not _WHOLE.fullmatch(printed):
        return None
    blank = _STRING.sub(lambda m: m[0] if _WORD.fullmatch(m[0]) else b"''", printed)
    meta = blank.partition(b", out={")[2].partition(b"'meta_info': {")[2]
    if not meta or blank.count(b"{") != blank.count(b"}"):
        return None
    found: dict[str, Any] = {}
    for key, value in _NUMBER.findall(meta):
        found.setdefault(key.decode(), _number(value))
    if request_id := _ID.search(meta):
        found["id"] = request_id[1].decode()
    if ended := _REASON.search(meta):
        refused = _REFUSED.search(meta) is not None
        found["finish_reason"] = {"type": ended[1].decode(), "status_code": refused or None}
    return found


def meta_of_json(printed: bytes) -> dict[str, Any] | None:
    """The ``meta_info`` of a JSON line, or the flattened one of an exported record."""
    try:
        record = json.loads(printed)
        meta = record if "request_parameters" in record else record["out"]["meta_info"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return meta if isinstance(meta, dict) and "prompt_tokens" in meta else None


def reason(meta: dict[str, Any]) -> str | None:
    """How a request ended: `stop`, `length`, `abort`."""
    found = meta.get("finish_reason")
    kind = found.get("type") if isinstance(found, dict) else None
    return kind if isinstance(kind, str) and kind.isalpha() and len(kind) < 16 else None


def was_refused(meta: dict[str, Any]) -> bool:
    """True when SGLang itself ended the request, with an HTTP status, rather than its client."""
    found = meta.get("finish_reason")
    return isinstance(found, dict) and found.get("status_code") is not None


def request_id(meta: dict[str, Any]) -> str | None:
    """The id of a request; clients may give their own."""
    found = meta.get("id")
    return found if isinstance(found, str) and _WORD.fullmatch(f"'{found}'".encode()) else None


def is_health_check(meta: dict[str, Any]) -> bool:
    """True for the server's own requests."""
    return _HEALTH_CHECK in str(meta.get("id"))


def finished(meta: dict[str, Any], at: At) -> tuple[Request, bool]:
    """The row of a finished request, and whether one of its times was impossible."""
    prompt, cached, output = (_count(meta, f"{key}_tokens") for key in ("prompt", "cached", "completion"))
    row = Request(line=at.number, engine="sglang", first_line=at.number, offset=at.offset)
    row.request_id, row.finish_reason = request_id(meta), reason(meta)
    row.prompt_tokens = prompt
    if prompt is not None and cached is not None and cached <= prompt:
        row.cached_tokens, row.prefill_tokens = cached, prompt - cached
    total_s = _seconds(meta, "e2e_latency")
    possible = total_s is None or 0 <= 1000 * total_s <= _LONGEST_MS
    row.total_ms = _ms(total_s) if total_s is not None and possible else None
    impossible = not possible or _times(row, meta, output)
    _ends(row, meta, at)
    if "completion_tokens" not in meta:
        row.kind = "embedding"
        return row, impossible
    row.output_tokens = output
    row.draft_tokens = _count(meta, "spec_num_proposed_drafts")
    row.accepted_tokens = _count(meta, "spec_num_correct_drafts")
    return row, impossible


def time_stats(m: re.Match[bytes], at: At) -> tuple[Request, bool]:
    """The row of a ``ReqTimeStats(...)`` line, and whether one of its times was impossible."""
    row = Request(line=at.number, engine="sglang", first_line=at.number, offset=at.offset)
    row.request_id = request_id({"id": m["rid"].decode("utf-8", "replace")})
    row.prompt_tokens, row.output_tokens = int(m["input"]), int(m["output"])
    if m["cached"] and int(m["cached"]) <= row.prompt_tokens:
        row.cached_tokens = int(m["cached"])
        row.prefill_tokens = row.prompt_tokens - row.cached_tokens
    row.finished_at = at.time
    queue_ms, forward_ms = _number(m["queue"]), _number(m["forward"])
    if queue_ms is None or forward_ms is None or not 0 <= queue_ms <= _LONGEST_MS:
        return row, True
    if forward_ms == 0:
        return row, False
    if not 0 < forward_ms <= _LONGEST_MS:
        return row, True
    if not m["attempts"] or int(m["attempts"]) <= 1:
        row.queue_ms, row.total_ms = queue_ms, round(queue_ms + forward_ms, 3)
    return row, False


def _times(row: Request, meta: dict[str, Any], output: int | None) -> bool:
    """Queue and phases into the row; true where they can't be."""
    retracted = any(_count(meta, key) for key in ("num_retractions", "total_retractions"))
    moments = list(_moments(meta))
    queue_s = _seconds(meta, "queue_time")
    known = [moment for moment in moments if moment is not None]
    in_order = all(before <= after + _TOLERANCE_S for before, after in pairwise(known))
    whole = row.total_ms is None or not known or _ms(known[-1] - known[0]) <= row.total_ms + 5
    if not (in_order and whole):
        return True
    _, entered, prefilled, ended = moments
    if entered is not None and prefilled is not None:
        row.prefill_ms = _ms(max(prefilled - entered, 0.0))
    if prefilled is not None and ended is not None and output and not retracted:
        row.decode_ms, row.decode_steps = _ms(max(ended - prefilled, 0.0)), output - 1
    if queue_s is not None and not retracted:
        if not 0 <= _ms(queue_s) <= (row.total_ms or _LONGEST_MS):
            return True
        row.queue_ms = _ms(queue_s)
    first_s = _seconds(meta, "first_token_latency")
    if first_s is not None and 0 < _ms(first_s) <= (row.total_ms or _LONGEST_MS):
        row.ttft_ms, row.ttft_from = _ms(first_s), "arrival"
    elif row.prefill_ms is not None and not retracted:
        row.ttft_ms = round((row.queue_ms or 0.0) + row.prefill_ms, 3)
        row.ttft_from = "slot" if row.queue_ms is None else "arrival"
    return False


def _moments(meta: dict[str, Any]) -> Iterator[float | None]:
    """When a request came, entered a batch, had its prompt read, and was done, in seconds since 1970."""
    ended = _epoch(meta, "request_finished_ts") or _epoch(meta, "decode_finished_ts")
    entered = _epoch(meta, "forward_entry_time")
    inference_s = _seconds(meta, "inference_time")
    if entered is None and ended is not None and inference_s is not None:
        entered = ended - inference_s
    yield _epoch(meta, "request_received_ts")
    yield entered
    yield _epoch(meta, "prefill_finished_time") or _epoch(meta, "prefill_finished_ts")
    yield ended


def _ends(row: Request, meta: dict[str, Any], at: At) -> None:
    """Start and end: stated to the microsecond, or the end by the log's clock."""
    ended = _epoch(meta, "request_finished_ts") or _epoch(meta, "decode_finished_ts")
    row.finished_at = at.time if ended is None else datetime.fromtimestamp(ended, UTC)
    if row.finished_at is not None and row.total_ms is not None:
        row.started_at = row.finished_at - timedelta(milliseconds=row.total_ms)


def _number(printed: bytes) -> float | None:
    try:
        return float(printed)
    except ValueError:
        return None


def _seconds(meta: dict[str, Any], key: str) -> float | None:
    value = meta.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > 1e12:
        return None
    return float(value) if value == value else None


def _epoch(meta: dict[str, Any], key: str) -> float | None:
    """A time of day; ``None`` for the clocks of a process, which some versions print instead."""
    value = _seconds(meta, key)
    return value if value is not None and 1e9 < value < 1e10 else None


def _count(meta: dict[str, Any], key: str) -> int | None:
    value = _seconds(meta, key)
    return int(value) if value is not None and value >= 0 and value == int(value) < _MAX_COUNT else None


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 3)
