"""The requests of a probe as rows in the contract's columns."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from parsers.records import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.probe.client import Sample
    from advisor.probe.target import Target
    from advisor.probe.waiting import Waits

_ASKED_FOR = "length"


def rows_of(
    samples: Sequence[Sample], target: Target, source: str, waited: Waits | None = None
) -> list[Request]:
    """What was measured: phases on the server's own clock where it tells them, the rest on ours.

    No estimate is in them: a wait only where the server's clock told it. That an answer ended at the length
    that was asked for is left out, for it says nothing of the server.

    Args:
        samples: the requests.
        target: who answered.
        source: its address.
        waited: what those waited that were sent at once.
    """
    rows = [_row(sample, target, source, line) for line, sample in enumerate(samples, 1)]
    if waited is not None and waited.source == "server":
        wait_ms = {id(sample): ms for sample, ms in zip(waited.samples, waited.ms, strict=True)}
        for sample, row in zip(samples, rows, strict=True):
            row.queue_ms = wait_ms.get(id(sample))
    return rows


def _row(sample: Sample, target: Target, source: str, line: int) -> Request:
    own = sample.own or Request()
    has_own_decode = own.decode_ms is not None and bool(own.decode_steps)
    tokens = sample.prompt_tokens, sample.output_tokens
    return Request(
        source=source,
        line=line,
        engine=target.engine,
        request_id=sample.request_id,
        model=sample.model or target.model,
        started_at=sample.started_at,
        finished_at=sample.started_at + timedelta(milliseconds=sample.total_ms),
        prompt_tokens=sample.prompt_tokens,
        cached_tokens=sample.cached_tokens,
        prefill_tokens=own.prefill_tokens
        if own.prefill_tokens is not None or sample.cached_tokens is None
        else sample.prefill_tokens,
        prefill_ms=own.prefill_ms,
        load_ms=own.load_ms,
        output_tokens=sample.output_tokens,
        decode_ms=own.decode_ms if has_own_decode else sample.decode_ms,
        decode_steps=own.decode_steps if has_own_decode else sample.decode_steps,
        ttft_ms=sample.ttft_ms,
        ttft_from="arrival",
        total_ms=sample.total_ms,
        context_tokens=None if None in tokens else sum(n or 0 for n in tokens),
        draft_tokens=own.draft_tokens,
        accepted_tokens=own.accepted_tokens,
        finish_reason=None if sample.finish_reason == _ASKED_FOR else sample.finish_reason,
    )
