"""Engine steps: of the log line, of the JSON list, and of Triton's backend.

The log line's ``host_step_time`` is the step as the host saw it; ``prev_device_step_time`` is that of the
step before and takes in the idle time between, so it is not used. Its ``num_generation_tokens`` may be
padded to the size of a captured CUDA graph, or count draft tokens: it is believed only where it is the
number of requests that generate. All ranks may print (`TLLM_PROFILE_LOG_RANKS`): the first that does is
read.

In the JSON list ``iterLatencyMS`` spans about two steps under the overlap scheduler (TensorRT-LLM#14127): a
span is given by ``hostStepTimeMS``, or where the record says that nothing overlaps. Triton's statistics
have no times but a clock in whole seconds.

Read in tensorrt_llm/_torch/pyexecutor/py_executor.py (0.19 to 1.3rc), metrics/collector tests for the JSON,
and tensorrtllm_backend#217 for Triton.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from parsers.formats.base import line, number
from parsers.formats.json_records import BODY, NOWHERE, part
from parsers.formats.json_records import number as json_number
from parsers.formats.json_values import count
from parsers.records import Interval

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers.formats.base import At
    from parsers.formats.process import Counts

_ENGINE = "tensorrt-llm"

STEP = line(
    "step",
    b"global_rank = ",
    rb"(?:\d+: )?(?:\[(?P<time>\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d)\] )?(?:\[TRT-LLM\] )?(?:\[[A-Z]\] )?"
    rb"(?:\[\w+\]|\[RANK \d+\])* ?iter = \d+, global_rank = (?P<rank>\d+), (?P<fields>.*?)"
    rb"states = \{(?P<states>[^{}]*)\}",
)
STATISTICS = line("statistics", b'"inflightBatchingStats":', BODY, b'"inflightBatchingStats":')
BACKEND = line(
    "backend",
    b'"Active Request Count":',
    rb"(?:[A-Z]\d{4} [\d:.]+ \d+ \S+\.(?:cc|h):\d+\] )?(?P<body>\{(?s:.*)\})\s*$",
    b'"Active Request Count":',
)

_FIELD = re.compile(rb"\b(\w+)(?: =|:) ([\d.]+)(?:ms|s)?(?=[,\s])")
_STATE = re.compile(rb"'(\w+)': (\d{1,12})")
_PHASES = {(True, True): "mixed", (True, False): "prefill", (False, True): "decode"}


def step(m: re.Match[bytes], at: At) -> Interval | None:
    """The row of a log line; ``None`` for a step without requests, which waited."""
    fields = dict(_FIELD.findall(m["fields"]))
    states = {name: int(value) for name, value in _STATE.findall(m["states"])}
    prefills, tokens = states.get(b"num_ctx_requests"), states.get(b"num_generation_tokens")
    scheduled = fields.get(b"num_scheduled_requests")
    running = int(scheduled) if scheduled and scheduled.isdigit() else None
    decodes = running - prefills if running is not None and prefills is not None else tokens
    if prefills is None or tokens is None or decodes is None or decodes < 0 or not (prefills or decodes):
        return None
    return Interval(
        line=at.number,
        engine=_ENGINE,
        time=_time(m["time"], at),
        kind="iteration",
        span_ms=_span_ms(fields),
        prefill_tokens=states.get(b"num_ctx_tokens"),
        decode_tokens=tokens if not tokens or (running is not None and tokens == decodes) else None,
        running=running,
        kv_usage=_share(number(fields.get(b"kv_cache_util"))),
        phase=_PHASES[prefills > 0, decodes > 0],
    )


def statistics(record: dict[str, Any], at: At) -> Interval | None:
    """The row of a record of `/metrics`; ``None`` for a step without requests."""
    batch, cache = part(record, "inflightBatchingStats"), part(record, "kvCacheStats")
    prefills, decodes = count(batch, "numContextRequests"), count(batch, "numGenRequests")
    if not (prefills or decodes):
        return None
    drafts = part(record, "specDecodingStats")
    row = Interval(
        line=at.number,
        engine=_ENGINE,
        time=_record_time(record.get("timestamp"), at),
        kind="iteration",
        span_ms=json_number(record, "hostStepTimeMS"),
        prefill_tokens=count(batch, "numCtxTokens"),
        running=count(record, "numActiveRequests"),
        waiting=count(record, "numQueuedRequests"),
        kv_usage=_used(count(cache, "usedNumBlocks"), count(cache, "maxNumBlocks")),
        prefix_hit_rate=_share(json_number(cache, "cacheHitRate")),
        accept_length=json_number(drafts, "acceptanceLength") if count(drafts, "numDraftTokens") else None,
        phase=_PHASES[bool(prefills), bool(decodes)],
    )
    if row.span_ms is None and record.get("schedulerMode") == "non_overlap":
        row.span_ms = json_number(record, "iterLatencyMS")
    return row


def rows(record: Any, _counts: Counts) -> Iterator[Interval]:
    """The row of a record of `/metrics` that is read as a whole document; of several ranks the first."""
    if isinstance(record, dict) and record.get("attentionDpRank") in (None, 0):
        row = statistics(record, NOWHERE)
        if row is not None:
            yield row


def backend(record: dict[str, Any], at: At) -> Interval | None:
    """The row of Triton's statistics; ``None`` for a step without requests."""
    prefills, decodes = count(record, "Context Requests"), count(record, "Generation Requests")
    if not (prefills or decodes):
        return None
    return Interval(
        line=at.number,
        engine=_ENGINE,
        time=_record_time(record.get("Timestamp"), at),
        kind="iteration",
        prefill_tokens=count(record, "Total Context Tokens"),
        running=count(record, "Active Request Count"),
        kv_usage=_used(count(record, "Used KV cache blocks"), count(record, "Max KV cache blocks")),
        phase=_PHASES[bool(prefills), bool(decodes)],
    )


def _span_ms(fields: dict[bytes, bytes]) -> float | None:
    """``host_step_time`` in ms, or ``elapsed_time`` in s of the first versions."""
    host_ms, elapsed_s = number(fields.get(b"host_step_time")), number(fields.get(b"elapsed_time"))
    span_ms = 1000 * elapsed_s if host_ms is None and elapsed_s is not None else host_ms
    return None if span_ms is None else round(span_ms, 3)


def _used(used: int | None, most: int | None) -> float | None:
    return _share(used / most) if used is not None and most else None


def _share(value: float | None) -> float | None:
    return round(value, 6) if value is not None and 0 <= value <= 1 else None


def _time(printed: bytes | None, at: At) -> datetime | None:
    """The carrier's clock, else the line's own, which names no zone and is taken as UTC."""
    if at.time is not None or printed is None:
        return at.time
    return _parsed(printed.decode("ascii"), "%m/%d/%Y-%H:%M:%S")


def _record_time(value: object, at: At) -> datetime | None:
    if at.time is not None or not isinstance(value, str):
        return at.time
    return _parsed(value.partition(".")[0], "%m-%d-%Y %H:%M:%S")


def _parsed(value: str, shape: str) -> datetime | None:
    try:
        return datetime.strptime(value, shape).replace(tzinfo=UTC)
    except ValueError:
        return None
