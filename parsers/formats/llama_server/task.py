"""One task of llama-server: what its lines have said so far, and the request that this makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from parsers.formats.llama_cpp import clock_ms
from parsers.records import Request

if TYPE_CHECKING:
    from datetime import datetime

    from parsers.formats.base import At

ENGINE = "llama-server"

Phase: TypeAlias = "tuple[float | None, int | None]"
"""Milliseconds and tokens as printed; ``None`` for what the line's own rate contradicts."""


@dataclass(slots=True, eq=False)
class Task:
    """What is known of one task so far. Times in ms, counts in tokens.

    Attributes:
        launched: the line with which a slot took it was seen; without it earlier lines may be missing.
        untimed: it ended, and no timing can follow.
        last_clock: the process's clock on the newest line about it, as printed.
        drafts: tokens were drafted in this process, so that it may have lost its line about them.
        counts_drafts: its generated tokens surely hold every accepted one (builds that say `n_past`).
    """

    slot: int | None
    task: int | None
    at: At
    launched: bool = False
    clock_ms: float | None = None
    last_clock: bytes | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    prompt: int | None = None
    cached: int | None = None
    prefill: Phase | None = None
    decode: Phase | None = None
    total_ms: float | None = None
    timed_line: int = 0
    drafted: int | None = None
    accepted: int | None = None
    context: int | None = None
    truncated: bool | None = None
    finish_reason: str | None = None
    drafts: bool = False
    counts_drafts: bool = False
    shifted: bool = False
    cancelled: bool = False
    cancelled_clock_ms: float | None = None
    failed: bool = False
    untimed: bool = False

    @property
    def key(self) -> tuple[int | None, int | None]:
        """Slot and task, which name it while the process lives."""
        return self.slot, self.task

    @property
    def timed(self) -> bool:
        """Both phases are known."""
        return self.prefill is not None and self.decode is not None

    @property
    def is_plain(self) -> bool:
        """Nothing is known of it but its launch, the length of its prompt, and times in their usual order."""
        phases = self.prefill, self.decode, self.total_ms and (self.total_ms, 0)
        known = [phase is not None for phase in phases]
        others = self.drafted, self.accepted, self.context, self.truncated, self.finish_reason
        return (
            self.launched
            and known == sorted(known, reverse=True)
            and all(None not in phase for phase in phases if phase)
            and all(other is None for other in others)
            and not (self.shifted or self.cancelled or self.failed or self.untimed)
        )

    @property
    def generates(self) -> bool:
        """A timing line, or more in the context than its prompt: it is no embedding."""
        if self.context is not None and self.prompt is not None and self.context > self.prompt:
            return True
        return any(known is not None for known in (self.prefill, self.decode, self.total_ms))

    @property
    def only_read(self) -> bool:
        """Its context holds its prompt and no more."""
        return self.prompt is not None and self.context == self.prompt

    def awaits(self, line: str, tokens: int | None) -> bool:
        """Whether this line with this count can be its next one."""
        if line == "new_prompt":
            return self.prompt is None
        if line == "cached":
            return self.prompt is not None and self.cached is None
        if line == "slot_prefill":
            return self.prompt is None or self.prompt - (self.cached or 0) == tokens
        if line == "released":
            return self.timed or self.prompt == tokens
        return self.prefill is not None

    @property
    def released(self) -> bool:
        """Its slot is free again."""
        return self.truncated is not None

    def held_ms(self) -> float | None:
        """How long the slot stayed busy after the client had gone."""
        ended_ms = clock_ms(self.last_clock)
        if ended_ms is None or self.cancelled_clock_ms is None:
            return None
        return round(ended_ms - self.cancelled_clock_ms, 3)

    def request(self) -> Request | None:
        """The request of a task with timings; `together.py` makes those of many as columns."""
        if self.prefill is None or self.decode is None:
            return None
        row = self._row()
        row.prefill_ms, row.prefill_tokens = self.prefill
        row.decode_ms, row.output_tokens = self.decode
        if row.output_tokens is not None:
            row.decode_steps = max(row.output_tokens - 1, 0)
            if row.prefill_tokens is not None:
                self._count_prompt(row, row.prefill_tokens, row.output_tokens)
        row.total_ms = self.total_ms
        if row.prefill_ms is not None:
            row.ttft_ms, row.ttft_from = row.prefill_ms, "slot"
            if row.total_ms is None and row.decode_ms is not None:
                row.total_ms = round(row.prefill_ms + row.decode_ms, 2)
        row.draft_tokens, row.accepted_tokens = self.drafted, self.accepted
        return row

    def _count_prompt(self, row: Request, prefill: int, output: int) -> None:
        """The whole prompt and its cached part. A context that can't hold them is another task's."""
        row.cached_tokens = self._cached(prefill, output)
        if row.cached_tokens is not None:
            row.prompt_tokens = row.cached_tokens + prefill
        if self.context is not None and self._context_is_whole:
            held = self.context + 1 - prefill - output
            if held < 0 or row.cached_tokens not in (None, held):
                row.context_tokens = row.truncated = None

    def untimed_request(self, kind: str) -> Request:
        """Embedding and rerank tasks have a launch and a release, and no timing."""
        row = self._row()
        row.kind = kind
        row.prompt_tokens = self.context if self.prompt is None else self.prompt
        row.cached_tokens = self.cached
        return row

    def _cached(self, prefill: int, output: int) -> int | None:
        """Prompt tokens from the cache, by exact arithmetic on what the log states.

        At release the context holds the prompt and all generated tokens but the last, so without the
        prompt's length cached = context + 1 - evaluated - generated. That fails where the context was cut
        or shifted; where the prompt was empty, since the context is then an earlier request's; and since
        b9180 where tokens were drafted, since accepted ones after a stop stay in the context uncounted.
        """
        said = self._cached_counts(prefill, output)
        return said[0] if said and said[0] >= 0 and min(said) == max(said) else None

    def _cached_counts(self, prefill: int, output: int) -> list[int]:
        """What each of its lines makes of it; where they disagree one is another task's."""
        said = [] if self.prompt is None else [self.prompt - prefill]
        if self.cached is not None:
            said.append(self.cached)
        if self.context is not None and prefill and output and self._context_is_whole:
            said.append(self.context + 1 - prefill - output)
        return said

    @property
    def _context_is_whole(self) -> bool:
        drafted = self.drafted or (self.drafted is None and self.drafts)
        return not self.truncated and not self.shifted and (not drafted or self.counts_drafts)

    def _row(self) -> Request:
        return Request(
            line=self.timed_line or self.at.number,
            engine=ENGINE,
            request_id=None if self.task is None else str(self.task),
            slot=self.slot,
            started_at=self.started_at,
            finished_at=self.finished_at,
            context_tokens=self.context,
            finish_reason=self.finish_reason,
            truncated=self.truncated,
            first_line=self.at.number,
            offset=self.at.offset,
            clock_start_ms=self.clock_ms,
            clock_end_ms=clock_ms(self.last_clock),
        )
