"""MLC-LLM: the `extra` of an answer's usage (`mlc_llm serve --enable-debug`), and `/stats` of its chat.

The clock of the first token starts when the request is added to the engine: the wait for a place in the batch
is in it, so prefill alone can't be told. Decode is what the total has beyond it. ``prefill_tokens`` are those
that were not in the prefix cache.

`/stats` of the chat gives two rates and no count: no time follows from them, so such a request is counted as
incomplete. The engine's own sums (``engine_prefill_time_sum``) are times of batches and not read.

Read in cpp/serve/metrics.cc and metrics.h of mlc-llm at 79d603f0 (2026-07).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from parsers.formats.base import At, Format, Reader, line
from parsers.formats.json_records import BODY, is_span, moment, number, part, records, remember
from parsers.formats.json_values import count, text
from parsers.records import Request

if TYPE_CHECKING:
    import re

    from parsers.formats.process import Process

_ENGINE = "mlc-llm"

LINES = (
    line("body", b'"jump_forward_tokens":', BODY, b'"ttft_s":'),
    line("rates", b" tok/s, decode: ", rb"prefill: [\d.]+ tok/s, decode: [\d.]+ tok/s\s*$"),
)


class MlcReader(Reader):
    """Answers, each told once."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._told: dict[str, None] = {}

    def body(self, m: re.Match[bytes], at: At) -> bool:
        """``{"id":"chatcmpl-...","usage":{...,"extra":{...,"ttft_s":0.41,...}}}``."""
        found = False
        for body in records(m["body"]):
            row = self._row(body, at)
            found = found or row is not None
            if row is None or row.request_id in self._told:
                continue
            if row.request_id is not None:
                remember(self._told, row.request_id, None)
            self.process.emit(row)
        return found

    def _row(self, body: dict[str, Any], at: At) -> Request | None:
        extra = part(body, "usage", "extra")
        ttft_s, total_s = number(extra, "ttft_s"), number(extra, "end_to_end_latency_s")
        output = count(extra, "completion_tokens")
        if ttft_s is None or total_s is None or not output:
            return None
        choices = body.get("choices")
        row = Request(
            line=at.number,
            engine=_ENGINE,
            request_id=text(body, "id"),
            model=text(body, "model"),
            prompt_tokens=count(extra, "prompt_tokens"),
            prefill_tokens=count(extra, "prefill_tokens"),
            output_tokens=output,
            first_line=at.number,
            offset=at.offset,
        )
        if row.prompt_tokens is not None and row.prefill_tokens is not None:
            cached = row.prompt_tokens - row.prefill_tokens
            row.cached_tokens = cached if cached >= 0 else None
        if isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], dict):
            row.finish_reason = text(choices[0], "finish_reason")
        ttft_ms, total_ms = round(1000 * ttft_s, 3), round(1000 * total_s, 3)
        if not is_span(total_ms) or not 0 <= ttft_ms <= total_ms:
            self.process.counts.impossible_values += 1
            return row
        row.ttft_ms, row.ttft_from, row.total_ms = ttft_ms, "arrival", total_ms
        row.decode_ms, row.decode_steps = round(total_ms - ttft_ms, 3), output - 1
        if not isinstance(choices, list) or len(choices) > 1:
            row.decode_steps = None
        row.finished_at = moment(body.get("created"))
        row.started_at = row.finished_at and row.finished_at - timedelta(milliseconds=total_ms)
        return row

    def rates(self, _m: re.Match[bytes], at: At) -> None:
        """``prefill: 843.2 tok/s, decode: 61.7 tok/s``."""
        self.process.learn(at, engine=_ENGINE)
        self.process.counts.incomplete_requests += 1


FORMAT = Format(
    engine=_ENGINE,
    title="MLC-LLM",
    versions="0.1 and newer (answers with usage.extra)",
    grain="request",
    identify=(b'"jump_forward_tokens":', b" tok/s, decode: "),
    lines=LINES,
    reader=MlcReader,
    splits="time to first token (queue in it), decode",
    ends=("incomplete",),
)
